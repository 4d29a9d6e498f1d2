"""What in a recording tells its steps apart: each function returns the steps it finds, or None."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.trace import I32, I64

PROFILER_STEP = re.compile(r"^ProfilerStep[#*]?\s*\d*$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
STEP_LIKE = re.compile(r"step|iter|batch", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")

MIN_REPEATS = 3
"""Fewer instances of a name are not a rhythm."""
MIN_COMPLETE = 2
"""Complete periods left once the sequence has been cut at its pause."""
MIN_COVERAGE = 0.8
"""A range is the step only if it holds nearly all launches; the forward pass or the optimizer alone do not."""
MIN_MATCH = 0.9
"""Share of device ops that must recur one period later; warm-up and occasional extra ops are the rest."""
MAX_ANCHORS = 32
"""How many rare kernel names are tried as the mark of a period."""


@dataclass(frozen=True, eq=False)
class HostSteps:
    """Host ranges of steps in time order; `of_op` where the evidence gives the ops of a step directly."""

    source: str
    names: tuple[str, ...]
    start: I64
    end: I64
    of_op: I32 | None = None


def profiler_steps(linked: Linked) -> HostSteps | None:
    """`ProfilerStep#N` annotations; in a recording without a host those projected on the device."""
    ranges = linked.trace.host_ranges
    codes = [i for i, name in enumerate(linked.trace.strings) if PROFILER_STEP.match(name)]
    if not codes:
        return None
    rows = np.flatnonzero((ranges.kind == RangeKind.ANNOTATION) & np.isin(ranges.name, codes))
    if len(rows):
        reach = np.maximum.accumulate(ranges.end[rows])
        rows = rows[np.concatenate(([True], ranges.start[rows][1:] >= reach[:-1]))]
        names = tuple(linked.trace.strings[c] for c in ranges.name[rows])
        return HostSteps("profiler_step", names, ranges.start[rows], ranges.end[rows])
    return _projected_steps(linked, codes)


def _projected_steps(linked: Linked, codes: list[int]) -> HostSteps | None:
    projected, ops = linked.trace.device_ranges, linked.trace.device_ops
    rows = np.flatnonzero(np.isin(projected.name, codes))
    if not len(rows) or not len(ops):
        return None
    names = np.unique(projected.name[rows])
    start = np.full(len(names), np.iinfo(np.int64).max)
    end = np.full(len(names), np.iinfo(np.int64).min)
    position = np.searchsorted(names, projected.name[rows])
    np.minimum.at(start, position, projected.start[rows])
    np.maximum.at(end, position, projected.end[rows])
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    of_op = np.searchsorted(start, ops.start, side="right") - 1
    of_op[ops.start >= end[np.maximum(of_op, 0)]] = -1
    texts = tuple(linked.trace.strings[c] for c in names[order])
    return HostSteps("profiler_step", texts, start, end, of_op.astype(np.int32))


def annotated(linked: Linked) -> HostSteps | None:
    """The repeated annotation that holds nearly all launches; else the stretches between optimizer steps."""
    trace = linked.trace
    rows = np.flatnonzero(trace.host_ranges.kind == RangeKind.ANNOTATION)
    if not len(rows):
        return None
    source = trace.annotated_with
    groups = _repeated(linked, rows)
    covering = [g for g in groups if _coverage(linked, g) >= MIN_COVERAGE]
    if covering:
        best = max(covering, key=lambda g: (_looks_like_step(linked, g), _length(linked, g)))
        ranges = trace.host_ranges
        names = tuple(trace.strings[c] for c in ranges.name[best])
        return HostSteps(source, names, ranges.start[best], ranges.end[best])
    return _between_optimizer_steps(linked, groups, source)


def _repeated(linked: Linked, rows: I64) -> list[I64]:
    """Rows of annotations grouped by thread and name without numbers; groups that repeat without overlap."""
    ranges = linked.trace.host_ranges
    groups: dict[tuple[int, str], list[int]] = {}
    base = {int(c): _DIGITS.sub("#", linked.trace.strings[c]) for c in np.unique(ranges.name[rows])}
    for row, code, thread in zip(rows.tolist(), ranges.name[rows].tolist(), ranges.thread[rows].tolist(), strict=True):
        groups.setdefault((thread, base[code]), []).append(row)
    arrays = [np.array(g, np.int64) for g in groups.values() if len(g) >= MIN_REPEATS]
    return [g for g in arrays if np.all(ranges.start[g[1:]] >= ranges.end[g[:-1]])]


def _coverage(linked: Linked, group: I64) -> float:
    """Share of the device ops launched while the group repeats that were launched inside one of its ranges."""
    ranges, time = linked.trace.host_ranges, linked.launch_time
    time = time[time >= 0]
    if not len(time):
        time = linked.trace.host_ranges.start
    start, end = ranges.start[group], ranges.end[group]
    time = time[(time >= start[0]) & (time < end[-1])]
    if not len(time):
        return 0.0
    index = np.searchsorted(start, time, side="right") - 1
    return float(np.mean(time < end[index]))


def _looks_like_step(linked: Linked, group: I64) -> bool:
    name = linked.trace.strings[linked.trace.host_ranges.name[group[0]]]
    return bool(STEP_LIKE.search(name))


def _length(linked: Linked, group: I64) -> int:
    ranges = linked.trace.host_ranges
    return int((ranges.end[group] - ranges.start[group]).sum())


def _between_optimizer_steps(linked: Linked, groups: list[I64], source: str) -> HostSteps | None:
    ranges = linked.trace.host_ranges
    for group in groups:
        if OPTIMIZER_STEP.match(linked.trace.strings[ranges.name[group[0]]]):
            end = ranges.end[group]
            names = tuple(f"step {i}" for i in range(1, len(end)))
            return HostSteps(source, names, end[:-1], end[1:])
    return None


def periodic(linked: Linked) -> HostSteps | None:
    """Repetitions of the sequence of device ops on the busiest device, cut at its widest regular pause."""
    ops = linked.trace.device_ops
    if not len(ops):
        return None
    rows = np.flatnonzero(ops.device == np.bincount(ops.device - ops.device.min()).argmax() + ops.device.min())
    sequence = ops.name[rows]
    found = _period(sequence)
    if found is None:
        return None
    period, anchor = found
    reach = np.maximum.accumulate(ops.end[rows])
    pause = np.concatenate((np.zeros(1, np.int64), ops.start[rows][1:] - reach[:-1]))
    first = anchor % period
    cut = first + _widest_pause(pause[first:], period)
    bounds = np.arange(cut % period, len(rows) + 1, period)
    if len(bounds) <= MIN_COMPLETE:
        return None
    of_op = np.full(len(ops), -1, np.int32)
    inside = rows[bounds[0] : bounds[-1]]
    of_op[inside] = np.repeat(np.arange(len(bounds) - 1), period)
    time = np.where(linked.launch_time >= 0, linked.launch_time, ops.start)[rows]
    time = np.maximum.accumulate(time)
    start = time[bounds[:-1]]
    end = np.append(start[1:], time[bounds[-1] - 1] + 1)
    names = tuple(f"period {i}" for i in range(len(start)))
    return HostSteps("periodicity", names, start, end, of_op)


def _widest_pause(pause: I64, period: int) -> int:
    """The position in the period before which the device pauses longest (median over repetitions)."""
    repeats = len(pause) // period
    return int(np.median(pause[: repeats * period].reshape(repeats, period), axis=0).argmax())


def _period(sequence: I32) -> tuple[int, int] | None:
    """Length of the shortest repetition marked by a rare name, and the position of one such name."""
    codes, first, counts = np.unique(sequence, return_index=True, return_counts=True)
    rare = np.argsort(counts, kind="stable")
    rare = rare[(counts[rare] >= MIN_REPEATS)][:MAX_ANCHORS]
    for candidate in rare:
        positions = np.flatnonzero(sequence == codes[candidate])
        distance = np.diff(positions)
        period = int(np.median(distance))
        if period < 2 or np.mean(distance == period) < MIN_MATCH:
            continue
        if np.mean(sequence[period:] == sequence[:-period]) >= MIN_MATCH:
            return period, int(first[candidate])
    return None
