"""The iterations of a serving engine, each with the device work that is its own: the host runs
ahead, so that its time says nothing of when that ran."""

from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, union
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.serving import Iteration, Split, framework_of, iteration, split
from traceanalyzer.analysis.time.earlier_work import without_leading
from traceanalyzer.analysis.time.markers import iteration_marks, iterations
from traceanalyzer.analysis.time.steps import by_launch
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, RangeKind

Said = TypeVar("Said", Iteration, Split)
UNMARKED = Iteration(
    "", "iteration"
)  # what the name of a range says that the user calls an iteration


@dataclass(frozen=True, eq=False)
class Iterations:
    """The iterations in time order; all times are ns, -1 where there is none."""

    framework: str | None
    told: tuple[Iteration, ...]
    splits: tuple[Split, ...]
    host_start: I64  # of the mark
    host_end: I64
    of_op: I32  # for each device op its iteration, -1 outside all
    rows: tuple[I64, ...]  # the device ops of each, on the device that does most
    busy: tuple[IntervalSet, ...]
    start: I64  # of its first device op
    end: I64

    def __len__(self) -> int:
        return len(self.told)

    @property
    def before(self) -> I64:
        """When the device work of all before each had ended."""
        return np.maximum.accumulate(np.append(-1, self.end[:-1]))

    @property
    def period_ns(self) -> F64:
        """From then to the end of its own; NaN where either is not known."""
        before = self.before
        known = (self.end >= 0) & (before >= 0)
        return np.where(known, self.end - before, np.nan)


def find_iterations(timed: Timed) -> Iterations | None:
    """The iterations of a recording; None where nothing marks one."""
    linked = timed.linked
    host_steps = iterations(linked)
    if host_steps is None:
        return None
    marks = linked.memo(iteration_marks)
    named = [iteration(name) or UNMARKED for name in host_steps.names]
    splits = [*map(split, host_steps.names)]
    _add_inner(linked, marks, named, splits)
    host_start = host_end = np.full(len(named), -1, np.int64)
    if len(marks):
        host_start = linked.trace.host_ranges.start[marks]
        host_end = linked.trace.host_ranges.end[marks]
    of_op = by_launch(linked, host_steps) if host_steps.of_op is None else host_steps.of_op
    of_op = without_leading(linked, of_op)
    rows = _rows_of_each(timed, of_op, len(named))
    ops = linked.trace.device_ops
    busy = tuple(union(ops.start[of], ops.end[of]) for of in rows)
    spans = np.array([*map(_span, busy)], np.int64).reshape(-1, 2)
    return Iterations(
        framework=framework_of(named, linked.trace.strings) or None,
        told=tuple(named),
        splits=tuple(splits),
        host_start=host_start,
        host_end=host_end,
        of_op=of_op,
        rows=tuple(rows),
        busy=busy,
        start=spans[:, 0],
        end=spans[:, 1],
    )


def _rows_of_each(timed: Timed, of_op: I32, count: int) -> list[I64]:
    """The ops of each iteration on the device in question."""
    on_device = timed.trace.device_ops.device == timed.device
    rows = np.flatnonzero((of_op >= 0) & on_device)
    rows = rows[np.argsort(of_op[rows], kind="stable")]
    return np.split(rows, np.searchsorted(of_op[rows], np.arange(1, count)))


def _span(busy: IntervalSet) -> tuple[int, int]:
    """When the work of an iteration begins and ends; -1 for one without any."""
    if not len(busy.start):
        return -1, -1
    return int(busy.start[0]), int(busy.end[-1])


def _add_inner(linked: Linked, marks: I64, marked: list[Iteration], splits: list[Split]) -> None:
    """Fill in what marks do not say and marks inside them do: engines set marks of their own inside
    vLLM's."""
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    said_by = ((code, iteration(text)) for code, text in enumerate(strings))
    told = {code: one for code, one in said_by if one is not None}
    is_told = np.isin(ranges.name, list(told))
    inner = np.flatnonzero((ranges.kind == RangeKind.ANNOTATION) & is_told)
    outer = np.searchsorted(ranges.start[marks], ranges.start[inner], side="right") - 1
    for row, i in zip(inner.tolist(), outer.tolist(), strict=True):
        if i < 0 or row == marks[i]:
            continue
        if ranges.end[row] <= ranges.end[marks[i]]:
            marked[i] = _filled(marked[i], told[ranges.name[row]])
            splits[i] = _filled(splits[i], split(strings[ranges.name[row]]))


def _filled(outer: Said, inner: Said) -> Said:
    unsaid = [field.name for field in fields(outer) if getattr(outer, field.name) is None]
    return replace(outer, **{name: getattr(inner, name) for name in unsaid})
