"""The timelines of a page: the representative step first, other steps of the same rank, all of
them, and the ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

import numpy as np

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.format import figure
from traceanalyzer.report.timeline import lanes
from traceanalyzer.report.timeline.lanes import DrawnEvents, Shown, Timeline, representative
from traceanalyzer.report.timeline.overview import DrawnStretch, overview
from traceanalyzer.report.timeline.step_timeline import step_timeline
from traceanalyzer.trace.compile_log import CompileLog

MAX_RANKS = 16  # ranks drawn below each other: more lanes than a screen has room for say nothing
MAX_THREADS = 2  # of the host, where all steps are drawn
LEVELS = 4


def timelines(measured: MeasuredRanks, logs: Sequence[CompileLog] = ()) -> list[Timeline]:
    """All of them; empty where nothing was recorded event by event."""
    m = measured.critical
    first = step_timeline(m, lanes.compile_spans(logs, m.trace))
    if first is None:
        return []
    first = replace(first, title=_title(m, representative(m.timed.steps), "median"))
    others = []  # the slowest and the fastest steady step
    for step, which in list(lanes.shown_steps(m.timed.steps).items())[1:]:
        drawn = step_timeline(m, None, step)
        if drawn is not None:
            others.append(replace(drawn, title=_title(m, step, which)))
    return [first, *others, *_all_steps(m), *_of_ranks(measured)]


def _title(m: Measurements, step: int, which: str) -> str:
    if not m.timed.steps.found:
        return "everything recorded"
    rank = "" if m.trace.rank is None else f"rank {m.trace.rank}, "
    return (
        f"{rank}step {m.timed.steps.first + step} ({which}, "
        f"{figure(int(m.timed.steps.duration[step]), 'ns')})"
    )


def _all_steps(m: Measurements) -> Iterator[Timeline]:
    """All that was recorded of the rank's steps."""
    steps = m.timed.steps
    if steps.found and len(steps) > 1:
        start = int(steps.start.min())
        end = int(steps.end.max())
        recorded = DrawnStretch(
            m, start, end, -start, threads=MAX_THREADS, levels=LEVELS, steps=True
        )
        rank = "" if m.trace.rank is None else f"rank {m.trace.rank}, "
        yield overview([recorded], start, f"{rank}all {len(steps)} steps")


def _of_ranks(measured: MeasuredRanks) -> Iterator[Timeline]:
    """One step of every rank, on the critical one's clock, where the clocks can be
    compared."""
    offsets = measured.ranks.offset_ns
    step = representative(measured.critical.timed.steps)
    if len(measured.each) < 2 or offsets is None:
        return
    # Recordings need not begin with the same step: the one at the same time is meant.
    origin = int(measured.critical.timed.steps.start[step])
    begun = origin - offsets[measured.ranks.critical]
    parts = []
    for i in measured.ranks.worst_first[:MAX_RANKS]:
        m = measured.each[i]
        shift = offsets[i] + begun
        nearest = int(np.abs(m.timed.steps.start - shift).argmin())
        window = int(m.timed.steps.start[nearest]), int(m.timed.steps.end[nearest])
        rank = i if m.trace.rank is None else m.trace.rank
        parts.append(DrawnStretch(m, *window, -shift, f"rank {rank} "))
    which = (
        f"step {measured.critical.timed.steps.first + step}"
        if measured.critical.timed.steps.found
        else "everything"
    )
    some = (
        ""
        if len(parts) == len(measured.each)
        else f" of {len(measured.each)}, those that hold up the run most"
    )
    yield overview(parts, origin, f"{len(parts)} ranks{some}, {which}")


def timelines_together(parts: Sequence[tuple[str, Timeline]], title: str) -> Timeline:
    """Timelines below each other, each with what its lanes' titles begin with."""
    named = []
    for prefix, timeline in parts:
        titled = [replace(lane, title=prefix + lane.title) for lane in timeline.lanes]
        named.append(replace(timeline, lanes=titled))
    together = reduce(_with_below, named)
    return replace(together, extent=together.window, title=title)


def _with_below(timeline: Timeline, lower: Timeline) -> Timeline:
    """Both; the codes of the lower one's events count on from those of the upper one's."""
    upper = timeline.events
    above = len(timeline.lanes)
    last_own = max(upper.own.max(initial=-1), upper.link.max(initial=-1))
    owned = int(last_own) + 1
    before = {
        "lane": above,
        "name": len(timeline.names),
        "detail": len(timeline.detail),
        "facts": len(timeline.facts),
        "own": owned,
        "link": owned,
    }
    columns = {}
    for f in fields(DrawnEvents):
        codes = getattr(lower.events, f.name)
        if f.name in before:
            codes = np.where(codes >= 0, codes + before[f.name], -1)
        columns[f.name] = np.concatenate([getattr(upper, f.name), codes])
    lists: dict[str, Any] = {
        name: [*getattr(timeline, name), *getattr(lower, name)]
        for name in ("lanes", "names", "detail", "facts")
    }
    begin = min(timeline.window[0], lower.window[0])
    end = max(timeline.window[1], lower.window[1])
    return replace(
        timeline,
        **lists,
        window=(begin, end),
        events=DrawnEvents.from_columns(columns),
        shown=_added(timeline.shown, lower.shown),
        path=[
            *timeline.path,
            *((start, end, lane + above) for start, end, lane in lower.path),
        ],
    )


def _added(upper: Sequence[Shown], lower: Sequence[Shown]) -> list[Shown]:
    """How much is shown of each sort in both."""
    shown = {count.what: count for count in upper}
    for count in lower:
        before = shown.get(count.what, Shown(count.what, 0, 0))
        both = Shown(count.what, before.shown + count.shown, before.total + count.total)
        shown[count.what] = both
    return list(shown.values())
