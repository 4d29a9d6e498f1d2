"""Reports to compare, written by hand: parts of a step as short rows."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import full
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, StepTime
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.report.model import Report

JITTER = (0.99, 1.0, 1.01)
"""Three steps that differ by a percent."""


def part(
    op=None, kernel=None, ms=1.0, *, shapes=None, dtypes=None, calls=1.0, of="compute", cls="gemm"
):
    """A part of a step."""
    return StepPart(of, cls, op, shapes, dtypes, kernel, calls, ms, [ms * j for j in JITTER])


def idle(cause, ms, op=None, call=None):
    """Idle time by its cause."""
    return part(op, call, ms, of="idle", cls=cause)


def report(*parts, **metrics) -> Report:
    """A report whose step consists of these parts."""
    total = sum(p.ms for p in parts)
    base = full()
    known = {
        "step_time_ms": StepTime(
            3, total, total, 0.01 * total, 0.99 * total, 1.01 * total, total, total
        ),
        "budget_ms": Budget(
            *(sum(p.ms for p in parts if p.part == name) for name in vars(base.metrics.budget_ms))
        ),
        "idle_ms": Idle(
            *(
                sum(p.ms for p in parts if p.part == "idle" and p.cls == cause)
                for cause in vars(base.metrics.idle_ms)
            )
        ),
    }
    waits = [
        SyncRow(0, p.kernel or "", p.op, None, p.calls, 0.0, None, p.ms, False)
        for p in parts
        if p.part == "idle" and p.cls == "sync"
    ]
    (recorded,) = base.inputs
    whole = replace(recorded, health=replace(recorded.health, truncated=False))
    return replace(
        base,
        inputs=[whole],
        metrics=replace(base.metrics, **known | metrics),
        step_parts=list(parts),
        tables=base.tables | {"syncs": waits},
        notes=[],
    )
