"""Recordings of the CPU, or of API calls, alone: a page that says where the time goes and what to
record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.analysis.build import TraceBuilder
from tests.kineto_builder import KinetoTrace
from traceanalyzer import analyze
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.outline.breakdown import cpu_phases
from traceanalyzer.report.terminal.screen import render_screen, render_terminal

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report


def test_operators_alone() -> None:
    b = TraceBuilder()
    for i in range(10):
        b.op("aten::linear", 100 * i, 100 * i + 90).op("aten::addmm", 100 * i + 5, 100 * i + 80)
    found = diagnose(measure(b.build()))
    assert "aten::addmm 750 us (10 calls)" in found.summary.headline
    assert "ProfilerActivity.CUDA" in found.summary.headline
    (finding,) = found.findings
    assert finding.id == "cpu-only"
    assert [(e.value, e.where) for e in finding.evidence[1:3]] == [
        (0.75, "10 x aten::addmm, whole recording"),
        (0.15, "10 x aten::linear, whole recording"),
    ]


def test_api_calls_alone() -> None:
    b = TraceBuilder()
    for i in range(10):
        b.call("cuEventSynchronize", 100 * i, 100 * i + 90)
    found = diagnose(measure(b.build()))
    assert "cuEventSynchronize 900 us (10 calls)" in found.summary.headline
    assert "nsys profile -t cuda" in found.summary.headline
    assert "torch" not in found.summary.headline
    assert [f.id for f in found.findings] == ["api-calls-only"]


def on_a_laptop(tmp_path: Path) -> Path:
    """Four steps of 100 us on a CPU: data 20, forward 30, backward 40; the last optimizer ends
    after its step, as the recorder stops inside it."""
    t = KinetoTrace()
    for i in range(4):
        at = 100 * i
        t.step(i, at, 100)
        t.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 20)
        t.op("aten::addmm", at + 20, 30, **{"Sequence number": i + 1, "Fwd thread id": 0})
        engine = "autograd::engine::evaluate_function: AddmmBackward0"
        t.op(engine, at + 50, 40, **{"Sequence number": i + 1, "Fwd thread id": 1})
        t.annotation("Optimizer.step#Adam.step", at + 91, 50 if i == 3 else 5)
    return t.write(tmp_path / "trace.rank0.json")


def test_a_first_trial_on_a_laptop_is_answered(tmp_path: Path) -> None:
    report = analyze(on_a_laptop(tmp_path))
    assert report.summary.bottleneck == "inconclusive"
    assert report.summary.headline.startswith(
        "No GPU work was recorded: backward 40%, forward 30%, data 20%, optimizer 6% of each 100 us step as recorded; "
        "largest operators: autograd::engine::evaluate_function: AddmmBackward0 40.0 us, aten::addmm 30.0 us"
    )
    screen = render_screen(report)
    assert screen.startswith("CPU ONLY   step 100 us as recorded   4 steps\n")
    assert "  data         20.0 us  20.0%  ████████\n" in screen
    assert "A GPU does not shorten the data loading: 20.0 us of each step. On the GPU" in screen
    assert sum(part.ms for part in cpu_phases(report)) == pytest.approx(0.1)


def test_the_stopwatch_of_a_laptop_counts(tmp_path: Path) -> None:
    """80 us by the capture, 100 us in the recording: the step, its throughput and the basis are the
    stopwatch's."""
    on_a_laptop(tmp_path)
    timed = {"steps": 60, "step_time_ms": 0.08, "steady": True}
    (tmp_path / "unprofiled.rank0.json").write_text(json.dumps(timed))
    report = analyze(tmp_path)
    assert render_screen(report).startswith("CPU ONLY   step 80.0 us, 100 us with the profiler")
    assert (report.summary.basis, report.summary.step_ms) == ("unprofiled", 0.08)
    assert report.metrics.unprofiled_source == "measured"
    assert report.metrics.throughput.steps_per_s == pytest.approx(12_500)
    assert "| **recorded step** | **100** | **100%** | |" in render_markdown(report)


def test_step_times_are_not_called_a_recording(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("".join(f"step {i} time {8 if i % 10 else 30} ms\n" for i in range(60)))
    assert render_screen(analyze(log)).startswith("STEP TIMES   step ")


def test_where_a_gpu_was_seen_its_work_is_missing(tmp_path: Path) -> None:
    """The recorder lists an H200: the CPU alone was recorded, or the file was cut."""
    path = on_a_laptop(tmp_path)
    content = json.loads(path.read_text())
    content["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200"}]
    path.write_text(json.dumps(content))
    report = analyze(path)
    assert report.summary.headline.startswith("Inconclusive: the recording holds no GPU work.")
    assert render_screen(report).startswith("INCONCLUSIVE   step ")


def logged(tmp_path: Path, data_ms: float) -> Report:
    """40 steps of 100 ms, part of each waiting for data."""
    log = tmp_path / f"{data_ms}.jsonl"
    step = {"iter_ms": 100.0, "data_ms": data_ms}
    log.write_text("".join(json.dumps({"step": i, **step}) + "\n" for i in range(40)))
    return analyze(log)


def test_a_step_of_which_less_than_half_waits_for_data_is_not_input_bound(tmp_path: Path) -> None:
    little, some, most = (logged(tmp_path, ms) for ms in (5.0, 29.0, 60.0))
    assert little.summary.bottleneck == some.summary.bottleneck == "inconclusive"
    assert "not the data loader (5%)" in little.summary.headline
    assert "29% waiting for data, 71% the step itself" in some.summary.headline
    assert most.summary.bottleneck == "input"
    assert not little.recommendations
    for report in (some, most):
        (advice,) = report.recommendations
        assert "while the step runs" in advice.action
        assert "GPU" not in advice.action
        assert advice.predicted_step_ms == pytest.approx(100 - report.findings[0].headroom_ms)


def test_a_report_without_a_gpu_lists_no_figures_of_one(tmp_path: Path) -> None:
    for report in (logged(tmp_path, 29.0), analyze(on_a_laptop(tmp_path))):
        below = render_terminal(report).partition("Metrics\n")[2]
        assert "n/a" not in below
        for unknown in ("MFU", "GPU busy", "GPU idle", "kernels per step", "Launching"):
            assert f"  {unknown}" not in below
        assert "device\n" not in below


def test_phases_that_share_a_moment_still_make_a_budget(tmp_path: Path) -> None:
    report = analyze(on_a_laptop(tmp_path))
    phases = report.metrics.phases
    assert phases is not None
    assert phases.data is not None
    for more_ms, is_shown in ((0.0045, True), (0.02, False)):
        longer = replace(phases.data, host_ms=phases.data.host_ms + more_ms)
        metrics = replace(report.metrics, phases=replace(phases, data=longer))
        assert bool(cpu_phases(replace(report, metrics=metrics))) == is_shown


def test_a_busy_laptop_may_be_why_two_step_times_differ(tmp_path: Path) -> None:
    on_a_laptop(tmp_path)
    timed = {"steps": 60, "step_time_ms": 0.2, "steady": True}
    (tmp_path / "unprofiled.rank0.json").write_text(json.dumps(timed))
    notes = [note for note in analyze(tmp_path).notes if "the timed ones" in note]
    assert all("or other programs held the CPU meanwhile" in note for note in notes)
    assert len(notes) == 1


def test_a_file_that_is_cut_off_before_any_gpu_event_says_so_first(tmp_path: Path) -> None:
    path = on_a_laptop(tmp_path)
    text = path.read_text()
    path.write_text(text[: text.rindex("]")].rstrip())
    report = analyze(path)
    assert report.inputs[0].health.truncated
    said = "Inconclusive: the file is cut off, and no GPU event is in what is left"
    assert report.summary.headline.startswith(said)
    assert "the file is cut off before its GPU events." in render_screen(report)
