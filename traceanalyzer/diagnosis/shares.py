"""The step taken apart: its budget, idle time by cause, compute by what usually limits the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.roofline.bounds import Bound

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64


@dataclass(frozen=True)
class Shares:
    """Parts of the step, 0..1; they sum to 1."""

    compute: float
    memory: float
    communication: float
    transfer: float
    launch: float
    sync: float
    input: float
    host: float
    unexplained: float

    @property
    def device(self) -> float:
        """Computation of either kind."""
        return self.compute + self.memory


def step_shares(m: Measurements) -> Shares | None:
    """The parts of the mean step; None without device work in it."""
    if m.budget is None or m.idle is None or m.mean_step_ms <= 0:
        return None
    step, budget, idle = m.mean_step_ms, m.budget, m.idle
    memory = budget.compute * memory_bound_share(m)
    return Shares(
        compute=(budget.compute - memory) / step,
        memory=memory / step,
        communication=(budget.exposed_communication + idle.communication) / step,
        transfer=budget.exposed_copy / step,
        launch=idle.launch / step,
        sync=idle.sync / step,
        input=idle.input / step,
        host=idle.host / step,
        unexplained=(idle.profiler + idle.other) / step,
    )


def memory_bound_share(m: Measurements) -> float:
    """Share of the steady state's compute time in kernels that memory bandwidth would limit at best: as a kernel
    profiler measured it, else by the roofline (traffic takes longer than arithmetic), else (no model, unknown GPU, too
    small to tell) by what usually limits kernels of the class."""
    r = m.roofline
    rows, time = _compute(m)
    by_class = np.array([bound == "memory" for bound in m.classes.bound])[m.op_class[rows]]
    memory = np.where((r.rated & ~r.small)[rows], ~r.arithmetic[rows], by_class)
    measured = (r.counted & np.isin(r.bound, (Bound.COMPUTE, Bound.MEMORY)))[rows]
    memory = np.where(measured, r.bound[rows] == Bound.MEMORY, memory)
    return float(time[memory].sum() / time.sum()) if time.sum() else 0.0


def rated_share(m: Measurements) -> float:
    """Share of the steady state's compute time that the roofline says something about."""
    rows, time = _compute(m)
    return float(time[m.roofline.rated[rows]].sum() / time.sum()) if time.sum() else 0.0


def _compute(m: Measurements) -> tuple[I64, I64]:
    """The steady state's compute ops and their durations, ns."""
    ops, rows = m.trace.device_ops, np.flatnonzero(m.is_compute & m.steady_ops)
    return rows, (ops.end - ops.start)[rows]


def missing_kernels(m: Measurements) -> float:
    """Share of the launches of the measured steps whose kernels are not in the recording."""
    return (m.launches and m.launches.fruitless_share) or 0.0
