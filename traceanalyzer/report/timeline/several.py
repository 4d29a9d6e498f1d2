"""The timelines of a page: the representative step first, other steps of the same rank, and the ranks side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.report.format import figure
from traceanalyzer.report.timeline.compile_spans import compile_spans
from traceanalyzer.report.timeline.lanes import Events, Lane, Shown, Timeline
from traceanalyzer.report.timeline.step_timeline import representative, step_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.selection import Measured
    from traceanalyzer.trace import I64

MAX_RANKS = 16
"""Ranks drawn below each other: more lanes than a screen has room for say nothing."""


def timelines(of: Measured, logs: Sequence[CompileLog] = ()) -> list[Timeline]:
    """All of them; empty where nothing was recorded event by event."""
    m = of.critical
    first = step_timeline(m, compile_spans(logs, m.trace))
    if first is None:
        return []
    return [replace(first, title=_title(m, representative(m.steps), "median")), *_other_steps(m), *_of_ranks(of)]


def _title(m: Measurements, step: int, which: str) -> str:
    if not m.steps.found:
        return "everything recorded"
    rank = "" if m.trace.rank is None else f"rank {m.trace.rank}, "
    return f"{rank}step {m.steps.first + step} ({which}, {figure(int(m.steps.duration[step]), 'ns')})"


def _other_steps(m: Measurements) -> Iterator[Timeline]:
    """The slowest and the fastest steady step."""
    steps = m.steps
    if not steps.found:
        return
    time, shown = steps.duration[steps.steady], {representative(steps)}
    for which, found in (("slowest", time.argmax()), ("fastest", time.argmin())):
        step = steps.warmup + int(found)
        made = None if step in shown else step_timeline(m, None, step)
        if made is not None:
            yield replace(made, title=_title(m, step, which))
        shown.add(step)


def _of_ranks(of: Measured) -> Iterator[Timeline]:
    """The same step of every rank, on the critical one's clock, where the clocks can be compared."""
    offsets, step = of.ranks.offset_ns, representative(of.critical.steps)
    if len(of.each) < 2 or offsets is None:
        return
    # Recordings need not begin with the same step: the one at the same time is meant.
    begun = int(of.critical.steps.start[step]) - offsets[of.ranks.critical]
    parts = []
    for i, m in list(enumerate(of.each))[:MAX_RANKS]:
        nearest = int(np.abs(m.steps.start - offsets[i] - begun).argmin())
        drawn = step_timeline(m, None, nearest, device_alone=True)
        if drawn is not None:
            rank = i if m.trace.rank is None else m.trace.rank
            parts.append((f"rank {rank} ", drawn, drawn.origin_ns - offsets[i] - begun))
    if len(parts) > 1:
        which = f"step {of.critical.steps.first + step}" if of.critical.steps.found else "everything"
        yield joined(parts, f"{len(parts)} ranks, {which}")


def joined(parts: Sequence[tuple[str, Timeline, int]], title: str) -> Timeline:
    """Timelines below each other: what their lanes' titles begin with, and the moment (ns) that their times count
    from."""
    lanes: list[Lane] = []
    names: list[str] = []
    details: list[str] = []
    columns: list[dict[str, I64]] = []
    for prefix, one, at in parts:
        events = one.events
        columns.append(
            {
                "lane": events.lane + len(lanes),
                "category": events.category,
                "start": events.start + at,
                "end": events.end + at,
                "name": np.where(events.name >= 0, events.name + len(names), -1),
                "detail": np.where(events.detail >= 0, events.detail + len(details), -1),
            }
        )
        lanes += [Lane(prefix + lane.title, lane.level) for lane in one.lanes]
        names += one.names
        details += one.detail
    first = parts[0][1]
    shown: dict[str, tuple[int, int]] = {}
    for _, one, _ in parts:
        for s in one.shown:
            before = shown.get(s.what, (0, 0))
            shown[s.what] = (before[0] + s.shown, before[1] + s.total)
    return Timeline(
        step=first.step,
        origin_ns=first.origin_ns - parts[0][2],
        extent=(min(one.window[0] + at for _, one, at in parts), max(one.window[1] + at for _, one, at in parts)),
        window=(min(one.window[0] + at for _, one, at in parts), max(one.window[1] + at for _, one, at in parts)),
        lanes=lanes,
        names=names,
        detail=details,
        events=Events.from_columns({name: np.concatenate([c[name] for c in columns]) for name in columns[0]}),
        shown=[Shown(what, *counts) for what, counts in shown.items()],
        title=title,
    )
