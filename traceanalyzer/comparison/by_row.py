"""Operators, modules and kernels of two reports: how often they run apart from how long a call takes."""

from typing import Any

from traceanalyzer.base import dataclass, metric
from traceanalyzer.report.format import figure
from traceanalyzer.report.model import TOP_ROWS, Report

TIMES = {"ops": "device_self_ms", "modules": "device_ms", "kernels": "total_ms"}
"""Tables, and the column of device time that is compared."""
SHOWN = 15
LEAST_SHARE = 0.001
"""Differences below this share of the step are not worth a row."""


@dataclass(frozen=True)
class RowChange:
    """Device time of one operator, module or kernel in a step of both."""

    name: str = metric("operator, module or kernel")
    calls: str = metric("calls a step in A and B, and the device time of each")
    a_ms: float = metric("device time of A's mean step", "ms")
    b_ms: float = metric("device time of B's mean step", "ms")
    difference_ms: float = metric("B less A", "ms")
    by_time_ms: float = metric("of that, what longer or shorter calls account for; the rest are more or fewer", "ms")


def rows_between(a: Report, b: Report, step_ms: float) -> dict[str, list[RowChange]]:
    """What changed in each table, the largest difference first."""
    found = {name: _changes(name, a, b, LEAST_SHARE * step_ms) for name in TIMES}
    return {name: rows for name, rows in found.items() if rows}


def _changes(table: str, a: Report, b: Report, least_ms: float) -> list[RowChange]:
    of_a, of_b = _sums(table, a), _sums(table, b)
    rows = []
    for name in dict.fromkeys((*of_a, *of_b)):
        if any(name not in side and len(r.tables.get(table, [])) >= TOP_ROWS for side, r in ((of_a, a), (of_b, b))):
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
    rows: list[Any] = report.tables.get(table, [])
    for row in rows:
        calls, ms = found.get(row.name, (0.0, 0.0))
        found[row.name] = calls + row.calls, ms + getattr(row, TIMES[table])
    return found


def _calls(calls: float, ms: float) -> str:
    """How many, and how long each."""
    return f"{calls:,.4g} x {figure(ms / calls, 'ms')}" if calls else "none"
