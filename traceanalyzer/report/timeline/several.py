"""The timelines of a page: the representative step first, other steps of the same rank, all of them, and the ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import Measured
from traceanalyzer.report.format import figure
from traceanalyzer.report.timeline.lanes import (
    Events,
    Lane,
    Shown,
    Timeline,
    compile_spans,
    representative,
    shown_steps,
)
from traceanalyzer.report.timeline.overview import Stretch, overview
from traceanalyzer.report.timeline.step_timeline import step_timeline
from traceanalyzer.trace import I32, I64
from traceanalyzer.trace.compile_log import CompileLog

MAX_RANKS = 16
"""Ranks drawn below each other: more lanes than a screen has room for say nothing."""
MAX_THREADS, LEVELS = 2, 4
"""Of the host, where all steps are drawn."""


def timelines(of: Measured, logs: Sequence[CompileLog] = ()) -> list[Timeline]:
    """All of them; empty where nothing was recorded event by event."""
    m = of.critical
    first = step_timeline(m, compile_spans(logs, m.trace))
    if first is None:
        return []
    first = replace(first, title=_title(m, representative(m.timed.steps), "median"))
    return [first, *_other_steps(m), *_all_steps(m), *_of_ranks(of)]


def _title(m: Measurements, step: int, which: str) -> str:
    if not m.timed.steps.found:
        return "everything recorded"
    rank = "" if m.trace.rank is None else f"rank {m.trace.rank}, "
    return f"{rank}step {m.timed.steps.first + step} ({which}, {figure(int(m.timed.steps.duration[step]), 'ns')})"


def _other_steps(m: Measurements) -> Iterator[Timeline]:
    """The slowest and the fastest steady step."""
    for step, which in list(shown_steps(m.timed.steps).items())[1:]:
        made = step_timeline(m, None, step)
        if made is not None:
            yield replace(made, title=_title(m, step, which))


def _all_steps(m: Measurements) -> Iterator[Timeline]:
    """All that was recorded of the rank's steps."""
    steps = m.timed.steps
    if steps.found and len(steps) > 1:
        start, end = int(steps.start.min()), int(steps.end.max())
        whole = Stretch(m, start, end, -start, threads=MAX_THREADS, levels=LEVELS, steps=True)
        rank = "" if m.trace.rank is None else f"rank {m.trace.rank}, "
        yield overview([whole], start, f"{rank}all {len(steps)} steps")


def _of_ranks(of: Measured) -> Iterator[Timeline]:
    """The same step of every rank, on the critical one's clock, where the clocks can be compared."""
    offsets, step = of.ranks.offset_ns, representative(of.critical.timed.steps)
    if len(of.each) < 2 or offsets is None:
        return
    # Recordings need not begin with the same step: the one at the same time is meant.
    origin = int(of.critical.timed.steps.start[step])
    begun = origin - offsets[of.ranks.critical]
    parts = []
    for i in of.ranks.worst_first[:MAX_RANKS]:
        m, shift = of.each[i], offsets[i] + begun
        nearest = int(np.abs(m.timed.steps.start - shift).argmin())
        window = int(m.timed.steps.start[nearest]), int(m.timed.steps.end[nearest])
        rank = i if m.trace.rank is None else m.trace.rank
        parts.append(Stretch(m, *window, -shift, f"rank {rank} "))
    which = f"step {of.critical.timed.steps.first + step}" if of.critical.timed.steps.found else "everything"
    some = "" if len(parts) == len(of.each) else f" of {len(of.each)}, those that hold up the run most"
    yield overview(parts, origin, f"{len(parts)} ranks{some}, {which}")


def joined(parts: Sequence[tuple[str, Timeline, int]], title: str) -> Timeline:
    """Timelines below each other: what their lanes' titles begin with, and the moment (ns) that their times count
    from."""
    whole = _Whole()
    for prefix, one, at in parts:
        whole.add(prefix, one, at)
    first = parts[0][1]
    window = (min(one.window[0] + at for _, one, at in parts), max(one.window[1] + at for _, one, at in parts))
    return Timeline(
        step=first.step,
        origin_ns=first.origin_ns - parts[0][2],
        extent=window,
        window=window,
        lanes=whole.lanes,
        names=whole.names,
        detail=whole.details,
        events=Events.from_columns(
            {f.name: np.concatenate([c[f.name] for c in whole.columns]) for f in fields(Events)}
        ),
        shown=[Shown(what, *counts) for what, counts in whole.shown.items()],
        title=title,
        facts=whole.facts,
        path=whole.path,
    )


class _Whole:
    """What has been put below each other so far; the codes of what follows count on from it."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.names: list[str] = []
        self.details: list[str] = []
        self.facts: list[list[str]] = []
        self.columns: list[dict[str, Any]] = []
        self.path: list[tuple[int, int, int]] = []
        self.shown: dict[str, tuple[int, int]] = {}
        self.owned = 0

    def add(self, prefix: str, one: Timeline, at: int) -> None:
        """Another timeline below."""
        events = one.events

        def after(codes: I32 | I64, count: int) -> I32 | I64:
            return np.where(codes >= 0, codes + count, -1)

        changed = {
            "lane": events.lane + len(self.lanes),
            "start": events.start + at,
            "end": events.end + at,
            "name": after(events.name, len(self.names)),
            "detail": after(events.detail, len(self.details)),
            "facts": after(events.facts, len(self.facts)),
            "own": after(events.own, self.owned),
            "link": after(events.link, self.owned),
        }
        self.columns.append({f.name: changed.get(f.name, getattr(events, f.name)) for f in fields(events)})
        self.owned += int(max(events.own.max(initial=-1), events.link.max(initial=-1))) + 1
        self.path += [(start + at, end + at, lane + len(self.lanes)) for start, end, lane in one.path]
        self.lanes += [Lane(prefix + lane.title, lane.level) for lane in one.lanes]
        self.names += one.names
        self.details += one.detail
        self.facts += one.facts
        for s in one.shown:
            before = self.shown.get(s.what, (0, 0))
            self.shown[s.what] = (before[0] + s.shown, before[1] + s.total)
