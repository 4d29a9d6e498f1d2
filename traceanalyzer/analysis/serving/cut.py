"""The iterations of a serving engine, each with the device work that is its own: the host runs
ahead, so that its time says nothing of when that ran."""

from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, union
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.serving import Iteration, Split, framework_of, iteration, split
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
    said: tuple[Iteration, ...]
    splits: tuple[Split, ...]
    host_start: I64  # of the mark
    host_end: I64
    of_op: I32  # for each device op its iteration, -1 outside all
    rows: tuple[I64, ...]  # the device ops of each, on the device that does most
    busy: tuple[IntervalSet, ...]
    start: I64  # of its first device op
    end: I64

    def __len__(self) -> int:
        return len(self.said)

    @property
    def before(self) -> I64:
        """When the device work of all before each had ended."""
        return np.maximum.accumulate(np.append(-1, self.end[:-1]))

    @property
    def period_ns(self) -> F64:
        """From then to the end of its own; NaN where either is not known."""
        return np.where((self.end >= 0) & (self.before >= 0), self.end - self.before, np.nan)


def find_iterations(timed: Timed) -> Iterations | None:
    """The iterations of a recording; None where nothing marks one."""
    linked = timed.linked
    trace = timed.trace
    found = iterations(linked)
    marks = linked.memo(iteration_marks)
    if found is None:
        return None
    names = found.names
    said = [iteration(name) or UNMARKED for name in names]
    splits = [*map(split, names)]
    _add_inner(linked, marks, said, splits)
    of_op = by_launch(linked, found) if found.of_op is None else found.of_op
    here = np.flatnonzero((of_op >= 0) & (trace.device_ops.device == timed.device))
    here = here[np.argsort(of_op[here], kind="stable")]
    rows = np.split(here, np.searchsorted(of_op[here], np.arange(1, len(names))))
    busy = tuple(union(trace.device_ops.start[of], trace.device_ops.end[of]) for of in rows)
    ranges = trace.host_ranges
    unknown = np.full(len(names), -1, np.int64)
    host_start, host_end = (
        (ranges.start[marks], ranges.end[marks]) if len(marks) else (unknown, unknown)
    )
    spans = [(one.start[0], one.end[-1]) if len(one.start) else (-1, -1) for one in busy]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return Iterations(
        framework_of(said, trace.strings) or None,
        tuple(said),
        tuple(splits),
        host_start,
        host_end,
        of_op,
        tuple(rows),
        busy,
        start,
        end,
    )


def _add_inner(linked: Linked, marks: I64, said: list[Iteration], splits: list[Split]) -> None:
    """Fill in what marks do not say and marks inside them do: engines set marks of their own inside
    vLLM's."""
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    said_by = ((code, iteration(text)) for code, text in enumerate(strings))
    told = {code: one for code, one in said_by if one is not None}
    inner = np.flatnonzero((ranges.kind == RangeKind.ANNOTATION) & np.isin(ranges.name, list(told)))
    outer = np.searchsorted(ranges.start[marks], ranges.start[inner], side="right") - 1
    for row, i in zip(inner.tolist(), outer.tolist(), strict=True):
        if i >= 0 and row != marks[i] and ranges.end[row] <= ranges.end[marks[i]]:
            said[i] = _filled(said[i], told[ranges.name[row]])
            splits[i] = _filled(splits[i], split(strings[ranges.name[row]]))


def _filled(one: Said, other: Said) -> Said:
    return replace(
        one, **{f.name: getattr(other, f.name) for f in fields(one) if getattr(one, f.name) is None}
    )
