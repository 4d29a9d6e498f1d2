"""Repetition of a device's work: found by the sequence of its ops alone, so that it may be layers
as well as steps."""

import itertools
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, texts_where, union
from traceanalyzer.analysis.joined.joined import names_used
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.pytorch import FRAMEWORK, LAYER_LIKE, TRAINING
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.time.markers import outermost_modules, outermost_ranges
from traceanalyzer.analysis.time.step_evidence import DIGITS, MIN_COVERAGE, MIN_REPEATS, HostSteps
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Bool, DeviceOpKind, RangeKind

MIN_MATCH = 0.9
"""Share of device ops that must recur one period later; occasional extra ops are the rest."""
MIN_COMPLETE = 2
"""Complete repetitions left once the sequence has been cut at its pause, of at least three of its
mark."""
MAX_ANCHORS = 32  # how many rare kernel names are tried as the mark of a period
TELLING_OPS = 20
"""A shorter sequence may recur by chance, or by habit (a copy, a kernel, a copy back): it must
recur with the same launch configurations and sizes to count."""


@dataclass(frozen=True, eq=False)
class Repetitions:
    """Repetitions of one sequence of device ops, in time order, one behind the other."""

    bounds: I64  # positions in `rows` at which a repetition begins, and where the last one ends
    rows: I64  # rows of `Trace.device_ops`, those of one device in the order of their starts

    @property
    def count(self) -> int:
        """How many repetitions there are."""
        return len(self.bounds) - 1


def periodic(linked: TraceJoins) -> HostSteps | None:
    """Repetitions of the sequence of device ops on the busiest device, cut at its widest regular
    pause.

    Only where they hold nearly all of its work, split no marker, no call of a module and no graph
    launch, and where it is no inference by PyTorch: there the layers of one pass recur as steps
    do."""
    ops = linked.trace.device_ops
    if not len(ops) or linked.memo(inference_only):
        return None
    devices, count = np.unique(ops.device, return_counts=True)
    period = find_period(
        linked, np.flatnonzero(ops.device == int(devices[count.argmax()])), unsplit=True
    )
    if (
        period is None
        or _share(linked, period) < MIN_COVERAGE
        or numbered_part(linked, period) is not None
    ):
        return None
    of_op = np.full(len(ops), -1, np.int32)
    inside = period.rows[period.bounds[0] : period.bounds[-1]]
    of_op[inside] = np.repeat(np.arange(period.count), np.diff(period.bounds))
    time = np.maximum.accumulate(
        np.where(linked.launch_time >= 0, linked.launch_time, ops.start)[period.rows]
    )
    start = time[period.bounds[:-1]]
    end = np.append(start[1:], time[period.bounds[-1] - 1] + 1)
    return HostSteps(
        "periodicity", tuple(f"period {i}" for i in range(period.count)), start, end, of_op
    )


class _NumberedMark(NamedTuple):
    """An annotation with a number in its name."""

    repetition: int
    name: int  # code


def numbered_part(linked: TraceJoins, found: Repetitions) -> str | None:
    """The annotation, its number written as #, of which (nearly) every repetition holds one, of
    another number than the one before: `blocks.7`, `blocks.8`. The repetitions are then parts of a
    model; None where there is none."""
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    numbered = texts_where(strings, lambda text: bool(LAYER_LIKE.search(text)))
    rows = np.flatnonzero((ranges.kind == RangeKind.ANNOTATION) & numbered[ranges.name])
    repetition = _repetition_of(linked, found, rows)
    inside = np.flatnonzero(repetition >= 0)
    marks: dict[str, list[_NumberedMark]] = {}
    for index, code in zip(
        repetition[inside].tolist(), ranges.name[rows[inside]].tolist(), strict=True
    ):
        marks.setdefault(DIGITS.sub("#", strings[code]), []).append(_NumberedMark(index, code))
    parts = (name for name, of_name in marks.items() if _numbers_parts(of_name, found.count))
    return next(parts, None)


def _repetition_of(linked: TraceJoins, found: Repetitions, rows: I64) -> I64:
    """The repetition in which each of these host ranges begins, -1 before and after all."""
    start = linked.trace.host_ranges.start[rows]
    launched = np.maximum.accumulate(np.maximum(linked.launch_time[found.rows], 0))
    begin = launched[found.bounds[:-1]]
    until = launched[found.bounds[-1] - 1]
    repetition = np.searchsorted(begin, start, side="right") - 1
    return np.where(start <= until, repetition, -1)


def _numbers_parts(marks: list[_NumberedMark], repetitions: int) -> bool:
    """Whether (nearly) every repetition holds one of these marks, of another number than the one
    before."""
    marked = {mark.repetition for mark in marks}
    if len(marked) < MIN_MATCH * repetitions or len(marks) > repetitions / MIN_MATCH:
        return False
    changes = sum(mark.name != before.name for before, mark in itertools.pairwise(marks))
    return changes >= MIN_MATCH * (len(marks) - 1)


def inference_only(linked: TraceJoins) -> bool:
    """Whether PyTorch ran and neither a backward pass nor an optimizer is to be seen."""
    names = names_used(linked.trace)
    return any(map(FRAMEWORK.search, names)) and not any(map(TRAINING.search, names))


def find_period(linked: TraceJoins, rows: I64, *, unsplit: bool) -> Repetitions | None:
    """The longest sequence of ops that repeats thrice or more; with `unsplit` it splits no launch,
    call or iteration."""
    ops = linked.trace.device_ops
    found = _period(ops.name[rows])
    if found is None:
        return None
    length, anchor = found
    reach = np.maximum.accumulate(ops.end[rows])
    waited = ops.start[rows][1:] - reach[:-1]
    pause = np.append(np.int64(0), waited)
    splits = _splits(linked, rows) if unsplit else np.zeros(len(rows), bool)
    first = anchor % length
    repeats = (len(rows) - anchor % length) // length
    window = slice(first, first + repeats * length)
    allowed = ~splits[window].reshape(repeats, length).any(axis=0)
    if not allowed.any():
        return None
    median = np.median(pause[window].reshape(repeats, length), axis=0)
    cut = first + int(np.where(allowed, median, -1).argmax())  # before it the device pauses longest
    bounds = _alike(linked, rows, np.arange(cut % length, len(rows) + 1, length))
    return Repetitions(bounds, rows) if len(bounds) > MIN_COMPLETE else None


def _share(linked: TraceJoins, found: Repetitions) -> float:
    """Share of the device's work that the repetitions hold; parts of one more before and after do
    not count."""
    ops = linked.trace.device_ops
    time = (ops.end - ops.start)[found.rows].astype(np.float64)
    inside = float(time[found.bounds[0] : found.bounds[-1]].sum())
    usual = inside / found.count
    before = float(time[: found.bounds[0]].sum())
    after = float(time[found.bounds[-1] :].sum())
    outside = max(before - usual, 0.0) + max(after - usual, 0.0)
    return inside / (inside + outside) if inside else 0.0


def _splits(linked: TraceJoins, rows: I64) -> Bool:
    """For each of the ops whether a cut before it splits a graph launch, a call of a module or an
    iteration."""
    launch = linked.launch[rows]
    time = linked.launch_time[rows]
    result = np.zeros(len(rows), bool)
    same_call = launch[1:] == launch[:-1]
    result[1:] = (launch[1:] >= 0) & same_call
    marks = texts_where(linked.trace.strings, iteration)
    ranges = linked.trace.host_ranges
    iterations = np.concatenate(
        (outermost_modules(linked), outermost_ranges(linked, marks, RangeKind.ANNOTATION))
    )
    held = union(ranges.start[iterations], ranges.end[iterations])
    if len(held.start):
        holding = np.searchsorted(held.start, time, side="right") - 1
        inside = (holding >= 0) & (time < held.end[np.maximum(holding, 0)])
        same_range = holding[1:] == holding[:-1]
        result[1:] |= inside[1:] & inside[:-1] & same_range
    return result


def _alike(linked: TraceJoins, rows: I64, bounds: I64) -> I64:
    """The bounds of the longest run of repetitions that are alike; none where the sequence holds no
    kernel."""
    if len(bounds) <= MIN_COMPLETE:
        return bounds[:0]
    ops = linked.trace.device_ops
    length = int(bounds[1] - bounds[0])
    shape = (len(bounds) - 1, length)
    inside = rows[bounds[0] : bounds[-1]]
    usual = shape[0] // 2
    match = np.ones(shape, bool)
    for column in (
        (ops.name, ops.blocks, ops.threads, ops.bytes) if length < TELLING_OPS else (ops.name,)
    ):
        match &= column[inside].reshape(shape) == column[inside].reshape(shape)[usual]
    alike = match.mean(axis=1) >= MIN_MATCH
    if not isin_few(
        ops.kind[inside].reshape(shape)[usual], (DeviceOpKind.KERNEL, DeviceOpKind.GRAPH)
    ).any():
        return bounds[:0]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False]))))
    starts = edges[::2]
    stops = edges[1::2]
    if not len(starts):
        return bounds[:0]
    longest = int((stops - starts).argmax())
    return bounds[starts[longest] : stops[longest] + 1]


def _period(sequence: I32) -> tuple[int, int] | None:
    """Length of the longest repetition marked by a rare name, and the position of one such name."""
    codes, first, counts = np.unique(sequence, return_index=True, return_counts=True)
    rare = np.argsort(counts, kind="stable")
    rare = rare[(counts[rare] >= MIN_REPEATS)][:MAX_ANCHORS]
    for candidate in rare:
        distance = np.diff(np.flatnonzero(sequence == codes[candidate]))
        period = int(np.median(distance))
        if period < 2 or np.mean(distance == period) < MIN_MATCH:
            continue
        if np.mean(sequence[period:] == sequence[:-period]) >= MIN_MATCH:
            return period, int(first[candidate])
    return None
