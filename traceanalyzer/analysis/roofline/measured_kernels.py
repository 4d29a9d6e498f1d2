"""What was measured of kernels by counters: sampled while they ran, and by a kernel profiler that ran them again."""

from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.roofline.rated import Rated, matches, mean_of
from traceanalyzer.analysis.time.sampled import sampled_ops
from traceanalyzer.base import dataclass, metric
from traceanalyzer.trace import F64, I32, I64
from traceanalyzer.trace.circumstances import KernelCounters


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """Columns of kernels that counters tell."""

    achieved_occupancy_share: float | None = metric(
        "warps active over those that an SM can hold, as Nsight Compute measured; null without `--ncu` or where it did "
        "not measure them",
        default=None,
    )
    tensor_active_share: float | None = metric(
        "cycles in which the tensor cores worked, as Nsight Compute measured; null as above", default=None
    )
    main_stall: str | None = metric(
        "what its warps waited for most, as Nsight Compute measured; null without `collect ncu --stalls`", default=None
    )
    main_stall_share: float | None = metric("share of its warps' cycles that they waited for that", default=None)
    samples: float | None = metric(
        "samples of the GPU's counters a step that are its own: taken over a sampling period in which it ran alone; 0 "
        "is unsampled (shorter than the period, or never alone), null where no counters were sampled",
        default=None,
    )
    sampled_sm_share: float | None = metric("SMs with work in these samples; null without any", default=None)
    sampled_tensor_share: float | None = metric(
        "cycles in which the tensor cores worked in these samples; null without any", default=None
    )
    sampled_dram_share: float | None = metric(
        "traffic of the device memory over its peak in these samples; null without any", default=None
    )


class KernelMeasures:
    """The columns of `MeasuredRow` for groups of these device ops."""

    def __init__(self, rated: Rated, groups: Groups, rows: I32 | I64) -> None:
        self._groups = groups
        self._steps = rated.timed.steps.steady_count
        self._counted = _counted(rated, groups, rows)
        sampled = sampled_ops(rated.timed)
        self._samples: F64 | None = None
        self._sums: dict[str, F64] = {}
        if sampled is not None:
            self._samples = groups.sum(sampled.count[rows])
            self._sums = {role: groups.sum(total[rows]) for role, total in sampled.total.items()}

    def columns(self, group: int) -> dict[str, Any]:
        """The columns for a group."""
        found = self._counted.get(group, [])
        stall = _main_stall(found)
        samples = None if self._samples is None else float(self._samples[group])
        return vars(
            MeasuredRow(
                achieved_occupancy_share=_weighted(found, "occupancy_share"),
                tensor_active_share=_weighted(found, "tensor_share"),
                main_stall=stall[0] if stall else None,
                main_stall_share=stall[1] if stall else None,
                samples=None if samples is None else samples / self._steps,
                sampled_sm_share=self._mean("sm_active", group, samples),
                sampled_tensor_share=self._mean("tensor", group, samples),
                sampled_dram_share=self._mean("dram", group, samples),
            )
        )

    def _mean(self, role: str, group: int, samples: float | None) -> float | None:
        return float(self._sums[role][group]) / samples if samples and role in self._sums else None


def _counted(rated: Rated, groups: Groups, rows: I32 | I64) -> dict[int, list[tuple[int, list[KernelCounters]]]]:
    """For each group what was measured of its launch shapes, with how many of its device ops have each."""
    result: dict[int, list[tuple[int, list[KernelCounters]]]] = {}
    if not rated.linked.knowledge.counters:
        return result
    place = np.full(len(rated.trace.device_ops), -1, np.int64)
    place[rows] = groups.index
    for ops, found in matches(rated.linked, rated.linked.knowledge.counters):
        inside = place[ops][place[ops] >= 0]
        if len(inside):
            result.setdefault(int(inside[0]), []).append((len(inside), found))
    return result


def _weighted(found: list[tuple[int, list[KernelCounters]]], figure: str) -> float | None:
    """Mean of a figure over the device ops whose launch shapes were measured."""
    known = [(n, mean) for n, one in found if (mean := mean_of(one, lambda k: getattr(k, figure))) is not None]
    return sum(n * mean for n, mean in known) / sum(n for n, _ in known) if known else None


def _main_stall(found: list[tuple[int, list[KernelCounters]]]) -> tuple[str, float] | None:
    """What the warps of these launches waited for most, and the mean share of it."""
    total: dict[str, float] = {}
    weight = 0.0
    for count, kernels in found:
        for kernel in kernels:
            part = count / len(kernels)
            weight += part if kernel.stalls else 0.0
            for reason, share in kernel.stalls:
                total[reason] = total.get(reason, 0.0) + part * share
    if not total:
        return None
    reason = max(total, key=lambda one: total[one])
    return reason, total[reason] / weight
