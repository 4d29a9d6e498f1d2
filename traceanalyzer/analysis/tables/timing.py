"""What step times alone tell: steady state, drift, outliers, two modes, waiting for data,
throughput.

The times are the program's own (a timing log), so a trace's figures and a profiler's cost are no
part of them."""

import numpy as np

from traceanalyzer.analysis.algebra import median_of
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time import regularity as stats
from traceanalyzer.analysis.time.each_engine import summed_rate
from traceanalyzer.analysis.time.periods import inference_only
from traceanalyzer.analysis.time.steps import Steps, count_warmup
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, metric, ms, ratio
from traceanalyzer.trace import F64, I64, Bool, StepTimings, Stopwatch, Trace

FEWEST_STEPS = 4  # of three steps one is always alone: that is no kind
FEW_STEPS_RATIO = 1.5
"""With too few steps for statistics a step that takes half as long again as the next faster one is
another kind."""
FASTER_SHARE = 0.8
"""A host-bound program differs by a sixth from run to run; recorded steps that are faster by more
are other steps."""
NORMAL_90 = 1.645  # standard deviations that hold 90 % of a normal distribution


@dataclass(frozen=True)
class TimingStats:
    """The steady-state steps of a timing log (leading slow steps excluded)."""

    steps: int = metric("logged steady-state steps")
    median_ms: float | None = metric("median step time; null where the log times no steps")
    drift_share: float | None = metric(
        "change of the step time over the log, by its robust slope, as a share of the median; 0 where the slope is "
        "within chance; null with few steps"
    )
    outliers: int = metric("steps that are much slower than the typical one")
    outlier_excess_share: float = metric(
        "time beyond the median that outliers cost, of the logged time"
    )
    fast_mode_ms: float | None = metric(
        "median of the fast steps where steps are of two kinds; null where they are of one kind"
    )
    slow_mode_ms: float | None = metric("median of the slow steps; null where they are of one kind")
    slow_steps_share: float | None = metric(
        "share of the steps that are of the slow kind; null with one kind"
    )
    data_time_ms: float | None = metric(
        "mean time a step waits for data; null where it was not logged"
    )
    data_share: float | None = metric(
        "share of the step time spent waiting for data; null where not logged"
    )
    forward_ms: float | None = metric(
        "mean time of the forward pass as logged; null where not logged"
    )
    backward_ms: float | None = metric(
        "mean time of the backward pass as logged; null where not logged"
    )
    optimizer_ms: float | None = metric(
        "mean time of the optimizer as logged; null where not logged"
    )
    samples_per_s: float | None = metric("samples a second; null where not logged", "1/s")
    tokens_per_s: float | None = metric("tokens a second; null where not logged", "1/s")
    mfu: float | None = metric(
        "mean model FLOP/s utilisation as logged; null where not logged", "share"
    )
    loss: float | None = metric(
        "median loss over the later half of the logged steps; null where not logged"
    )
    loss_spread_share: float | None = metric(
        "standard deviation of the loss from step to step, by what neighbouring steps differ by, as "
        "a share of it; null where not logged"
    )
    grad_norm: float | None = metric(
        "median norm of the gradients over the later half of the logged steps; null where not logged"
    )
    not_finite: int | None = metric(
        "logged steps whose loss or gradient norm is nan or infinite; null where neither is logged"
    )
    loss_lost_at: int | None = metric(
        "logged step from which on every loss is nan or infinite; null where the last one is finite"
    )
    peak_memory_bytes: int | None = metric(
        "most GPU memory in use as logged; null where not logged"
    )


NEIGHBOURS_SIGMA = 1.4826 / 2**0.5
"""Standard deviation of a step's figure, from the median of what neighbouring steps differ by:
training moves little from one to the next (normal values)."""
LOST_SHARE = 0.5
"""Of the later half: with so many figures nan or infinite, the others say nothing of the run."""
MARKED = ("profiler_step", "nvtx", "annotation")
"""Steps that the program marks: repeats of the GPU's work may be parts of steps, and differ as
these do."""


def timing_stats(log: StepTimings, of_means: bool = False) -> TimingStats | None:
    """The figures of a timing log; None where there is none. `of_means`: its times are running
    means, of which none says how long a single step took."""
    if not len(log):
        return None
    steady = _steady(log)
    time = log.duration[steady & (log.duration > 0)].astype(np.float64)
    slow = np.zeros(len(time), bool) if of_means else stats.outliers(time)
    modes = None if of_means else stats.two_modes(time)
    (fast_ns, slow_ns, slow_share) = modes or (None, None, None)
    data_ms, forward_ms, backward_ms, optimizer_ms = (
        ratio(_mean(times[steady]), NS_PER_MS)
        for times in (log.data, log.forward, log.backward, log.optimizer)
    )
    return TimingStats(
        steps=len(time) or int(steady.sum()),
        median_ms=ms(median_of(time)) if len(time) else None,
        drift_share=stats.drift(time),
        outliers=int(slow.sum()),
        outlier_excess_share=stats.excess_share(time, slow),
        fast_mode_ms=ratio(fast_ns, NS_PER_MS),
        slow_mode_ms=ratio(slow_ns, NS_PER_MS),
        slow_steps_share=slow_share,
        data_time_ms=data_ms,
        forward_ms=forward_ms,
        backward_ms=backward_ms,
        optimizer_ms=optimizer_ms,
        data_share=_data_share(log, steady),
        samples_per_s=_rate(log, steady, log.samples_per_s, log.samples),
        tokens_per_s=_tokens_per_s(log, steady),
        mfu=_mean(log.mfu[steady]),
        loss=_late_median(log.loss),
        loss_spread_share=_spread_share(log.loss),
        grad_norm=_late_median(log.grad_norm),
        not_finite=_not_finite(log),
        loss_lost_at=_lost_at(log),
        peak_memory_bytes=int(log.peak_memory_bytes.max()) if _says_memory(log) else None,
    )


def _says_memory(log: StepTimings) -> bool:
    return bool((log.peak_memory_bytes >= 0).any())


def _late_median(values: F64) -> float | None:
    """The median over the later half of the steps that say one; None where it is not finite."""
    logged = values[~np.isnan(values)]
    late = logged[len(logged) // 2 :]
    if len(late) == 0 or np.isinf(late).mean() >= LOST_SHARE:
        return None
    return float(np.median(late[np.isfinite(late)]))


def _not_finite(log: StepTimings) -> int | None:
    """The steps that say a loss or a norm which is none; None where no step says any."""
    if np.isnan(log.loss).all() and np.isnan(log.grad_norm).all():
        return None
    return int((np.isinf(log.loss) | np.isinf(log.grad_norm)).sum())


def _lost_at(log: StepTimings) -> int | None:
    """The number of the first step after the last finite loss (its place where steps have none)."""
    logged = np.flatnonzero(~np.isnan(log.loss))
    lost = np.isinf(log.loss[logged])
    finite = np.flatnonzero(~lost)
    from_here = finite[-1] + 1 if len(finite) else 0
    if from_here >= len(logged):
        return None
    first = int(logged[from_here])
    return int(log.step[first]) if log.step[first] >= 0 else first


def _spread_share(values: F64) -> float | None:
    known = values[np.isfinite(values)]
    late = _late_median(values)
    if late is None or late <= 0 or len(known) < 2:
        return None
    return float(NEIGHBOURS_SIGMA * np.median(np.abs(np.diff(known))) / late)


@dataclass(frozen=True)
class StepKinds:
    """Recorded steps of two kinds: their medians, ms, and the share of the slow ones."""

    fast_ms: float
    slow_ms: float
    slow_share: float


@dataclass(frozen=True)
class UnprofiledTime:
    """A step timed without the profiler, ms: the median and its 90 % interval; `host_ms` is what the
    host took for one that it issued ahead of the device, or more. None where that is not known."""

    step_ms: float
    low_ms: float
    high_ms: float
    host_ms: float | None = None


def unprofiled_time(trace: Trace) -> UnprofiledTime | None:
    """The step of a recording's process without the profiler, as its capture timed it, else by the
    timing log given with it; None where neither is known, or the capture's does not count."""
    if trace.unprofiled_step_ns is not None:
        return by_capture(trace.unprofiled_step_ns, trace.stopwatch)
    if trace.stopwatch is not None or trace.only_step_times or not len(trace.step_timings):
        return None
    if trace.step_timings.of_server:
        return None  # its iterations are unlike, and not those of the recording alone
    time = trace.step_timings.duration[_steady(trace.step_timings)]
    order = np.sort(time[time > 0])
    if not len(order):
        return None
    # Order statistics, by the normal approximation to the binomial.
    middle = len(order) / 2
    half = NORMAL_90 / 2 * np.sqrt(len(order))
    low = max(int(middle - half), 0)
    high = min(int(np.ceil(middle + half)), len(order) - 1)
    return UnprofiledTime(ms(median_of(order)), ms(order[low]), ms(order[high]))


def by_capture(step_ns: int, stopwatch: Stopwatch | None) -> UnprofiledTime:
    """The step as a capture timed it; where it has no range, this one alone."""
    step = ms(step_ns)
    if stopwatch is None:
        return UnprofiledTime(step, step, step)
    low, high, host = (
        None if one is None else ms(one)
        for one in (stopwatch.low_ns, stopwatch.high_ns, stopwatch.host_ns)
    )
    return UnprofiledTime(step, step if low is None else low, step if high is None else high, host)


def contradicted(timed: UnprofiledTime, recorded_ms: float) -> bool:
    """Whether recorded steps are so much faster than those that were timed that these must be
    others: no profiler makes a program faster."""
    return recorded_ms < FASTER_SHARE * timed.low_ms


def _steady(log: StepTimings) -> Bool:
    """Which rows are of the steady state; all of them where no steps are timed."""
    rows = np.flatnonzero(log.duration > 0)
    result = np.ones(len(log), bool)
    if len(rows):
        result[: rows[count_warmup(log.duration[rows])]] = False
    return result


def kinds_of_steps(time_ns: I64) -> StepKinds | None:
    """Two kinds of steps among recorded ones, where their times fall in two groups; None where they
    do not."""
    time = time_ns.astype(np.float64)
    if len(time) >= stats.MIN_STEPS:
        modes = stats.two_modes(time)
        if modes is None:
            return None
        fast_ns, slow_ns, share = modes
        return StepKinds(ms(fast_ns), ms(slow_ns), share)
    order = np.sort(time)
    growth = order[1:] / np.maximum(order[:-1], 1)
    if len(time) < FEWEST_STEPS or growth.max() < FEW_STEPS_RATIO:
        return None
    fast, slow = np.split(order, [int(growth.argmax()) + 1])
    share = len(slow) / len(order)
    return StepKinds(ms(median_of(fast)), ms(median_of(slow)), share)


def _data_share(log: StepTimings, steady: Bool) -> float | None:
    """Share of the steps' time in which they wait for data; None where that is not logged."""
    both = steady & (log.data >= 0) & (log.duration > 0)
    waited = float(log.data[both].sum())
    return ratio(waited, float(log.duration[both].sum()))


def _tokens_per_s(log: StepTimings, steady: Bool) -> float | None:
    """Tokens a second; of a server that says its load, over the lines in which it has requests."""
    if (log.running_requests >= 0).any() and (log.tokens_per_s >= 0).any():
        return summed_rate(log, "tokens_per_s")
    return _rate(log, steady, log.tokens_per_s, log.tokens)


def _rate(log: StepTimings, steady: Bool, logged: F64, count: I64) -> float | None:
    """Units a second: counts over the time they took, else the mean of what the log says."""
    both = steady & (count > 0) & (log.duration > 0)
    return (
        float(count[both].sum() / log.duration[both].sum() * 1e9)
        if both.any()
        else _mean(logged[steady])
    )


def _mean(values: F64 | I64) -> float | None:
    known = values[values >= 0]
    return float(known.mean()) if len(known) else None


@dataclass(frozen=True)
class Latency:
    """Requests of an inference as recorded: one step is one request (or one batch of them)."""

    requests: int = metric("recorded steady steps, one request or batch each")
    mean_ms: float = metric(
        "mean time from where the CPU begins a request until its last GPU work and its "
        "host range have ended"
    )
    median_ms: float = metric("median of these times")
    p95_ms: float | None = metric(
        "95th percentile, linearly interpolated; null with fewer than 20 requests"
    )
    p99_ms: float | None = metric(
        "99th percentile, linearly interpolated; null with fewer than 100 requests"
    )
    max_ms: float = metric("longest")


def recorded_regularity(timed: Timed, budgets: StepBudgets | None) -> stats.Regularity | None:
    """How regular the recorded steady steps are; None where they are few, or not marked as one kind
    of step."""
    if timed.steps.source not in MARKED:
        return None
    phases = {one.phase if one else None for one in map(iteration, timed.steps.names)}
    if len(phases) != 1:
        return None
    busy = (
        None
        if budgets is None
        else (budgets.duration - budgets.idle)[timed.steps.steady].astype(np.float64)
    )
    return stats.regularity(own_times(timed.steps, budgets), busy)


def own_times(steps: Steps, budgets: StepBudgets | None) -> F64:
    """Times of the steady steps without the profiler's own idle time, ns."""
    own = 0 if budgets is None else budgets.idle_by_cause[IdleCause.PROFILER]
    return (steps.duration.astype(np.float64) - own)[steps.steady]


def slow_steps(timed: Timed, budgets: StepBudgets | None) -> list[str]:
    """Names of the steady steps that are outliers."""
    names = timed.steps.names[timed.steps.steady]
    return [names[i] for i in np.flatnonzero(stats.outliers(own_times(timed.steps, budgets)))]


def latency(timed: Timed) -> Latency | None:
    """Latency of the requests of an inference; None where PyTorch trains or is not seen, and where
    steps are no requests."""
    steps = timed.steps
    if (
        steps.source not in MARKED
        or any(map(iteration, steps.names))
        or not timed.linked.memo(inference_only)
    ):
        return None
    time = (steps.end - steps.host_start)[steps.steady] / NS_PER_MS
    return Latency(
        requests=len(time),
        mean_ms=float(time.mean()),
        median_ms=median_of(time),
        p95_ms=stats.percentile_of(time, 95),
        p99_ms=stats.percentile_of(time, 99),
        max_ms=float(time.max()),
    )
