"""What each device op could reach on its GPU, as estimated or as a kernel profiler that ran it
again measured it; and what counters say of kernels, by that profiler or sampled while they ran."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.bounds import measured_bound, sampled_bounds
from traceanalyzer.analysis.roofline.roofline import Roofline, build_roofline
from traceanalyzer.analysis.time.sampled import sampled_ops
from traceanalyzer.analysis.time.timed import HasTimed, Timed
from traceanalyzer.base import dataclass, metric, regex
from traceanalyzer.trace import I32, I64, U8
from traceanalyzer.trace.circumstances import KernelCounters


@dataclass(frozen=True, eq=False)
class WithRoofline(HasTimed):
    """What each device op could reach."""

    causes: Causes

    @property
    def timed(self) -> Timed:
        """The recording in time."""
        return self.causes.timed

    @property
    def started(self) -> LaunchEdges:
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


TENSOR_SHARE = 0.01
"""Tensor cores active for less than this are not what the kernel calculates with."""
MULTIPLYING = 0.5
"""Tensor cores that are active for this much of what keeps the SMs busy do arithmetic, whatever the
kernel is named."""
_NAMESPACE = regex(r"(?<!\w)\w++::")


def counted_roofline(rated: WithRoofline) -> Roofline:
    """What each device op could reach: as estimated, with measured traffic, speed of light, bound
    and use of tensor cores where counters were collected. Joined by kernel name and launch shape;
    of several the mean counts."""
    estimated = build_roofline(rated.timed)
    counters = rated.linked.knowledge.counters
    columns = ("bytes", "expected", "attainable", "bound", "tensor", "counted") if counters else ()
    counted = {name: getattr(estimated, name).copy() for name in columns}
    for rows, found in matches(rated.linked, counters):
        _replace(rated.linked, counted, rows, found)
    return replace(estimated, **counted)


def matches(
    linked: TraceJoins, counters: Iterable[KernelCounters]
) -> Iterator[tuple[I64, list[KernelCounters]]]:
    """Device ops of one kernel and launch shape, with what was measured of it, for each that
    was."""
    measured: dict[tuple[str, int, int], list[KernelCounters]] = {}
    for kernel in counters:
        measured.setdefault((_name(kernel.name), kernel.blocks, kernel.threads), []).append(kernel)
    if not measured:
        return
    ops = linked.trace.device_ops
    rows = np.flatnonzero(linked.is_kernel)
    groups = Groups.of(ops.name[rows], ops.blocks[rows], ops.threads[rows])
    for group, first in enumerate(rows[groups.first].tolist()):
        key = (
            _name(linked.trace.text(int(ops.name[first])) or ""),
            int(ops.blocks[first]),
            int(ops.threads[first]),
        )
        if key in measured:
            yield rows[groups.index == group], measured[key]


def _name(name: str) -> str:
    """Names compare without namespaces, parameters and spaces, which the two profilers write
    differently."""
    return _NAMESPACE.sub("", short_name(name)).replace(" ", "")


def _replace(
    linked: TraceJoins, columns: dict[str, NDArray[Any]], rows: I64, found: list[KernelCounters]
) -> None:
    traffic = mean_of(found, lambda k: k.dram_bytes)
    tensor = mean_of(found, lambda k: k.tensor_share)
    compute = mean_of(found, lambda k: k.compute_share)
    # Where only the busiest part of the memory system was measured, which may be a cache, that
    # stands for the memory.
    memory = mean_of(found, lambda k: k.memory_share if k.dram_share is None else k.dram_share)
    ops = linked.trace.device_ops
    columns["counted"][rows] = True
    if traffic is not None:
        columns["bytes"][rows] = columns["expected"][rows] = traffic
    if tensor is not None:
        columns["tensor"][rows] = int(tensor >= TENSOR_SHARE)
    if compute is not None and memory is not None:
        share = min(max(compute, memory), 1.0)
        columns["attainable"][rows] = (ops.end - ops.start)[rows] * share
        multiplies = bool(linked.is_matrix[rows[0]]) or (tensor or 0.0) >= MULTIPLYING * compute
        columns["bound"][rows] = measured_bound(compute, memory, matrix=multiplies)


def mean_of(
    found: list[KernelCounters], figure: Callable[[KernelCounters], float | None]
) -> float | None:
    """Mean of a figure over the measured launches that have it."""
    figures = map(figure, found)
    values = [value for value in figures if value is not None]
    return sum(values) / len(values) if values else None


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """Columns of kernels that counters tell."""

    achieved_occupancy_share: float | None = metric(
        "warps active over those that an SM can hold, as Nsight Compute "
        "measured; null without `--ncu` or where it did not measure "
        "them",
        default=None,
    )
    tensor_active_share: float | None = metric(
        "cycles in which the tensor cores worked, as Nsight Compute measured; null as above",
        default=None,
    )
    main_stall: str | None = metric(
        "what its warps waited for most, as Nsight Compute measured; null without `collect "
        "ncu --stalls`",
        default=None,
    )
    main_stall_share: float | None = metric(
        "share of its warps' cycles that they waited for that", default=None
    )
    samples: float | None = metric(
        "samples of the GPU's counters a step that are its own: taken over a sampling "
        "period in which it ran alone; 0 is unsampled (shorter than the period, or never "
        "alone), null where no counters were sampled",
        default=None,
    )
    sampled_sm_share: float | None = metric(
        "SMs with work in these samples; null without any", default=None
    )
    sampled_tensor_share: float | None = metric(
        "cycles in which the tensor cores worked in these samples; null without any", default=None
    )
    sampled_dram_share: float | None = metric(
        "traffic of the device memory over its peak in these samples; null without any",
        default=None,
    )


class KernelMeasures:
    """The columns of `MeasuredRow` for groups of these device ops."""

    def __init__(self, rated: WithRoofline, groups: Groups, rows: I32 | I64) -> None:
        self._steps = rated.timed.steps.steady_count
        sampled = sampled_ops(rated.timed)
        self._samples = None if sampled is None else groups.sum(sampled.count[rows])
        self._sums = (
            {role: groups.sum(total[rows]) for role, total in sampled.total.items()}
            if sampled
            else {}
        )
        self._counted: dict[int, list[tuple[int, list[KernelCounters]]]] = {}
        """For each group what was measured of its launch shapes, with the time of its device ops
        that have each."""
        time = rated.trace.device_ops.end - rated.trace.device_ops.start
        place = np.full(len(rated.trace.device_ops), -1, np.int64)
        place[rows] = groups.index
        for ops, found in matches(rated.linked, rated.linked.knowledge.counters):
            inside = ops[place[ops] >= 0]
            if len(inside):
                measured = (max(int(time[inside].sum()), 1), found)
                self._counted.setdefault(int(place[inside[0]]), []).append(measured)

    def columns(self, group: int) -> dict[str, Any]:
        """The columns for a group."""
        found = self._counted.get(group, [])
        if not found and self._samples is None:
            return vars(MeasuredRow())
        stall, share = _main_stall(found)
        samples = None if self._samples is None else float(self._samples[group])
        return vars(
            MeasuredRow(
                achieved_occupancy_share=_weighted(found, "occupancy_share"),
                tensor_active_share=_weighted(found, "tensor_share"),
                main_stall=stall,
                main_stall_share=share,
                samples=None if samples is None else samples / self._steps,
                sampled_sm_share=self._mean("sm_active", group, samples),
                sampled_tensor_share=self._mean("tensor", group, samples),
                sampled_dram_share=self._mean("dram", group, samples),
            )
        )

    def _mean(self, role: str, group: int, samples: float | None) -> float | None:
        return float(self._sums[role][group]) / samples if samples and role in self._sums else None


def _weighted(found: list[tuple[int, list[KernelCounters]]], figure: str) -> float | None:
    """Mean of a figure over the time of the device ops whose launch shapes were measured."""
    means = ((n, mean_of(kernels, lambda k: getattr(k, figure))) for n, kernels in found)
    known = [(n, mean) for n, mean in means if mean is not None]
    return sum(n * mean for n, mean in known) / sum(n for n, _ in known) if known else None


Counted = list[tuple[int, list[KernelCounters]]]
"""What was measured of launch shapes, with the time of the device ops that have each."""


def _main_stall(found: Counted) -> tuple[str | None, float | None]:
    """What the warps of these launches waited for most, and the mean share of it."""
    total: dict[str, float] = {}
    weight = 0.0
    for part, kernel in (
        (spent / len(kernels), kernel) for spent, kernels in found for kernel in kernels
    ):
        weight += part if kernel.stalls else 0.0
        for reason, share in kernel.stalls:
            total[reason] = total.get(reason, 0.0) + part * share
    most = max(total, key=total.__getitem__, default=None)
    return most, None if most is None else total[most] / weight


Rated = WithRoofline
