"""The timelines of a page: the representative step first, other steps of the same rank, and the ranks side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import Measured
from traceanalyzer.report.format import figure
from traceanalyzer.report.timeline.lanes import (
    Category,
    Events,
    Lane,
    Shown,
    Timeline,
    compile_spans,
    representative,
    shown_steps,
)
from traceanalyzer.report.timeline.step_timeline import step_timeline
from traceanalyzer.trace import I32, I64
from traceanalyzer.trace.compile_log import CompileLog

MAX_RANKS = 16
"""Ranks drawn below each other: more lanes than a screen has room for say nothing."""
PIXELS = 2_000
"""As many as a wide screen has."""


def timelines(of: Measured, logs: Sequence[CompileLog] = ()) -> list[Timeline]:
    """All of them; empty where nothing was recorded event by event."""
    m = of.critical
    first = step_timeline(m, compile_spans(logs, m.trace))
    if first is None:
        return []
    return [replace(first, title=_title(m, representative(m.timed.steps), "median")), *_other_steps(m), *_of_ranks(of)]


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


def _of_ranks(of: Measured) -> Iterator[Timeline]:
    """The same step of every rank, on the critical one's clock, where the clocks can be compared."""
    offsets, step = of.ranks.offset_ns, representative(of.critical.timed.steps)
    if len(of.each) < 2 or offsets is None:
        return
    # Recordings need not begin with the same step: the one at the same time is meant.
    begun = int(of.critical.timed.steps.start[step]) - offsets[of.ranks.critical]
    parts = []
    for i in of.ranks.worst_first[:MAX_RANKS]:
        m = of.each[i]
        nearest = int(np.abs(m.timed.steps.start - offsets[i] - begun).argmin())
        drawn = step_timeline(m, None, nearest, device_alone=True)
        if drawn is not None:
            rank = i if m.trace.rank is None else m.trace.rank
            parts.append((f"rank {rank} ", in_blocks(drawn), drawn.origin_ns - offsets[i] - begun))
    if len(parts) > 1:
        which = f"step {of.critical.timed.steps.first + step}" if of.critical.timed.steps.found else "everything"
        some = "" if len(parts) == len(of.each) else f" of {len(of.each)}, those that hold up the run most"
        yield joined(parts, f"{len(parts)} ranks{some}, {which}")


def in_blocks(one: Timeline) -> Timeline:
    """Events that are shorter than a pixel, and nearer than that to the next of their lane and kind, as one block: a
    device that is busy with short kernels looks busy."""
    events, least = one.events, (one.window[1] - one.window[0]) // PIXELS
    events = events.take(np.lexsort((events.start, events.category, events.lane)))
    short = events.end - events.start < least
    follows = short[1:] & short[:-1] & (events.start[1:] - events.end[:-1] < least)
    follows &= (events.lane[1:] == events.lane[:-1]) & (events.category[1:] == events.category[:-1])
    first = np.flatnonzero(np.append(True, ~follows))[: len(events)]
    count = np.diff(np.append(first, len(events)))
    several = zip(count[count > 1].tolist(), events.category[first[count > 1]].tolist(), strict=True)
    names = [f"{n:,} short {Category(kind).label}" for n, kind in several]
    blocks = events.take(first)
    name = blocks.name.copy()
    name[count > 1] = len(one.names) + np.arange(len(names))
    end = np.maximum.reduceat(events.end, first) if len(first) else events.end
    return replace(one, names=[*one.names, *names], events=replace(blocks, end=end, name=name))


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
