"""No figure of a report is impossible: shares up to 1, predictions within their ranges, ranges
within what can be."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from tests.analysis.test_any_trace import any_rows, built
from tests.analyzed import reported
from tests.examples import tried
from tests.recorded import EVERY, ROOT
from traceanalyzer.replay.changes.loops.repetition import GREATER_BATCH
from traceanalyzer.replay.whatif import MOST_SPEEDUP
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import DeviceOpKind, RangeKind, Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traceanalyzer.report.model import Report

RECORDED = [
    *sorted(p for p in (ROOT / "sample_traces").iterdir() if p.is_dir() and p.name[0] != "_"),
    *EVERY,
]
NEAR = 1e-6
MAY_EXCEED = re.compile(
    r"drift|cost|_mfu$|occupancy|waves|change|growth|imbalance|spread|efficiency|bandwidth_share|tail_share"
)
"""Shares that are changes, or compared with limits that another clock may pass."""


def shares(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All shares in a value, each under where it stands."""
    if is_dataclass(value):
        for f in fields(value):
            one = getattr(value, f.name)
            if f.metadata.get("unit") == "share" and isinstance(one, int | float):
                yield f"{path}.{f.name}", float(one)
            yield from shares(one, f"{path}.{f.name}")
    elif isinstance(value, list | tuple):
        for one in value:
            yield from shares(one, path)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from shares(one, f"{path}.{key}")


def impossible(report: Report) -> Iterator[str]:
    """What of a report cannot be."""
    for path, share in shares(report):
        if not -NEAR <= share <= 1 + NEAR and not MAY_EXCEED.search(path):
            yield f"{path} = {share}"
    step = report.summary.step_ms
    headroom = sum(f.headroom_ms or 0.0 for f in report.findings)
    if step is not None and headroom > step * (1 + NEAR):
        yield f"headroom of {headroom} of {step}"
    room = {finding.id: finding.headroom_ms for finding in report.findings}
    for advice in report.recommendations:
        most = next(
            (ms for name, ms in room.items() if f"{advice.id}-".startswith(f"{name}-")), None
        )
        if (
            None not in (most, step, advice.predicted_step_ms)
            and step - advice.predicted_step_ms > most + NEAR * step
        ):
            yield f"{advice.remedy} gains {step - advice.predicted_step_ms} of a headroom of {most}"
        more = advice.as_much_work
        known = report.metrics.unprofiled
        least = (
            0.0
            if more is None or known is None or advice.remedy != "larger_batch"
            else known.low_ms / GREATER_BATCH
        )
        likely = (
            more.likely_ms
            if more is not None
            else (advice.predicted_step_ms, advice.low_ms, advice.high_ms)
        )
        speedup = more.speedup if more is not None else advice.predicted_speedup
        after, low, high = likely
        if after is None:
            continue
        if low is None or high is None or not least * (1 - 1e-4) <= low <= after <= high:
            yield f"{advice.remedy}: {likely}, at least {least}"
        if step is not None and after > step * (1 + NEAR):
            yield f"{advice.remedy}: {after} of {step}"
        if speedup is not None and speedup > MOST_SPEEDUP:
            yield f"{advice.remedy}: {speedup}x"


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name)
def test_of_recordings(path: Path) -> None:
    assert list(impossible(reported(path))) == []


BEFORE_ITS_STEP = (
    [
        ("gemm", 0, 92, 0, DeviceOpKind.MEMCPY, 0),
        ("ncclDevKernel_AllReduce_Sum", 7, 98, 1, DeviceOpKind.GRAPH, 0),
    ],
    [("cudaLaunchKernel", 0, 0, 1, 0)],
    [
        ("aten::mm", 0, 1, 0, RangeKind.ANNOTATION),
        ("ProfilerStep#1", 0, 2, 0, RangeKind.ANNOTATION),
    ],
    [],
)
"""A step that begins late, as the device was busy with something else, and a phase whose work began
before it."""


@tried(1)
@given(any_rows)
@example(BEFORE_ITS_STEP)
def test_of_any_trace(rows: Any) -> None:
    assert list(impossible(build_report(Run((built(rows),))))) == []
