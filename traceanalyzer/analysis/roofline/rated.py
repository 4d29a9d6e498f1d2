"""What each device op could reach on its GPU: as a kernel profiler measured it, else as estimated."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.started import Started
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.bounds import measured_bound, sampled_bounds
from traceanalyzer.analysis.roofline.roofline import Roofline, build_roofline
from traceanalyzer.analysis.time.timed import OfTimed, Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I64, U8
from traceanalyzer.trace.circumstances import KernelCounters


@dataclass(frozen=True, eq=False)
class Rated(OfTimed):
    """What each device op could reach."""

    causes: Causes

    @property
    def timed(self) -> Timed:
        """The same in time."""
        return self.causes.timed

    @property
    def started(self) -> Started:
        """What each device op needed to start."""
        return self.causes.started

    @property
    def roofline(self) -> Roofline:
        """What each device op could reach on its GPU."""
        return self.memo(counted_roofline)

    @cached_property
    def sampled_bounds(self) -> U8:
        """What limits each device op as counters sampled meanwhile say, as a `Bound`."""
        return sampled_bounds(self.timed)


def counted_roofline(rated: Rated) -> Roofline:
    """What each device op could reach: as counters say where they were collected, else as estimated."""
    estimated, counters = build_roofline(rated.timed), rated.linked.knowledge.counters
    return with_counters(rated.linked, estimated, counters) if counters else estimated


TENSOR_SHARE = 0.01
"""Tensor cores active for less than this are not what the kernel calculates with."""
MULTIPLYING = 0.5
"""Tensor cores that are active for this much of what keeps the SMs busy do arithmetic, whatever the kernel is named."""

Key = tuple[str, int, int]

_MEASURED = ("bytes", "expected", "attainable", "bound", "tensor", "counted")
"""Columns of `Roofline` that measured kernels change."""

_NAMESPACE = re.compile(r"(?<!\w)\w++::")


def with_counters(linked: Linked, roofline: Roofline, counters: Iterable[KernelCounters]) -> Roofline:
    """The roofline with measured traffic, speed of light, bound and use of tensor cores.

    Joined by kernel name (without parameters) and launch shape; of kernels measured several times the mean counts.
    """
    made = {name: getattr(roofline, name).copy() for name in _MEASURED}
    for rows, found in matches(linked, counters):
        _replace(linked, made, rows, found)
    return replace(roofline, **made)


def matches(linked: Linked, counters: Iterable[KernelCounters]) -> Iterator[tuple[I64, list[KernelCounters]]]:
    """Device ops of one kernel and launch shape, with what was measured of it, for each that was."""
    measured: dict[Key, list[KernelCounters]] = {}
    for kernel in counters:
        measured.setdefault((_name(kernel.name), kernel.blocks, kernel.threads), []).append(kernel)
    ops, rows = linked.trace.device_ops, np.flatnonzero(linked.is_kernel)
    groups = Groups.of(ops.name[rows], ops.blocks[rows], ops.threads[rows])
    for group, first in enumerate(rows[groups.first].tolist() if measured else ()):
        key = (_name(linked.trace.text(int(ops.name[first])) or ""), int(ops.blocks[first]), int(ops.threads[first]))
        found = measured.get(key)
        if found is not None:
            yield rows[groups.index == group], found


def _name(name: str) -> str:
    """Names compare without namespaces, parameters and spaces, which the two profilers write differently."""
    return _NAMESPACE.sub("", short_name(name)).replace(" ", "")


def _replace(linked: Linked, made: dict[str, NDArray[Any]], rows: I64, found: list[KernelCounters]) -> None:
    traffic, tensor = mean_of(found, lambda k: k.dram_bytes), mean_of(found, lambda k: k.tensor_share)
    compute, memory = mean_of(found, lambda k: k.compute_share), mean_of(found, device_memory_share)
    ops = linked.trace.device_ops
    made["counted"][rows] = True
    if traffic is not None:
        made["bytes"][rows] = made["expected"][rows] = traffic
    if tensor is not None:
        made["tensor"][rows] = int(tensor >= TENSOR_SHARE)
    if compute is not None and memory is not None:
        made["attainable"][rows] = (ops.end - ops.start)[rows] * min(max(compute, memory), 1.0)
        multiplies = bool(linked.is_matrix[rows[0]]) or (tensor or 0.0) >= MULTIPLYING * compute
        made["bound"][rows] = measured_bound(compute, memory, matrix=multiplies)


def device_memory_share(kernel: KernelCounters) -> float | None:
    """Use of the device memory's bandwidth. Where only the busiest part of the memory system was measured, which may
    be a cache, that stands for it."""
    return kernel.memory_share if kernel.dram_share is None else kernel.dram_share


def mean_of(found: list[KernelCounters], figure: Callable[[KernelCounters], float | None]) -> float | None:
    """Mean of a figure over the measured launches that have it."""
    values = [value for kernel in found if (value := figure(kernel)) is not None]
    return sum(values) / len(values) if values else None
