"""The roofline with estimates replaced by what a kernel profiler measured, for the kernels that it measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.grouping import Groups
from traceanalyzer.analysis.kernel_names import short_name
from traceanalyzer.analysis.roofline import Bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.analysis.context import Context
    from traceanalyzer.analysis.roofline import Roofline
    from traceanalyzer.kernel_counters import KernelCounters

LOW_SHARE = 0.4
"""A kernel that uses less than this much of both compute and memory waits for latencies. (Nsight Compute's own rule
says 60 %, which would also name kernels at half of the bandwidth so, which fuller launches do not help.)"""
TENSOR_SHARE = 0.01
"""Tensor cores active for less than this are not what the kernel calculates with."""

Key = tuple[str, int, int]


def with_counters(ctx: Context, roofline: Roofline, counters: Iterable[KernelCounters]) -> Roofline:
    """The roofline with measured traffic, speed of light, bound and use of tensor cores.

    Joined by kernel name (without parameters) and launch shape; of kernels measured several times the mean counts.
    """
    measured = _by_key(counters)
    ops, rows = ctx.trace.device_ops, np.flatnonzero(ctx.is_kernel)
    groups = Groups.of(ops.name[rows], ops.blocks[rows], ops.threads[rows])
    made = replace(
        roofline,
        bytes=roofline.bytes.copy(),
        attainable=roofline.attainable.copy(),
        bound=roofline.bound.copy(),
        tensor=roofline.tensor.copy(),
        counted=roofline.counted.copy(),
    )
    for group, first in enumerate(rows[groups.first].tolist()):
        key = (_name(ctx.trace.text(int(ops.name[first])) or ""), int(ops.blocks[first]), int(ops.threads[first]))
        found = measured.get(key)
        if found is not None:
            _replace(ctx, made, rows[groups.index == group], found)
    return made


def _by_key(counters: Iterable[KernelCounters]) -> dict[Key, list[KernelCounters]]:
    result: dict[Key, list[KernelCounters]] = {}
    for kernel in counters:
        result.setdefault((_name(kernel.name), kernel.blocks, kernel.threads), []).append(kernel)
    return result


def _name(name: str) -> str:
    """Names compare without parameters and spaces, which the two profilers write differently."""
    return short_name(name).replace(" ", "")


def _replace(
    ctx: Context, made: Roofline, rows: np.ndarray[tuple[int], np.dtype[np.int64]], found: list[KernelCounters]
) -> None:
    traffic, tensor = _mean(found, lambda k: k.dram_bytes), _mean(found, lambda k: k.tensor_share)
    compute, memory = _mean(found, lambda k: k.compute_share), _mean(found, lambda k: k.memory_share)
    ops = ctx.trace.device_ops
    made.counted[rows] = True
    if traffic is not None:
        made.bytes[rows] = traffic
    if tensor is not None:
        made.tensor[rows] = int(tensor >= TENSOR_SHARE)
    if compute is not None and memory is not None:
        made.attainable[rows] = (ops.end - ops.start)[rows] * min(max(compute, memory), 1.0)
        made.bound[rows] = measured_bound(compute, memory)


def measured_bound(compute_share: float, memory_share: float) -> Bound:
    """What limits a kernel by its use of compute and memory."""
    if max(compute_share, memory_share) < LOW_SHARE:
        return Bound.LATENCY
    return Bound.COMPUTE if compute_share > memory_share else Bound.MEMORY


def _mean(found: list[KernelCounters], figure: Callable[[KernelCounters], float | None]) -> float | None:
    values = [value for kernel in found if (value := figure(kernel)) is not None]
    return sum(values) / len(values) if values else None
