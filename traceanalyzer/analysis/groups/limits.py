"""Compute time by what limits its kernels, launch by launch: what `bound_by` of the table of
kernels says of each name."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.groups.ops import duration
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.rated import WithRoofline


class KernelLimits(NamedTuple):
    """Shares of the steady state's compute time by what limits the kernels; they sum to 1."""

    compute: float
    memory: float
    instructions: float
    latency: float
    unknown: float  # in kernels without a model, or on an unknown GPU

    @property
    def known(self) -> float:
        """Share of the compute time in kernels whose limit is known."""
        return 1.0 - self.unknown


def kernel_limits(rated: WithRoofline) -> KernelLimits:
    """The limit of each kernel by the roofline, as a kernel profiler measured it, or, where neither
    tells, as counters sampled while it ran say."""
    rows = rated.linked.is_compute & rated.timed.steady_ops
    time = duration(rated.linked)[rows].astype(np.float64)
    total = time.sum()
    if not total:
        return KernelLimits(0.0, 0.0, 0.0, 0.0, 1.0)
    bound = rated.roofline.bound[rows]
    bound = np.where(bound == Bound.UNKNOWN, rated.sampled_bounds[rows], bound)

    def share(kind: Bound) -> float:
        return float(time[bound == kind].sum() / total)

    limits = KernelLimits(
        compute=share(Bound.COMPUTE),
        memory=share(Bound.MEMORY),
        instructions=share(Bound.INSTRUCTIONS),
        latency=share(Bound.LATENCY),
        unknown=0.0,
    )
    return limits._replace(unknown=max(1.0 - sum(limits), 0.0))
