"""Programs on managed memory: what faults cost, and what the CPU's own loop over the data costs."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import CopyKind, DeviceOpKind, Process


def touched(pause_us: float, pages: int, copy_us: float = 10) -> Measurements:
    """A kernel, then a CPU that touches its result page by page."""
    b = (
        TraceBuilder()
        .call("cudaLaunchKernel", 0, 5, 1)
        .kernel("add(int, float*, float*)", 10, 1010, 1)
    )
    b.call("cudaDeviceSynchronize", 6, 1012)
    at = 1012.0
    for _ in range(pages):
        columns = {
            "kind": DeviceOpKind.MEMCPY,
            "copy_kind": CopyKind.UNIFIED_DEVICE_TO_HOST,
            "bytes": 65536,
        }
        b.kernel("Unified DtoH", at + pause_us, at + pause_us + copy_us, **columns)
        at += pause_us + copy_us
    return measure(b.build(process=Process(name="add_cuda")))


@pytest.mark.parametrize(("pause", "fault", "loop"), [(1000, 50, 950), (30, 30, 0), (120, 50, 70)])
def test_a_migration_costs_its_fault_and_no_more(pause: float, fault: float, loop: float) -> None:
    m = touched(pause, 200)
    idle = {
        f.id: (f.evidence[0].value or 0.0) * m.step.step_ms
        for f in diagnose(m).findings
        if f.cls == "host"
    }
    assert idle.get("page-migration", 0.0) == pytest.approx(0.2 * fault, rel=0.02)
    assert idle.get("managed-memory-loop", 0.0) == pytest.approx(0.2 * loop, rel=0.02)


def test_the_loop_is_the_cpus_and_belongs_on_the_gpu() -> None:
    report = diagnose(touched(1000, 200))
    assert report.summary.bottleneck == "host"
    assert "CPU work on managed memory" in report.summary.headline
    advice = " ".join(r.action for r in report.recommendations)
    assert "Do on the GPU what the CPU does" in advice
    assert next(f.id for f in report.findings) == "managed-memory-loop"


def test_gaps_are_named_by_what_they_mostly_are() -> None:
    for pause, detail in ((1000, IdleDetail.MANAGED_LOOP), (40, IdleDetail.PAGE_MIGRATION)):
        gaps = touched(pause, 5).causes.gaps
        assert set(gaps.detail[gaps.next_op > 0].tolist()) == {detail}


def test_idle_time_that_is_gone_makes_no_step_longer() -> None:
    m = touched(1000, 200)
    migrations = next(one for one in diagnose(m).recommendations if one.remedy == "keep_on_device")
    assert migrations.predicted_step_ms == pytest.approx(193, abs=0.01)  # of 203: 200 faults
    assert migrations.high_ms == m.step.step_ms
    assert migrations.may_not_help
