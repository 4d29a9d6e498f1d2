"""A trace with the joins that several measurements need, each made once and only when asked for."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.attribution import launch_nodes
from traceanalyzer.analysis.joined.blocking import blocking_calls
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.names.api import ApiKind, api_kinds
from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.analysis.time.devices import DeviceActivity, device_activity
from traceanalyzer.analysis.time.host_timeline import HostTimeline
from traceanalyzer.analysis.time.steps import Steps, find_steps
from traceanalyzer.hardware import HardwareTable
from traceanalyzer.trace import CopyKind, DeviceOpKind, RangeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.causes.start import Bindings, HostWaits
    from traceanalyzer.analysis.joined.python_stacks import PythonStacks
    from traceanalyzer.analysis.roofline.roofline import Roofline
    from traceanalyzer.analysis.time.collective_calls import CollectiveCalls
    from traceanalyzer.hardware import Hardware
    from traceanalyzer.kernel_counters import KernelCounters
    from traceanalyzer.trace import F64, I32, I64, U8, Bool, Trace

INPUT_BYTES = 4096
"""A host-to-device copy of at least this many bytes carries data; smaller ones carry scalars and pointers."""
COPYING = re.compile(r"aten::(to|_to_copy|copy_|clone|cuda|lift_fresh|_?pin_memory)$")
"""Operators whose copies from the host are the program's. Others copy for themselves: FSDP's `aten::_chunk_cat` the
addresses of its tensors, a backward pass activations that were kept on the host."""
_LAUNCHING = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.SET)


class Context:
    """What measurements are made from. Arrays are aligned with the rows of the trace's tables."""

    def __init__(
        self,
        trace: Trace,
        classes: KernelClasses | None = None,
        only_step: int | None = None,
        hardware: HardwareTable | None = None,
        counters: Sequence[KernelCounters] = (),
    ) -> None:
        """`only_step` narrows every figure to the step with that index; `hardware` is what is known of GPUs;
        `counters` are kernels of the same program as a kernel profiler measured them."""
        self.trace = trace
        self.classes = classes or KernelClasses.load()
        self.only_step = only_step
        self._hardware = hardware
        self.counters = counters

    @cached_property
    def api_kind(self) -> U8:
        """`ApiKind` of each API call."""
        return api_kinds(self.trace.api_calls, self.trace.strings)

    @cached_property
    def launch(self) -> I64:
        """For each device op the row of the API call that launched it, -1 where none was recorded.

        Joined on the correlation id. Where several calls carry the same id (a runtime call and the driver
        call beneath it), the one that launches, copies or sets wins.
        """
        calls, ops = self.trace.api_calls, self.trace.device_ops
        result = np.full(len(ops), -1, np.int64)
        rows = np.flatnonzero(calls.correlation > 0)
        if not len(rows) or not len(ops):
            return result
        launching = np.isin(self.api_kind[rows], _LAUNCHING)
        order = np.lexsort((rows, ~launching, calls.correlation[rows]))
        ids = calls.correlation[rows][order]
        position = np.minimum(np.searchsorted(ids, ops.correlation), len(ids) - 1)
        found = (ids[position] == ops.correlation) & (ops.correlation > 0)
        result[found] = rows[order][position[found]]
        return result

    @cached_property
    def launch_time(self) -> I64:
        """For each device op when the host launched it, ns: start of its API call, else of the host op that
        carries its external id; -1 where the recording tells neither."""
        calls, ranges, ops = self.trace.api_calls, self.trace.host_ranges, self.trace.device_ops
        result = np.full(len(ops), -1, np.int64)
        launched = self.launch >= 0
        result[launched] = calls.start[self.launch[launched]]
        rows = np.flatnonzero(ranges.external_id > 0)
        if len(rows) and not launched.all():
            order = rows[np.argsort(ranges.external_id[rows], kind="stable")]
            ids = ranges.external_id[order]
            position = np.minimum(np.searchsorted(ids, ops.external_id), len(ids) - 1)
            found = ~launched & (ops.external_id > 0) & (ids[position] == ops.external_id)
            result[found] = ranges.start[order[position[found]]]
        return result

    @cached_property
    def tree(self) -> HostTree:
        """Nesting of operators, annotations, library and API calls on each host thread."""
        return HostTree.build(self.trace)

    @cached_property
    def op_class(self) -> I32:
        """For each device op the index of its class in `classes.names`."""
        return self.classes.classify(self.trace)

    @cached_property
    def is_communication(self) -> Bool:
        """Which device ops are collectives or point-to-point communication kernels."""
        result: Bool = np.array(self.classes.is_communication)[self.op_class] & self.is_kernel
        return result

    @cached_property
    def collective_calls(self) -> CollectiveCalls:
        """The collectives on the devices, with what their framework said about them."""
        from traceanalyzer.analysis.time.collective_calls import collective_calls

        return collective_calls(self)

    @cached_property
    def is_kernel(self) -> Bool:
        """Which device ops are kernels."""
        result: Bool = self.trace.device_ops.kind == DeviceOpKind.KERNEL
        return result

    @cached_property
    def is_copy(self) -> Bool:
        """Which device ops are memory copies."""
        result: Bool = self.trace.device_ops.kind == DeviceOpKind.MEMCPY
        return result

    @cached_property
    def brings_input(self) -> Bool:
        """Which device ops copy data from the host: what the host did before was to prepare it."""
        ops = self.trace.device_ops
        result: Bool = (ops.copy_kind == CopyKind.HOST_TO_DEVICE) & (ops.bytes >= INPUT_BYTES)
        node = launch_nodes(self)
        result &= (node < 0) | (np.append(self.tree.innermost(self._computing), -1)[node] < 0)
        return result

    @cached_property
    def _computing(self) -> Bool:
        """Which nodes of the host tree are operators that do more than copy."""
        tree = self.tree
        copying = texts_where(self.trace, COPYING.match)
        result: Bool = tree.kind == RangeKind.OP
        result[result] = ~copying[self.trace.host_ranges.name[tree.row[result]]]
        return result

    @cached_property
    def is_compute(self) -> Bool:
        """Which device ops are computation: kernels that are not communication, memsets, whole graphs."""
        result: Bool = ~self.is_copy & ~self.is_communication
        return result

    @cached_property
    def gpus(self) -> dict[int, Hardware | None]:
        """What the hardware table has of each device that did work, by CUDA ordinal."""
        described = {device.id: device for device in self.trace.devices}
        table = self._hardware or HardwareTable.load()
        return {int(d): table.find(described.get(int(d))) for d in np.unique(self.trace.device_ops.device)}

    def limit(self, name: str) -> F64:
        """For each device op that figure of `Hardware` of its device, NaN where it is not known."""
        result = np.full(len(self.trace.device_ops), np.nan)
        for device, gpu in self.gpus.items():
            value = getattr(gpu, name) if gpu else None
            if value is not None:
                result[self.trace.device_ops.device == device] = value
        return result

    @cached_property
    def roofline(self) -> Roofline:
        """What each device op could reach on its GPU."""
        from traceanalyzer.analysis.roofline.counted import with_counters
        from traceanalyzer.analysis.roofline.roofline import build_roofline

        estimated = build_roofline(self)
        return with_counters(self, estimated, self.counters) if self.counters else estimated

    @cached_property
    def python(self) -> PythonStacks:
        """Python frames, where stacks were recorded."""
        from traceanalyzer.analysis.joined.python_stacks import PythonStacks

        return PythonStacks.build(self.trace)

    @cached_property
    def blocks(self) -> Bool:
        """Which API calls made the host wait for the device."""
        return blocking_calls(self)

    @cached_property
    def _launch_order(self) -> tuple[I64, I64]:
        """Launch times in order, and when the device had finished the first n launches (n = 0, 1, ...)."""
        known = np.flatnonzero(self.launch_time >= 0)
        order = known[np.argsort(self.launch_time[known], kind="stable")]
        reach = np.maximum.accumulate(np.append(np.int64(0), self.trace.device_ops.end[order]))
        return self.launch_time[order], reach

    def launched_before(self, time: I64) -> I64:
        """How many device ops had been launched before each of these host times."""
        result: I64 = np.searchsorted(self._launch_order[0], time, side="left")
        return result

    def drained_at(self, time: I64) -> I64:
        """When the device had finished everything launched before each of these host times, ns (0: nothing)."""
        result: I64 = self._launch_order[1][self.launched_before(time)]
        return result

    @cached_property
    def bindings(self) -> Bindings:
        """What let each device op start."""
        from traceanalyzer.analysis.causes.start import find_bindings

        return find_bindings(self)

    @cached_property
    def host_waits(self) -> HostWaits:
        """The calls that held the host until the device was done or had room."""
        from traceanalyzer.analysis.causes.start import host_waits

        return host_waits(self)

    @cached_property
    def timeline(self) -> HostTimeline:
        """What the host was doing over time."""
        return HostTimeline.build(self)

    @cached_property
    def activity(self) -> dict[int, DeviceActivity]:
        """What each device did, by CUDA ordinal in ascending order; only devices with at least one op."""
        return {int(d): device_activity(self, int(d)) for d in np.unique(self.trace.device_ops.device)}

    @cached_property
    def device(self) -> int | None:
        """The device the figures of a step speak of: the one with the most busy time; None without any."""
        return max(self.activity, key=lambda d: self.activity[d].busy.total, default=None)

    @cached_property
    def steps(self) -> Steps:
        """The recording's steps; one step that spans everything where it has none."""
        steps = find_steps(self)
        return steps if self.only_step is None else steps.only(self.only_step)

    @cached_property
    def steady_ops(self) -> Bool:
        """Which device ops belong to a steady-state step."""
        result: Bool = self.steps.of_op >= self.steps.warmup
        return result

    def steady_host(self, start: I64) -> Bool:
        """Which of these host times lie in the host range of a steady-state step."""
        steady = self.steps.steady
        first, last = self.steps.host_start[steady], self.steps.host_end[steady]
        index = np.searchsorted(first, start, side="right") - 1
        result: Bool = (index >= 0) & (start < last[np.maximum(index, 0)])
        return result
