"""The step taken apart: its budget, idle time by cause, compute by what usually limits the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.bounds import memory_bound_share

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements


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
    """The parts of the step that the report speaks of; None without device work in it."""
    step, budget, idle = m.step.step_ms, m.step.budget, m.step.idle
    if budget is None or idle is None or step <= 0:
        return None
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


def missing_kernels(m: Measurements) -> float:
    """Share of the launches of the measured steps whose kernels are not in the recording."""
    return (m.launches and m.launches.fruitless_share) or 0.0
