"""Operators, modules and kernels of two reports: how often they run apart from how long a call
takes."""

from collections.abc import Callable, Sequence

import numpy as np

from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.base import dataclass, metric
from traceanalyzer.report.format import figure
from traceanalyzer.report.model import TOP_ROWS, Report

TIMES = {"ops": "device_self_ms", "modules": "device_ms", "kernels": "total_ms"}
"""Tables, and the column of device time that is compared."""
SHOWN = 15
LEAST_SHARE = 0.001  # differences below this share of the step are not worth a row


@dataclass(frozen=True)
class RowChange:
    """Device time of one operator, module or kernel in a step of both."""

    name: str = metric("operator, module or kernel")
    calls: str = metric("calls a step in A and B, and the device time of each")
    a_ms: float = metric("device time of A's mean step")
    b_ms: float = metric("device time of B's mean step")
    difference_ms: float = metric("B less A")
    by_time_ms: float = metric(
        "of that, what longer or shorter calls account for; the rest are more or fewer"
    )


def rows_between(a: Report, b: Report, step_ms: float) -> dict[str, list[RowChange]]:
    """What changed in each table, the largest difference first."""
    found = ((table, _changes(table, a, b, LEAST_SHARE * step_ms)) for table in TIMES)
    return {table: rows for table, rows in found if rows}


def _changes(table: str, a: Report, b: Report, least_ms: float) -> list[RowChange]:
    of_a = _sums(table, a)
    of_b = _sums(table, b)
    rows = []
    for name in dict.fromkeys((*of_a, *of_b)):
        if any(
            name not in side and len(r.tables.get(table, [])) >= TOP_ROWS
            for side, r in ((of_a, a), (of_b, b))
        ):
            continue  # it may be below the rows that the other report has
        (calls_a, ms_a), (calls_b, ms_b) = of_a.get(name, (0.0, 0.0)), of_b.get(name, (0.0, 0.0))
        if abs(ms_b - ms_a) < least_ms or ms_a == ms_b:
            continue
        of_calls = (calls_b - calls_a) * ms_a / calls_a if calls_a and calls_b else ms_b - ms_a
        calls = f"{_calls(calls_a, ms_a)} → {_calls(calls_b, ms_b)}"
        rows.append(RowChange(name, calls, ms_a, ms_b, ms_b - ms_a, ms_b - ms_a - of_calls))
    return sorted(rows, key=lambda row: -abs(row.difference_ms))


def _sums(table: str, report: Report) -> dict[str, tuple[float, float]]:
    """Calls and device time of a step by name."""
    found: dict[str, tuple[float, float]] = {}
    for row in report.tables.get(table, []):
        calls, ms = found.get(row.name, (0.0, 0.0))
        found[row.name] = calls + row.calls, ms + getattr(row, TIMES[table])
    return found


def _calls(calls: float, ms: float) -> str:
    """How many, and how long each."""
    return f"{calls:,.4g} x {figure(ms / calls, 'ms')}" if calls else "none"


@dataclass(frozen=True)
class BatchChange:
    """Iterations of one phase and batch in both, medians."""

    phase: str = metric("prefill, decode, mixed or verify", text="own")
    requests: int = metric("requests of the batch")
    a_ms: float | None = metric("time of an iteration in A, from the end of the one before")
    b_ms: float | None = metric("the same in B")
    a_busy_ms: float | None = metric("GPU busy in A")
    b_busy_ms: float | None = metric("GPU busy in B")
    a_gap_ms: float | None = metric("GPU idle behind it in A")
    b_gap_ms: float | None = metric("GPU idle behind it in B")
    a_ops: float | None = metric("kernels, copies and memsets in A")
    b_ops: float | None = metric("kernels, copies and memsets in B")
    a_launches: float | None = metric("launches in A, a graph is one")
    b_launches: float | None = metric("launches in B, a graph is one")
    a_launch_us: float | None = metric("CPU time of its mark for each launch in A")
    b_launch_us: float | None = metric("CPU time of its mark for each launch in B")


def batch_changes(a: Sequence[IterationRow], b: Sequence[IterationRow]) -> list[BatchChange]:
    """The batches that both have, by phase, then size."""
    sides = _by_batch(a), _by_batch(b)
    columns = (
        _time,
        lambda r: r.gpu_busy_ms,
        lambda r: r.gap_ms,
        lambda r: r.gpu_ops,
        _launches,
        _launch_us,
    )
    return [
        BatchChange(*batch, *(_median(side[batch], of) for of in columns for side in sides))
        for batch in sorted(sides[0].keys() & sides[1].keys())
    ]


def _by_batch(rows: Sequence[IterationRow]) -> dict[tuple[str, int], list[IterationRow]]:
    found: dict[tuple[str, int], list[IterationRow]] = {}
    for row in rows:
        if row.phase and row.requests and row.gpu_ops:
            found.setdefault((row.phase, row.requests), []).append(row)
    return found


def _time(row: IterationRow) -> float | None:
    return row.gpu_span_ms if row.period_ms is None else row.period_ms


def _launches(row: IterationRow) -> int:
    return (row.launches or 0) + (row.graph_launches or 0)


def _launch_us(row: IterationRow) -> float | None:
    return 1e3 * row.host_ms / _launches(row) if row.host_ms and _launches(row) else None


def _median(rows: list[IterationRow], of: Callable[[IterationRow], float | None]) -> float | None:
    known = [value for row in rows if (value := of(row)) is not None]
    return float(np.median(known)) if known else None
