"""Times of single recorded steps: how regular they are, and how long a request of an inference takes."""

import numpy as np

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.periods import inference_only
from traceanalyzer.analysis.time.regularity import Regularity, outliers, percentile, regularity
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, metric
from traceanalyzer.trace import F64

MARKED = ("profiler_step", "nvtx", "annotation")
"""Steps that the program marks: repeats of the GPU's work may be parts of steps, and differ as these do."""


@dataclass(frozen=True)
class Latency:
    """Requests of an inference as recorded: one step is one request (or one batch of them)."""

    requests: int = metric("recorded steady steps, one request or batch each")
    mean_ms: float = metric(
        "mean time from where the CPU begins a request until its last GPU work and its host range have ended", "ms"
    )
    median_ms: float = metric("median of these times", "ms")
    p95_ms: float | None = metric("95th percentile, linearly interpolated; null with fewer than 20 requests", "ms")
    p99_ms: float | None = metric("99th percentile, linearly interpolated; null with fewer than 100 requests", "ms")
    max_ms: float = metric("longest", "ms")


def recorded_regularity(timed: Timed, budgets: StepBudgets | None) -> Regularity | None:
    """How regular the recorded steady steps are; None where they are few, or not marked as one kind of step."""
    phases = {one.phase if one else None for one in map(iteration, timed.steps.names)}
    if timed.steps.source not in MARKED or len(phases) != 1:
        return None
    busy = None if budgets is None else (budgets.duration - budgets.idle)[timed.steps.steady].astype(np.float64)
    return regularity(own_times(timed.steps, budgets), busy)


def own_times(steps: Steps, budgets: StepBudgets | None) -> F64:
    """Times of the steady steps without the profiler's own idle time, ns."""
    time: F64 = steps.duration.astype(np.float64)
    if budgets is not None:
        time = time - budgets.idle_by_cause[IdleCause.PROFILER]
    return time[steps.steady]


def slow_steps(timed: Timed, budgets: StepBudgets | None) -> list[str]:
    """Names of the steady steps that are outliers."""
    names = timed.steps.names[timed.steps.steady]
    return [names[i] for i in np.flatnonzero(outliers(own_times(timed.steps, budgets)))]


def latency(timed: Timed) -> Latency | None:
    """Latency of the requests of an inference; None where PyTorch trains or is not seen, and where steps are no
    requests."""
    steps = timed.steps
    if steps.source not in MARKED or any(map(iteration, steps.names)) or not inference_only(timed.linked):
        return None
    time = (steps.end - steps.host_start)[steps.steady] / NS_PER_MS
    return Latency(
        requests=len(time),
        mean_ms=float(time.mean()),
        median_ms=float(np.median(time)),
        p95_ms=percentile(time, 95),
        p99_ms=percentile(time, 99),
        max_ms=float(time.max()),
    )
