"""The step taken apart: its budget, idle time by cause, compute by what usually limits the kernels."""

from __future__ import annotations

from traceanalyzer.analysis.groups.bounds import memory_bound_share, unknown_share
from traceanalyzer.analysis.tables.budget import Waiting
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.diagnosis.measurements import Measurements

WITHIN = "device to device"
"""Direction of copies that never leave the device."""
NO_WAITING = Waiting(*[0.0] * 10)


@dataclass(frozen=True)
class Shares:
    """Parts of the step, 0..1; they sum to 1."""

    compute: float
    memory: float
    unknown: float
    """Computation in kernels whose limit nothing tells."""
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
        return self.compute + self.memory + self.unknown

    @property
    def limit_known(self) -> bool:
        """Whether unknown kernels could not turn what limits the computation."""
        return abs(self.compute - self.memory) >= self.unknown


def step_shares(m: Measurements) -> Shares | None:
    """The parts of the step that the report speaks of; None without device work in it."""
    step, budget, idle = m.step.step_ms, m.step.budget, m.step.idle
    if budget is None or idle is None or step <= 0:
        return None
    # What this rank waits for others is what these do meanwhile: they compute as it does.
    waits = m.step.waiting or NO_WAITING
    computed = budget.compute + waits.compute
    memory, unknown = computed * memory_bound_share(m.rated), computed * unknown_share(m.rated)
    # Copies within the device are traffic of its memory.
    within = min(copied_within_ms(m), budget.exposed_copy)
    return Shares(
        compute=max(computed - memory - unknown, 0.0) / step,
        memory=(memory + within) / step,
        unknown=unknown / step,
        communication=(budget.exposed_communication - waits.total + waits.transfer + idle.communication) / step,
        transfer=(budget.exposed_copy - within + waits.copy) / step,
        launch=(idle.launch + waits.launch) / step,
        sync=(idle.sync + waits.sync) / step,
        input=(idle.input + waits.input) / step,
        host=(idle.host + waits.host) / step,
        unexplained=(idle.profiler + idle.other + waits.communication + waits.profiler + waits.other) / step,
    )


def copied_within_ms(m: Measurements) -> float:
    """Time a step with nothing on the device but copies from it to itself, ms."""
    return sum(row.exposed_ms for row in m.copies if row.direction == WITHIN and row.device == m.timed.device)


def missing_kernels(m: Measurements) -> float:
    """Share of the launches of the measured steps whose kernels are not in the recording."""
    return (m.launches and m.launches.fruitless_share) or 0.0
