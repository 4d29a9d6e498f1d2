"""The iterations of a server by their kind: how long they take, and what makes the slow ones
slow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import percentiles
from traceanalyzer.analysis.serving.rows import IterationRow, figure_column
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64

FEW = 10  # iterations of a kind below which there is no tail to speak of
SLOW = 1.3
"""Times the median from which an iteration is one of the tail."""
NOT_SHOWN = "what the recording does not show"


@dataclass(frozen=True)
class IterationKind:
    """The iterations of a phase that reach the GPU in one way, ms."""

    phase: str
    graph: str | None  # `replayed`, `piecewise` or `eager`; None in a log
    iterations: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    most_ms: float
    slowest: int  # the iteration that takes longest
    slow: int  # iterations that take `SLOW` times the median
    cause: str | None
    """What most of the time of the slow ones beyond the median is; None without any."""
    cause_ms: float | None  # of it, a mean slow one


class _Part(NamedTuple):
    """A part of an iteration's time, beyond that of the usual one."""

    ms: float
    cause: str


def iteration_kinds(rows: Sequence[IterationRow]) -> list[IterationKind]:
    """The kinds with most time first; those whose phase is not known are left out."""
    groups: dict[tuple[str, str | None], list[IterationRow]] = {}
    for row in rows:
        if row.phase is not None and _time_ms(row) is not None:
            groups.setdefault((row.phase, row.graph), []).append(row)
    found = [_kind(phase, graph, mine) for (phase, graph), mine in groups.items()]
    return sorted(found, key=lambda kind: -kind.iterations * kind.p50_ms)


def _kind(phase: str, graph: str | None, rows: list[IterationRow]) -> IterationKind:
    times = np.array([_time_ms(row) for row in rows], np.float64)
    middle, high, highest = percentiles(times, 50, 90, 99)
    slow = [rows[i] for i in np.flatnonzero(times >= SLOW * middle)]
    cause = _cause(slow, rows) if slow and len(rows) >= FEW else None
    return IterationKind(
        phase=phase,
        graph=graph,
        iterations=len(rows),
        p50_ms=middle,
        p90_ms=high,
        p99_ms=highest,
        most_ms=float(times.max()),
        slowest=rows[int(times.argmax())].iteration,
        slow=len(slow),
        cause=None if cause is None else cause.cause,
        cause_ms=None if cause is None else cause.ms,
    )


def _time_ms(row: IterationRow) -> float | None:
    """From the end of the iteration before, else of its work, else as logged."""
    return row.period_ms or row.gpu_span_ms or row.logged_ms


def _cause(slow: list[IterationRow], rows: list[IterationRow]) -> _Part | None:
    """The largest part of what slow iterations take beyond the median of all."""
    if any(row.gpu_busy_ms is None for row in slow):
        return None

    def beyond(values: F64, of_slow: F64) -> float:
        return float(np.nanmean(of_slow) - np.nanmedian(values))

    times = np.array([_time_ms(row) for row in rows], np.float64)
    of_slow = np.array([_time_ms(row) for row in slow], np.float64)
    busy = beyond(figure_column(rows, "gpu_busy_ms"), figure_column(slow, "gpu_busy_ms"))
    host = beyond(figure_column(rows, "host_idle_ms"), figure_column(slow, "host_idle_ms"))
    rest = beyond(times, of_slow) - busy - host
    parts = (
        _Part(busy, "work of the GPU"),
        _Part(host, "waiting for the CPU"),
        _Part(rest, NOT_SHOWN),
    )
    return max(parts)
