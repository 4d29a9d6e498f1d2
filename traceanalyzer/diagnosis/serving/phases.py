"""The iterations of a serving engine by phase: what each takes with the profiler and without it, and its limit."""

from typing import Any

import numpy as np

from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.rows import IterationRow, found_in_log
from traceanalyzer.base import MS_PER_S, NS_PER_MS, NS_PER_S, dataclass
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.iterations import FAITHFUL

OWNS = 0.5
"""What takes this share of an iteration's time limits it."""
MODELLED = 0.5
"""Of the GPU time a smaller share with known traffic says nothing of the whole."""
LOG_SPREAD = 0.05
"""From one run of a server to the next, decodes differ by this much."""


@dataclass(frozen=True)
class Unprofiled:
    """An iteration without the profiler, ms, with its 90 % range."""

    ms: float
    low_ms: float
    high_ms: float
    source: str
    """`log` or `replay`."""


@dataclass(frozen=True)
class Phase:
    """The iterations of one phase, medians, ms."""

    phase: str
    iterations: int
    requests: float | None
    context_tokens: float | None
    generation_tokens: float | None
    iteration_ms: float
    """From the end of the iteration before; the span of the GPU work where that is not recorded."""
    busy_ms: float
    host_idle_ms: float
    limit: str
    """`host`, `gpu`, or `unknown` where it is idle for what the recording does not show."""
    tokens_per_s: float | None
    memory_ms: float | None
    """What the traffic of its kernels needs at the memory's bandwidth, a mean; None where too few have a model."""
    arithmetic_ms: float | None
    """What those need that arithmetic limits."""
    unprofiled: Unprofiled | None


def phases(m: Measurements) -> list[Phase]:
    """The phases that the recorded iterations have, decodes first, then the most frequent."""
    by_phase: dict[str, list[IterationRow]] = {}
    for row in m.iterations:
        if row.phase is not None and row.gpu_span_ms is not None:
            by_phase.setdefault(row.phase, []).append(row)
    return [
        _phase(m, name, rows)
        for name, rows in sorted(by_phase.items(), key=lambda one: (one[0] != "decode", -len(one[1])))
    ]


def _phase(m: Measurements, name: str, rows: list[IterationRow]) -> Phase:
    followed = [row for row in rows if row.period_ms is not None] or rows
    times = [row.gpu_span_ms if row.period_ms is None else row.period_ms for row in followed]
    time, busy, late = (
        _middle(values) for values in (times, [r.gpu_busy_ms for r in followed], [r.host_idle_ms for r in followed])
    )
    memory, arithmetic = _ceilings(m, rows)
    made = [row.generation_tokens for row in followed]
    total = sum(t for t in times if t)
    return Phase(
        name,
        len(rows),
        _median([row.requests for row in rows]),
        _median([row.context_tokens for row in rows]),
        _median([row.generation_tokens for row in rows]),
        time,
        busy,
        late,
        "gpu" if busy >= OWNS * time else "host" if late >= OWNS * (time - busy) else "unknown",
        sum(n for n in made if n) / total * MS_PER_S if any(made) and total else None,
        memory,
        arithmetic,
        unprofiled(m, [row.iteration for row in followed]),
    )


def unprofiled(m: Measurements, iterations: list[int]) -> Unprofiled | None:
    """The median of these iterations without the profiler: as the log has them, else replayed; None where neither
    tells."""
    found, log, served = m.timed.memo(find_iterations), m.timed.memo(found_in_log), m.served
    recorded = np.full(1, np.nan) if found is None else found.period_ns[iterations]
    if np.isnan(recorded).all():
        alone = m.unprofiled if len(m.iterations) == 1 else None
        return Unprofiled(alone.step_time_ms, alone.low_ms, alone.high_ms, "replay") if alone else None
    time = float(np.nanmedian(recorded)) / NS_PER_MS
    logged = log.stretch if log and {m.iterations[i].phase for i in iterations} == {"decode"} else None
    if served is None:
        return Unprofiled(time / logged, *_within(time / logged), "log") if logged else None
    replayed, fast, usual, slow = (
        served.median_ms(tape, iterations) for tape in (served.recorded, served.fast, served.usual, served.slow)
    )
    if min(fast, usual, slow, time, replayed) <= 0:  # times so damaged that nothing is left of an iteration
        return None
    if logged:
        ends = *_within(time / logged), *(time / logged * one / usual for one in (fast, slow))
        return Unprofiled(time / logged, min(ends), max(ends), "log")
    if not abs(replayed / time - 1.0) <= FAITHFUL:
        return None
    least, likely, most = (min(one * time / replayed, time) for one in (fast, usual, slow))
    return Unprofiled(likely, least, most, "replay")


def _within(ms: float) -> tuple[float, float]:
    return ms * (1 - LOG_SPREAD), ms * (1 + LOG_SPREAD)


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _middle(values: list[Any]) -> float:
    """The median of values of which none is unknown."""
    return float(np.median(values))


def _ceilings(m: Measurements, rows: list[IterationRow]) -> tuple[float | None, float | None]:
    """Mean time of an iteration's known traffic at the memory's bandwidth, and that of its kernels at the peak of
    arithmetic which this limits."""
    found = m.timed.memo(find_iterations)
    if found is None:
        return None, None
    ops = np.concatenate([found.rows[row.iteration] for row in rows])
    table, roofline = m.trace.device_ops, m.rated.roofline
    took = (table.end - table.start)[ops]
    traffic = roofline.bytes[:][ops] / m.linked.limit("bandwidth")[ops] * MS_PER_S
    # More than was there to move or to calculate in the time: the model does not describe that kernel.
    known = np.isfinite(traffic) & ~(roofline.attainable[:][ops] > took)
    if took[known].sum() < MODELLED * took.sum():
        return None, None
    least = np.where(known & roofline.arithmetic[ops], roofline.attainable[:][ops], 0.0)
    return float(traffic[known].sum()) / len(rows), float(np.nansum(least)) / NS_PER_S * MS_PER_S / len(rows)
