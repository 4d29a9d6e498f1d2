"""The iterations of a serving engine by phase: what each takes with the profiler and without it,
and its limit."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.rows import IterationRow, by_phase, figure_column, found_in_log
from traceanalyzer.base import MS_PER_S, NS_PER_MS, NS_PER_S, dataclass, ratio
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.iterations import FAITHFUL
from traceanalyzer.trace import F64

OWNS = 0.5  # what takes this share of an iteration's time limits it
MODELLED = 0.5  # of the GPU time a smaller share with known traffic says nothing of the whole
LOG_SPREAD = 0.05  # from one run of a server to the next, decodes differ by this much


@dataclass(frozen=True)
class UnprofiledIteration:
    """An iteration without the profiler, ms, with its 90 % range."""

    ms: float
    low_ms: float
    high_ms: float
    source: str  # `log` or `replay`


@dataclass(frozen=True)
class Phase:
    """The iterations of one phase, medians, ms."""

    phase: str
    iterations: int
    requests: float | None
    context_tokens: float | None
    generation_tokens: float | None
    # from the end of the iteration before; the span of the GPU work where that is not recorded
    iteration_ms: float
    busy_ms: float
    host_idle_ms: float
    limit: str  # `host`, `gpu`, or `unknown` where it is idle for what the recording does not show
    tokens_per_s: float | None
    memory_ms: float | None
    """What the traffic of its kernels needs at the memory's bandwidth, a mean; None where too few
    have a model."""
    arithmetic_ms: float | None  # what those need that arithmetic limits
    unprofiled: UnprofiledIteration | None


def phases(m: Measurements) -> list[Phase]:
    """The phases that the recorded iterations have, decodes first, then the most frequent."""
    recorded = by_phase([row for row in m.iterations if row.gpu_span_ms is not None])
    order = sorted(recorded, key=lambda name: (name != "decode", -len(recorded[name])))
    return [_phase(m, name, recorded[name]) for name in order]


def _phase(m: Measurements, name: str, rows: list[IterationRow]) -> Phase:
    followed = [row for row in rows if row.period_ms is not None] or rows
    period = figure_column(followed, "period_ms")
    times = np.where(np.isnan(period), figure_column(followed, "gpu_span_ms"), period)
    time_ms = float(np.median(times))
    busy_ms = float(np.median(figure_column(followed, "gpu_busy_ms")))
    idle_ms = float(np.median(figure_column(followed, "host_idle_ms")))
    generated = float(np.nansum(figure_column(followed, "generation_tokens"))) or None
    per_ms = ratio(generated, sum(times.tolist()))
    memory_ms, arithmetic_ms = _ceilings(m, rows)
    return Phase(
        name,
        len(rows),
        requests=_median(figure_column(rows, "requests")),
        context_tokens=_median(figure_column(rows, "context_tokens")),
        generation_tokens=_median(figure_column(rows, "generation_tokens")),
        iteration_ms=time_ms,
        busy_ms=busy_ms,
        host_idle_ms=idle_ms,
        limit=_limit_of(time_ms, busy_ms, idle_ms),
        tokens_per_s=per_ms and per_ms * MS_PER_S,
        memory_ms=memory_ms,
        arithmetic_ms=arithmetic_ms,
        unprofiled=unprofiled(m, followed),
    )


def _limit_of(time_ms: float, busy_ms: float, idle_ms: float) -> str:
    if busy_ms >= OWNS * time_ms:
        return "gpu"
    return "host" if idle_ms >= OWNS * (time_ms - busy_ms) else "unknown"


def _median(values: F64) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmedian(values))


def unprofiled(m: Measurements, rows: Sequence[IterationRow]) -> UnprofiledIteration | None:
    """The median of these iterations without the profiler: as logged, else replayed; None where
    neither tells."""
    cut = m.timed.memo(find_iterations)
    log = m.timed.memo(found_in_log)
    if cut is None:
        return None
    numbers = figure_column(rows, "iteration").astype(int).tolist()
    if np.isnan(cut.period_ns[numbers]).all():
        alone = m.unprofiled if len(m.iterations) == len(rows) == 1 else None
        return (
            UnprofiledIteration(alone.step_time_ms, alone.low_ms, alone.high_ms, "replay")
            if alone
            else None
        )
    time = float(np.nanmedian(cut.period_ns[numbers])) / NS_PER_MS
    replayed = [np.nan] * 4 if m.served is None else m.served.medians_ms(numbers)
    if min(time, *replayed) <= 0:  # times so damaged that nothing is left of an iteration
        return None
    if log and log.stretch and by_phase(rows).keys() == {"decode"}:
        return _by_log(time / log.stretch, *replayed[1:])
    recorded, *hosts = replayed
    if not abs(recorded / time - 1.0) <= FAITHFUL:  # a replay that takes as long as was recorded
        return None
    least, likely, most = (min(one * time / recorded, time) for one in hosts)
    return UnprofiledIteration(likely, least, most, "replay")


def _by_log(time: float, fast: float, usual: float, slow: float) -> UnprofiledIteration:
    """As a log has it; from run to run, and by its host's speed (NaN: not known), it may differ."""
    ends = (
        time * (1 - LOG_SPREAD),
        time * (1 + LOG_SPREAD),
        time * fast / usual,
        time * slow / usual,
    )
    return UnprofiledIteration(time, float(np.nanmin(ends)), float(np.nanmax(ends)), "log")


def _ceilings(m: Measurements, rows: list[IterationRow]) -> tuple[float | None, float | None]:
    """Mean time of an iteration's traffic at the memory's bandwidth, and of arithmetic-bound
    kernels at their peak."""
    found = m.timed.memo(find_iterations)
    if found is None:
        return None, None
    ops = np.concatenate([found.rows[row.iteration] for row in rows])
    table = m.trace.device_ops
    roofline = m.rated.roofline
    took = (table.end - table.start)[ops]
    traffic = roofline.bytes[:][ops] / m.linked.limit("bandwidth")[ops] * MS_PER_S
    # More than was there to move or to calculate in the time: the model does not describe that
    # kernel.
    known = np.isfinite(traffic) & ~(roofline.attainable[:][ops] > took)
    if took[known].sum() < MODELLED * took.sum():
        return None, None
    least = np.where(known & roofline.arithmetic[ops], roofline.attainable[:][ops], 0.0)
    return float(traffic[known].sum()) / len(rows), float(
        np.nansum(least)
    ) / NS_PER_S * MS_PER_S / len(rows)
