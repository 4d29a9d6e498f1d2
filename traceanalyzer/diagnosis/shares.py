"""The step taken apart: its budget, idle time by cause, compute by what usually limits the
kernels."""

from typing import Literal

from traceanalyzer.analysis.groups.bounds import memory_bound_share, small_share, unknown_share
from traceanalyzer.analysis.groups.limits import kernel_limits
from traceanalyzer.analysis.tables.step_figures import Waiting
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.measurements import Measurements

MOST_DOUBT = 0.25
"""With more of the computation in kernels of which nothing tells the limit, there is no saying
compute or memory."""
MOSTLY = 0.5  # of the compute time
TELLS_CLASS = 0.2
"""Share of the compute time in kernels that arithmetic or memory limits, from which these tell the
class: of less it says little."""
WITHIN = "device to device"  # direction of copies that never leave the device


@dataclass(frozen=True)
class Shares:
    """Parts of the step, 0..1; they sum to 1."""

    compute: float
    memory: float
    unknown: float  # computation in kernels whose limit nothing tells
    communication: float
    transfer: float
    launch: float
    sync: float
    input: float
    host: float
    unexplained: float
    small: float = 0.0  # computation in kernels that fill hardly any of the GPU

    @property
    def device(self) -> float:
        """Computation of any kind."""
        return self.compute + self.memory + self.small + self.unknown

    @property
    def doubt(self) -> float:
        """Share of the computation in unknown kernels, where these could turn what limits it; else
        0."""
        second, first = sorted((self.compute, self.memory, self.small))[1:]
        return self.unknown / self.device if first - second < self.unknown else 0.0

    @property
    def mostly_small(self) -> bool:
        """Whether most of the computation that something is known of fills hardly any of the
        GPU."""
        return self.small > max(self.compute, self.memory)

    @property
    def limit_known(self) -> bool:
        """Whether there is saying what limits the computation."""
        return self.doubt <= MOST_DOUBT


def step_shares(m: Measurements) -> Shares | None:
    """The parts of the step that the report speaks of; None without device work in it."""
    step = m.step.step_ms
    budget = m.step.budget
    idle = m.step.idle
    if budget is None or idle is None or step <= 0:
        return None
    waits = waits_by_cause(m)
    computed = budget.compute + waits.compute
    memory, small, unknown = (
        computed * share(m.rated) for share in (memory_bound_share, small_share, unknown_share)
    )
    # Copies within the device are traffic of its memory.
    within = min(copied_within_gpu_ms(m), budget.exposed_copy)
    return Shares(
        compute=max(computed - memory - small - unknown, 0.0) / step,
        memory=(memory + within) / step,
        small=small / step,
        unknown=unknown / step,
        communication=(
            budget.exposed_communication + idle.communication - waits.total + waits.transfer
        )
        / step,
        transfer=(budget.exposed_copy - within + waits.copy) / step,
        launch=(idle.launch + waits.launch) / step,
        sync=(idle.sync + waits.sync) / step,
        input=(idle.input + waits.input) / step,
        host=(idle.host + waits.host) / step,
        unexplained=(
            idle.profiler + idle.other + waits.communication + waits.profiler + waits.other
        )
        / step,
    )


def device_class(m: Measurements, shares: Shares) -> Literal["compute", "memory"]:
    """What limits the computation, as far as that is known: what most of the kernels with a known
    limit are limited by. Where hardly any is limited by arithmetic or memory, most of them by latency
    are compute, as kernels too small to fill the GPU are; of others it is what would limit them at
    best."""
    limits = m.rated.memo(kernel_limits)
    is_known = limits.known >= MOSTLY
    if shares.mostly_small:
        return "compute"
    if is_known and max(limits.compute, limits.memory) >= TELLS_CLASS:
        return "memory" if limits.memory > limits.compute else "compute"
    if is_known and limits.latency > MOSTLY:
        return "compute"
    return "memory" if shares.memory > shares.compute else "compute"


def waits_by_cause(m: Measurements) -> Waiting:
    """What this rank waits for others, which is what these do meanwhile: they compute as it does. Of
    a rank that is reported alone it is waiting: what the others do is theirs to change."""
    waits = m.step.waited
    if m.ranks is not None and len(m.ranks.rows) > 1:
        return waits
    return Waiting.of({"transfer": waits.total})


def copied_within_gpu_ms(m: Measurements) -> float:
    """Time a step with nothing on the device but copies from it to itself, ms."""
    return sum(
        (c.exposed_ms for c in m.copies if c.direction == WITHIN and c.device == m.timed.device),
        start=0.0,
    )


def missing_kernels(m: Measurements) -> float:
    """Share of the launches of the measured steps whose kernels are not in the recording."""
    return (m.launches and m.launches.fruitless_share) or 0.0
