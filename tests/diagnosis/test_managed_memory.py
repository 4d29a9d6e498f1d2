"""Programs on managed memory: what faults cost, and what the CPU's own loop over the data costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.base import EmptyRecordingError
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.remedies.advice import predictions_of
from traceanalyzer.trace import CopyKind, DeviceOpKind, Process


def touched(
    pause_us: float,
    pages: int,
    copy_us: float = 10,
    kernel_us: float = 1000,
    *,
    frees: bool = False,
) -> Measurements:
    """A kernel, then a CPU that touches its result page by page."""
    end = 10 + kernel_us
    b = (
        TraceBuilder()
        .call("cudaLaunchKernel", 0, 5, 1)
        .kernel("add(int, float*, float*)", 10, end, 1)
    )
    b.call("cudaDeviceSynchronize", 20, end + 2)
    at = end + 2
    for _ in range(pages):
        columns = {
            "kind": DeviceOpKind.MEMCPY,
            "copy_kind": CopyKind.UNIFIED_DEVICE_TO_HOST,
            "bytes": 65536,
        }
        b.kernel("Unified DtoH", at + pause_us, at + pause_us + copy_us, **columns)
        at += pause_us + copy_us
    b.call("cudaFree", at + 5, at + 105)
    return measure(replace(b.build(process=Process(name="add_cuda")), source="nsys"))


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


def test_idle_time_that_no_replay_has_keeps_the_cause_that_was_recorded() -> None:
    """One launch of 5 us: it is not what the GPU waits for."""
    m = touched(1000, 60, kernel_us=1_000_000)
    assert m.step.idle is not None
    assert m.idle is not None
    assert m.faithful_replay is not None
    assert m.step.idle.host == pytest.approx(m.idle.host, rel=0.01)
    assert m.step.idle.launch < 0.01
    findings = {one.id for one in diagnose(m).findings}
    assert "managed-memory-loop" in findings
    assert "launch-bound" not in findings
    places = {row.name: row.unprofiled_idle_ms for row in m.gap_places}
    assert places["(CPU work on managed memory between migrations)"] == pytest.approx(60, rel=0.02)
    unpredicted = {one.id: one.basis for one in predictions_of(m).scenarios if one.step_ms is None}
    assert "cannot be replayed" in unpredicted["no_host_work"]


def test_migrations_are_why_there_is_no_replay() -> None:
    m = touched(1000, 200)
    assert m.replay is None
    assert "page migrations" in m.why_not_replayed
    with pytest.raises(EmptyRecordingError, match="page migrations, which no call launches"):
        predictions_of(m)
