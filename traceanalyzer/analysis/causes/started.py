"""A timed trace that knows what let each device op start, and which calls held the host."""

import re
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import Groups, dedup_constant, measure, texts_where, union
from traceanalyzer.analysis.causes.start import (
    Bindings,
    HostWaits,
    Starts,
    find_bindings,
    find_host_waits,
    find_starts,
)
from traceanalyzer.analysis.joined.joined import INPUT_BYTES
from traceanalyzer.analysis.time.markers import iteration_marks
from traceanalyzer.analysis.time.timed import HasTimed, Timed
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import Bool, CopyKind, RangeKind


@dataclass(frozen=True, eq=False)
class LaunchEdges(HasTimed):
    """The edges along which a critical path runs."""

    timed: Timed

    @cached_property
    def starts(self) -> Starts:
        """What each device op needs before it can start."""
        return find_starts(self.linked)

    @cached_property
    def bindings(self) -> Bindings:
        """What let each device op start."""
        return find_bindings(self.linked, self.starts)

    @cached_property
    def input_copies(self) -> Bool:
        """Which device ops bring input data that the program had loaded."""
        return dedup_constant(input_copy_ops(self.timed))

    @cached_property
    def call_brings_input(self) -> Bool:
        """Which API calls launch a copy of data from the host."""
        result = np.zeros(len(self.trace.api_calls), bool)
        result[self.linked.launch[self.input_copies & (self.linked.launch >= 0)]] = True
        return dedup_constant(result)

    @cached_property
    def host_waits(self) -> HostWaits:
        """The calls that held the host until the device was done or had room."""
        return find_host_waits(self.timed)


LOADERS = regex(  # names of Python functions that prepare input
    r"(?<!un)(pre_?process|collate|data_?load|dataset|tokeni[sz]|__getitem__|load_?(image|video|audio|batch|data|sample)"
    r"|(read|decode)_?(image|video|audio|frame|batch|sample)|augment|(get|fetch|next)_?(batch|data))",
    re.IGNORECASE,
)
EVERY_STEP = 0.8
"""Share of the steps with the copy from which it is made in every step; the first may bring
more."""
MIN_STEPS = 2
LOADING_SHARE = 0.5  # a loader's functions fill at least this share of a gap that is theirs


def input_copy_ops(timed: Timed) -> Bool:
    """Which device ops bring input data: the host work before them prepared it.

    A copy after host work is no evidence by itself: where results came back before it, the host
    computed its half of the iteration. It is where the same copy is made in (nearly) every step, or
    in functions named like loading."""
    result = np.zeros(len(timed.trace.device_ops), bool)
    copies = np.flatnonzero(timed.joined.is_input_h2d)
    serves = len(timed.linked.memo(iteration_marks)) > 0
    if not timed.steps.found or not len(copies) or serves:
        return result  # a server copies what it scheduled: it loads nothing
    index = np.arange(len(result))
    ops = timed.trace.device_ops
    back = (ops.copy_kind == CopyKind.DEVICE_TO_HOST) & (ops.bytes >= INPUT_BYTES)
    last_back = np.maximum.accumulate(np.where(back, index, -1))
    last_kernel = np.maximum.accumulate(np.where(timed.linked.is_kernel, index, -1))
    copies = copies[(copies == 0) | (last_back[copies - 1] <= last_kernel[copies - 1])]
    reach = np.maximum.accumulate(ops.end)
    start = np.where(copies > 0, reach[copies - 1], timed.steps.start[0])
    end = ops.start[copies]
    ranges = timed.trace.host_ranges  # of Python they are named as `file.py(12): function`
    loads = texts_where(timed.trace.strings, lambda name: LOADERS.search(name.rpartition(": ")[2]))
    rows = (ranges.kind == RangeKind.PYTHON) & loads[ranges.name]
    loading = measure(union(ranges.start[rows], ranges.end[rows]), start, end)
    result[copies] = _every_step(timed)[copies] | (
        loading >= LOADING_SHARE * np.maximum(end - start, 1)
    )
    return result


def _every_step(timed: Timed) -> Bool:
    """Which device ops are copies of a name and size that nearly every steady step makes."""
    ops = timed.trace.device_ops
    steps = timed.steps
    result = np.zeros(len(ops), bool)
    rows = np.flatnonzero(timed.joined.is_input_h2d & (steps.of_op >= steps.warmup))
    if not len(rows) or steps.steady_count < MIN_STEPS:
        return result
    sort = Groups.of(ops.name[rows])
    in_a_step = Groups.of(sort.index, steps.of_op[rows])
    steps_of_sort = np.bincount(sort.index[in_a_step.first], minlength=len(sort))
    result[rows] = (steps_of_sort >= EVERY_STEP * steps.steady_count)[sort.index]
    return result
