"""A trace whose rows know each other (launches, nesting, classes), each join made once, when asked
for, and what is known from outside of the recording."""

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from operator import attrgetter
from typing import Any, Self, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import (
    at,
    dedup_constant,
    dedup_each,
    first_with,
    isin_few,
    local_searchsorted,
    look_up,
)
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.names.api import ApiKind, api_kinds
from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.base import dataclass
from traceanalyzer.trace import (
    F64,
    I32,
    I64,
    U8,
    Bool,
    DeviceOpKind,
    Trace,
    distinct,
    is_sorted,
    narrowed,
)
from traceanalyzer.trace.hardware import Hardware

Made = TypeVar("Made")


class Memo:
    """What remembers what functions of it gave."""

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def memo(self, make: Callable[[Self], Made]) -> Made:
        """`make(self)`, calculated when first asked for. `make` is a function of a module, which
        outlives it."""
        if make not in self._made:
            self._made[make] = dedup_each(make(self))
        return self._made[make]

    def has(self, make: Callable[[Self], object]) -> bool:
        """Whether `make` has been computed."""
        return make in self._made

    def keep(self, make: Callable[[Self], Made], value: Made) -> None:
        """Take what another process computed as `make(self)`."""
        self._made.setdefault(make, value)


MATRIX_CLASSES = ("gemm", "attention", "convolution", "recurrent", "moe")
"""Classes of kernels that tensor cores were made for."""
_LAUNCHING = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.SET)


def owner_nodes(linked: "TraceJoins", launched_at: I32 | I64) -> I32:
    """For each of these nodes the innermost operator around it, else the innermost annotation, else
    -1."""
    annotation = at(linked.tree.annotation, launched_at, -1)
    if not linked.tree.has_operators:
        return annotation
    operator = at(linked.tree.operator, launched_at, -1)
    return np.where(operator >= 0, operator, annotation)


@dataclass(frozen=True, eq=False)
class TraceJoins(Memo):
    """The joins that need nothing but the rows. Arrays are aligned with the rows of the trace's
    tables."""

    trace: Trace
    knowledge: Knowledge = field(default_factory=Knowledge)

    @property
    def classes(self) -> KernelClasses:
        """The classes of kernels that are known."""
        return self.knowledge.classes

    @cached_property
    def api_kind(self) -> U8:
        """`ApiKind` of each API call."""
        return api_kinds(self.trace.api_calls, self.trace.strings)

    @cached_property
    def launch(self) -> I32:
        """For each device op the row of the API call that launched it, -1 where none was recorded.

        Joined on the correlation id. Where several calls carry the same id (a runtime call and the
        driver call beneath it), the one that launches, copies or sets wins."""
        calls = self.trace.api_calls
        ops = self.trace.device_ops
        return first_with(calls.correlation, ops.correlation, isin_few(self.api_kind, _LAUNCHING))

    @cached_property
    def launch_time(self) -> I64:
        """For each device op when the host launched it, ns: start of its API call, else of the host
        op that carries its external id; -1 where the recording tells neither."""
        ranges = self.trace.host_ranges
        ops = self.trace.device_ops
        result = at(self.trace.api_calls.start, self.launch, -1)
        unknown = np.flatnonzero(self.launch < 0)
        if len(unknown):
            rows = np.flatnonzero(ranges.external_id > 0)
            order = rows[np.argsort(ranges.external_id[rows], kind="stable")]
            result[unknown] = at(
                ranges.start[order],
                look_up(ranges.external_id[order], ops.external_id[unknown]),
                -1,
            )
        return result

    def launch_times_of(self, ops: I32) -> I64:
        """`launch_time` of some device ops, without making all."""
        calls = self.launch[ops]
        return (
            self.launch_time[ops]
            if (calls < 0).any()
            else at(self.trace.api_calls.start, calls, -1)
        )

    @cached_property
    def tree(self) -> HostTree:
        """Nesting of operators, annotations, library and API calls on each host thread."""
        return HostTree.build(self.trace)

    @cached_property
    def op_class(self) -> I32:
        """For each device op the index of its class in `classes.names`."""
        return dedup_constant(narrowed(self.classes.classify(self.trace)))

    @cached_property
    def is_communication(self) -> Bool:
        """Which device ops are collectives or point-to-point communication kernels."""
        return dedup_constant(
            np.array(self.classes.is_communication)[self.op_class] & self.is_kernel
        )

    @cached_property
    def is_kernel(self) -> Bool:
        """Which device ops are kernels."""
        return dedup_constant(self.trace.device_ops.kind == DeviceOpKind.KERNEL)

    @cached_property
    def is_copy(self) -> Bool:
        """Which device ops are memory copies."""
        return dedup_constant(self.trace.device_ops.kind == DeviceOpKind.MEMCPY)

    @cached_property
    def is_matrix(self) -> Bool:
        """Which device ops are matrix kernels, by class."""
        classes = [
            self.classes.index(name) for name in MATRIX_CLASSES if name in self.classes.names
        ]
        return dedup_constant(np.isin(self.op_class, classes) & self.is_kernel)

    @cached_property
    def is_compute(self) -> Bool:
        """Which device ops are computation: kernels that are not communication, memsets, whole
        graphs."""
        return dedup_constant(~self.is_copy & ~self.is_communication)

    @cached_property
    def gpus(self) -> dict[int, Hardware | None]:
        """What the hardware table has of each device that did work, by CUDA ordinal."""
        described = {device.id: device for device in self.trace.devices}
        table = self.knowledge.hardware
        devices = distinct(self.trace.device_ops.device).tolist()
        return {device: table.find(described.get(device)) for device in devices}

    def limit(self, name: str) -> F64:
        """For each device op that figure of `Hardware` of its device, NaN where it is not known."""
        return self.of_gpus(attrgetter(name))

    def of_gpus(self, figure: Callable[[Hardware], float | None]) -> F64:
        """For each device op this figure of its GPU, NaN where it is not known."""
        device = self.trace.device_ops.device
        known = [figure(gpu) if gpu else None for gpu in self.gpus.values()]
        values = np.array(known, np.float64)  # None: NaN
        if len(values) == 1:
            return np.broadcast_to(values[0], len(device))
        result = np.full(len(device), np.nan)
        for hardware, value in zip(self.gpus, values, strict=True):
            result[device == hardware] = value
        return result

    @cached_property
    def _launch_order(self) -> tuple[I64, I64]:
        """Launch times in order, and when the device had finished all launches up to each."""
        time = self.launch_time
        end = self.trace.device_ops.end
        if not is_sorted(time) or not len(time) or time[0] < 0:
            known = np.flatnonzero(time >= 0)
            order = known[np.argsort(time[known], kind="stable")]
            time = time[order]
            end = end[order]
        return time, end if is_sorted(end) else np.maximum.accumulate(end)

    def launched_before(self, time: I64) -> I64:
        """How many device ops had been launched before each of these host times."""
        return local_searchsorted(self._launch_order[0], time, side="left")

    def drained_at(self, time: I64) -> I64:
        """When the device had finished everything launched before each of these host times, ns (0:
        nothing)."""
        return at(self._launch_order[1], self.launched_before(time) - 1, 0)


Linked = TraceJoins
