"""Two servers, or two versions of one, at like batches: what an iteration takes, launches, keeps busy and waits for."""

from collections.abc import Callable, Sequence

import numpy as np

from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.base import dataclass, metric


@dataclass(frozen=True)
class BatchChange:
    """Iterations of one phase and batch in both, medians."""

    phase: str = metric("prefill, decode, mixed or verify", text="own")
    requests: int = metric("requests of the batch")
    a_ms: float | None = metric("time of an iteration in A, from the end of the one before", "ms")
    b_ms: float | None = metric("the same in B", "ms")
    a_busy_ms: float | None = metric("GPU busy in A", "ms")
    b_busy_ms: float | None = metric("GPU busy in B", "ms")
    a_gap_ms: float | None = metric("GPU idle behind it in A", "ms")
    b_gap_ms: float | None = metric("GPU idle behind it in B", "ms")
    a_ops: float | None = metric("kernels, copies and memsets in A")
    b_ops: float | None = metric("kernels, copies and memsets in B")
    a_launches: float | None = metric("launches in A, a graph is one")
    b_launches: float | None = metric("launches in B, a graph is one")
    a_launch_us: float | None = metric("CPU time of its mark for each launch in A", "us")
    b_launch_us: float | None = metric("CPU time of its mark for each launch in B", "us")


def batch_changes(a: Sequence[IterationRow], b: Sequence[IterationRow]) -> list[BatchChange]:
    """The batches that both have, by phase, then size."""
    sides = _by_batch(a), _by_batch(b)
    return [_change(*batch, sides[0][batch], sides[1][batch]) for batch in sorted(sides[0].keys() & sides[1].keys())]


def _by_batch(rows: Sequence[IterationRow]) -> dict[tuple[str, int], list[IterationRow]]:
    found: dict[tuple[str, int], list[IterationRow]] = {}
    for row in rows:
        if row.phase and row.requests and row.gpu_ops:
            found.setdefault((row.phase, row.requests), []).append(row)
    return found


def _change(phase: str, requests: int, a: list[IterationRow], b: list[IterationRow]) -> BatchChange:
    figures = (_time, lambda r: r.gpu_busy_ms, lambda r: r.gap_ms, lambda r: r.gpu_ops, _launches, _launch_us)
    return BatchChange(phase, requests, *(_median(side, of) for of in figures for side in (a, b)))


def _time(row: IterationRow) -> float | None:
    return row.gpu_span_ms if row.period_ms is None else row.period_ms


def _launches(row: IterationRow) -> int:
    return (row.launches or 0) + (row.graph_launches or 0)


def _launch_us(row: IterationRow) -> float | None:
    return 1e3 * row.host_ms / _launches(row) if row.host_ms and _launches(row) else None


def _median(rows: list[IterationRow], of: Callable[[IterationRow], float | None]) -> float | None:
    known = [value for row in rows if (value := of(row)) is not None]
    return float(np.median(known)) if known else None
