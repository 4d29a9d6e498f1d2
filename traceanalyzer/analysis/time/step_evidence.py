"""What in a recording tells its steps apart, and how much of the recording's work a kind of range
holds."""

import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, flatnonzero32
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.pytorch import LAYER_LIKE, OPTIMIZER_STEP
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import (
    I32,
    I64,
    ApiCalls,
    DeviceOps,
    HostRanges,
    RangeKind,
    distinct_places,
    is_sorted,
)

STEP_LIKE = regex(r"step|iter|batch", re.IGNORECASE)
DIGITS = regex(r"\d+")
MIN_REPEATS = 3  # fewer instances of a name are not a rhythm
MIN_COVERAGE = 0.8
"""A range is the step only if it holds nearly all launches between its first and last instance; the
forward pass or the optimizer alone do not."""
MIN_WORK_SHARE = 0.5
"""And most of the device work of the whole recording: ten markers around the set-up of a training
are not its steps, nor are the layers of one inference. Warm-up and validation outside the steps may
take up to the other half."""


@dataclass(frozen=True, eq=False)
class HostSteps:
    """Host ranges of steps in time order; `of_op` where the evidence gives the ops of a step
    directly."""

    source: str
    names: tuple[str, ...]
    start: I64
    end: I64
    of_op: I32 | None = None
    # whether a step's window is that of its device work, whatever the host range did
    by_device: bool = False
    # whether steps differ in kind (prefill, decode): a slow leading one is then no warm-up
    unlike: bool = False
    # whether they are ranges on the device, of which one begun earlier may be a part
    projected: bool = False

    @classmethod
    def of_ranges(
        cls, linked: TraceJoins, rows: I32 | I64, source: str | None = None
    ) -> "HostSteps":
        """A step for each of these host ranges, which the program marks unless another source is
        given."""
        ranges = linked.trace.host_ranges
        strings = linked.trace.strings
        names = tuple(strings[code] for code in ranges.name[rows])
        return cls(
            source or linked.trace.annotated_with, names, ranges.start[rows], ranges.end[rows]
        )


class Held(NamedTuple):
    """How much of the recording a group of ranges holds."""

    launches: float  # share of all launches that were made in one of them
    # share of the launches between its first and last range that were made in one of them
    between: float
    work: float  # share of the device time of the whole recording that was launched in one of them


def held(linked: TraceJoins, start: I64, end: I64) -> Held:
    """What ranges in time order, apart from each other, hold. Without device work host ranges count
    instead."""
    work = linked.memo(launched)
    first = np.searchsorted(work.time, start)
    stop = np.searchsorted(work.time, end)
    between = int(stop[-1] - first[0])
    if not between:
        return Held(0.0, 0.0, 0.0)
    weight = float((work.before[stop] - work.before[first]).sum())
    inside = float((stop - first).sum())
    return Held(
        inside / len(work.time), inside / between, weight / work.total if work.total else 0.0
    )


class _Launched(NamedTuple):
    """The recording's work in the order in which it was launched."""

    time: I64
    before: I64  # what the first n launches weigh, n = 0, 1, ..
    total: float  # what all work weighs, that of unknown launches, too


def launched(linked: TraceJoins) -> _Launched:
    """The work of a recording; without launches its host ranges stand for it."""
    ops = linked.trace.device_ops
    time = linked.launch_time
    weight = ops.end - ops.start
    if not (time >= 0).any():
        time = linked.trace.host_ranges.start
        weight = np.ones(len(time), np.int64)
    total = float(weight.sum())
    if not is_sorted(time) or (time[:1] < 0).any():
        order = np.flatnonzero(time >= 0)
        order = order[np.argsort(time[order], kind="stable")]
        time = time[order]
        weight = weight[order]
    return _Launched(time, np.append(np.int64(0), np.cumsum(weight)), total)


def annotated(linked: TraceJoins) -> HostSteps | None:
    """The repeated annotation that holds nearly all launches, and most of the work of the whole
    recording."""
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    covering = []
    for group in _repeated(linked):
        names = {strings[code] for code in ranges.name[group].tolist()}
        share = held(linked, ranges.start[group], ranges.end[group])
        of_model = len(names) > 1 and all(map(LAYER_LIKE.search, names))  # its numbered parts
        if not of_model and share.between >= MIN_COVERAGE and share.work >= MIN_WORK_SHARE:
            covering.append(group)
    if not covering:
        return None

    def likely(group: I32) -> tuple[bool, int]:
        named = STEP_LIKE.search(strings[ranges.name[group[0]]]) is not None
        return named, int((ranges.end[group] - ranges.start[group]).sum())

    return HostSteps.of_ranges(linked, max(covering, key=likely))


def _repeated(linked: TraceJoins) -> list[I32]:
    """Rows of annotations by thread and name without numbers that repeat without overlap, by their
    first row."""
    ranges = linked.trace.host_ranges
    rows = flatnonzero32(ranges.kind == RangeKind.ANNOTATION)
    groups = Groups.of(
        ranges.thread[rows], without_numbers(linked.trace.strings, ranges.name[rows])[0]
    )
    each = groups.rows
    repeated = np.flatnonzero(groups.count >= MIN_REPEATS)
    in_order = repeated[np.argsort(groups.first[repeated])].tolist()
    arrays = [rows[each[group]] for group in in_order]
    return [found for found in arrays if _apart(ranges.start[found], ranges.end[found])]


def _apart(start: I64, end: I64) -> bool:
    """Whether each of these ranges begins when the one before it has ended."""
    return bool((start[1:] >= end[:-1]).all())


def without_numbers(strings: list[str], names: I32) -> tuple[I32, list[str]]:
    """Which of some texts is each of these names (codes) with # for its numbers."""
    codes, place = distinct_places(names)
    texts = [DIGITS.sub("#", strings[code]) for code in codes.tolist()]
    index = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return np.array([index[text] for text in texts], np.int32)[place], list(index)


def between_optimizer_steps(linked: TraceJoins) -> HostSteps | None:
    """The stretches between the ends of optimizer steps."""
    ranges = linked.trace.host_ranges
    for group in _repeated(linked):
        if OPTIMIZER_STEP.match(linked.trace.strings[ranges.name[group[0]]]):
            end = ranges.end[group]
            names = tuple(f"step {i}" for i in range(1, len(end)))
            return HostSteps(linked.trace.annotated_with, names, end[:-1], end[1:])
    return None


def logged_steps(linked: TraceJoins) -> HostSteps | None:
    """The steps of a recording that is a timing log; None where a profiler recorded."""
    trace = linked.trace
    log = linked.trace.step_timings
    rows = np.flatnonzero(log.duration > 0)
    if not len(rows) or not trace.only_step_times:
        return None
    numbered = zip(rows.tolist(), log.step[rows].tolist(), strict=True)
    unit = "epoch" if trace.logged_epochs else "step"
    names = tuple(f"{unit} {n}" if n >= 0 else f"line {i}" for i, n in numbered)
    source = "logged_epochs" if trace.logged_epochs else "timing_log"
    start = log.start[rows]
    return HostSteps(source, names, start, start + log.duration[rows], unlike=log.of_server)


def extent(*tables: DeviceOps | HostRanges | ApiCalls) -> tuple[int, int]:
    """First start and last end over the tables, ns; (0, 0) where all are empty."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return 0, 0
    first = min(int(table.start[0]) for table in filled)
    return first, max(int(table.end.max()) for table in filled)
