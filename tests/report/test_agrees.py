"""A report agrees with itself, whatever was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from tests.analysis.test_any_trace import any_rows, built
from tests.analyzed import reported
from tests.diagnosis.test_figures_stay import _recordings
from tests.examples import tried
from tests.recorded import ROOT
from tests.report.invariants import INVARIANTS, contradictions
from traceanalyzer.report.build import build_report
from traceanalyzer.report.outline.gains import explained
from traceanalyzer.report.terminal.screen import render_screen
from traceanalyzer.trace import DeviceOpKind, OverheadKind, RangeKind, Run

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "sample_traces" / "sync_bound"


@pytest.mark.parametrize(("name", "paths"), _recordings().items(), ids=_recordings())
def test_of_a_recording(name: str, paths: list[Path]) -> None:
    assert contradictions(reported(*paths)) == [], name


OP_WITHOUT_LENGTH_IN_A_GAP = (
    [("gemm", 45, 0, -1, DeviceOpKind.KERNEL, 1), ("gemm", 164, 0, 1, DeviceOpKind.KERNEL, 1)],
    [("cudaLaunchKernel", 0, 0, -1, 0)] * 2 + [("cudaLaunchKernel", 128, 0, 1, 0)],
    [("aten::mm", 0, 0, 0, RangeKind.OP)] * 10
    + [("ProfilerStep#1", 75, 92, 0, RangeKind.ANNOTATION)],
    [(OverheadKind.DRIVER, 45, 108)],
)
COMMUNICATION_BESIDE_UNLAUNCHED_WORK = (
    [("gemm", 0, 0, -1, DeviceOpKind.KERNEL, 0)] * 6
    + [
        ("gemm", 109, 61, -1, DeviceOpKind.KERNEL, 1),
        ("ncclDevKernel_AllReduce_Sum", 108, 195, 1, DeviceOpKind.KERNEL, 1),
    ],
    [("cudaLaunchKernel", 0, 0, -1, 0)] * 7
    + [
        ("cudaLaunchKernel", 88, 0, 1, 0),
        ("cudaLaunchKernel", 0, 0, -1, 0),
        ("cudaDeviceSynchronize", 34, 0, -1, 0),
    ],
    [],
    [],
)

GAP_BEFORE_THE_STEP = (
    [("gemm", 0, 0, -1, DeviceOpKind.KERNEL, 0), ("gemm", 1, 80, 1, DeviceOpKind.KERNEL, 0)],
    [("cudaLaunchKernel", 0, 0, 2, 0)] * 2
    + [("cudaLaunchKernel", 0, 0, -1, 0)] * 2
    + [("cudaLaunchKernel", 75, 0, 1, 1)],
    [
        ("aten::mm", 1, 0, 0, RangeKind.ANNOTATION),
        ("aten::mm", 10, 0, 1, RangeKind.PYTHON),
        ("aten::item", 1, 0, 0, RangeKind.OP),
        ("aten::mm", 0, 0, 0, RangeKind.OP),
        ("ProfilerStep#1", 71, 20, 1, RangeKind.ANNOTATION),
    ],
    [],
)

QUEUED_BEHIND_A_WAIT = (
    [
        *[("gemm", start, 0, -1, DeviceOpKind.KERNEL, 0) for start in (11, 43, 194)],
        ("gemm", 103, 158, 5, DeviceOpKind.KERNEL, 0),
        ("gemm", 145, 0, -1, DeviceOpKind.KERNEL, 0),
        ("gemm", 164, 0, 2, DeviceOpKind.KERNEL, 0),
        ("gemm", 78, 0, -1, DeviceOpKind.KERNEL, 1),
        ("gemm", 155, 15, 2, DeviceOpKind.KERNEL, 0),
        ("gemm", 155, 0, 2, DeviceOpKind.KERNEL, 0),
        *[("gemm", start, 0, -1, DeviceOpKind.KERNEL, 0) for start in (181, 92, 151)],
    ],
    [
        ("cudaStreamSynchronize", 33, 0, -1, 0),
        ("cudaLaunchKernel", 0, 0, -1, 0),
        ("cudaLaunchKernel", 52, 0, 5, 0),
        ("cudaLaunchKernel", 106, 0, 2, 0),
        *[("cudaLaunchKernel", 0, 0, -1, 0)] * 4,
    ],
    [],
    [(OverheadKind.PROFILER, 0, 0)] * 2 + [(OverheadKind.PROFILER, 0, 184)],
)


@tried(3)
@given(any_rows)
@example(QUEUED_BEHIND_A_WAIT)
@example(GAP_BEFORE_THE_STEP)
@example(OP_WITHOUT_LENGTH_IN_A_GAP)
@example(COMMUNICATION_BESIDE_UNLAUNCHED_WORK)
def test_of_anything(rows: Any) -> None:
    assert contradictions(build_report(Run(traces=[built(rows)]))) == []


def test_each_invariant_sees_what_breaks_it() -> None:
    report = reported(SAMPLE)
    first = report.recommendations[0]
    known = report.metrics.unprofiled
    assert known is not None
    assert report.summary.step_ms is not None
    step_ms = report.summary.step_ms
    broken = {
        "parts_sum_to_the_step": replace(
            report, metrics=replace(report.metrics, unprofiled=replace(known, step_time_ms=99.0))
        ),
        "headrooms_are_within_the_step": replace(
            report, findings=[replace(report.findings[0], headroom_ms=2 * step_ms)]
        ),
        "no_advice_gains_more_than_its_headroom": replace(
            report,
            findings=[replace(one, headroom_ms=0.0) for one in report.findings],
        ),
        "each_point_is_inside_its_range": replace(
            report, recommendations=[replace(first, low_ms=step_ms, high_ms=step_ms)]
        ),
        "a_shown_range_excludes_no_gain": replace(
            report, recommendations=[replace(first, high_ms=2 * step_ms)]
        ),
        "the_verdict_is_the_largest_part": replace(
            report,
            recommendations=[],
            summary=replace(report.summary, bottleneck="transfer", headline="Transfer-bound."),
        ),
        "the_first_advice_answers_the_verdict": replace(
            report,
            summary=replace(report.summary, bottleneck="input", beside=None, confidence=0.9),
        ),
        "idle_time_has_the_cause_of_the_gaps": replace(
            report,
            metrics=replace(
                report.metrics,
                unprofiled=replace(
                    known, idle_ms=replace(known.idle_ms, sync=0.0, input=known.idle_ms.sync)
                ),
            ),
        ),
        "no_idle_time_is_invented": replace(
            report,
            metrics=replace(
                report.metrics,
                unprofiled=replace(
                    known,
                    step_time_ms=99.0,
                    budget_ms=replace(known.budget_ms, idle=98.0),
                ),
            ),
        ),
        "tables_sum_to_the_step": replace(
            report,
            tables=report.tables
            | {
                "gap_places": [
                    replace(row, unprofiled_idle_ms=2 * (row.unprofiled_idle_ms or 0.0))
                    for row in report.tables["gap_places"]
                ]
            },
        ),
        "the_headline_has_the_figures_of_the_budget": replace(
            report,
            summary=replace(report.summary, headline="the GPU computes for 1.3 ms (99%)"),
        ),
        "nothing_is_predicted_where_nothing_can_be": replace(
            report, notes=["The replay is too far off: nothing is predicted from it."]
        ),
    }
    by_the_screen = {"what_is_shown_gains", "next_explains_the_verdict"}
    assert set(broken) | by_the_screen == {check.__name__ for check in INVARIANTS}
    for name, one in broken.items():
        assert name in {found.partition(":")[0] for found in contradictions(one)}, name


def test_next_explains_what_the_verdict_names_and_not_the_largest_finding() -> None:
    report = reported(SAMPLE)
    sync = report.findings[0]
    other = replace(sync, id="input-wait", cls="input")
    assert report.summary.bottleneck == sync.cls == "sync"
    both = replace(report, findings=[other, sync])
    assert explained(both) == sync
    assert "explain host-waits" in render_screen(both)
    alone = replace(report, findings=[other])
    assert explained(alone) is None
    assert "explain" not in render_screen(alone)
