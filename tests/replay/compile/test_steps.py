"""The first step and the warm-up, and compile work on the clock of the trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.kineto_builder import KinetoTrace
from tests.replay.compile.log_builder import LogBuilder
from traceanalyzer.analysis.groups.first_steps import begin_of_first
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.replay.compile.steps import StopwatchTimes
from traceanalyzer.report.compile.build import UNTIMED, compile_report
from traceanalyzer.report.timeline.lanes import Category, compile_spans
from traceanalyzer.report.timeline.step_timeline import step_timeline

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.replay.compile.model import StepsUse

EPOCH_US = 2_000_000_000_000_000
FIRST_US = 10_000
STEP_US = 1000
STEPS = 6


def program(
    folder: Path, name: str = "cudaMalloc", blocked_us: float = 3000, *, still_busy: bool = False
) -> Path:
    """A first step of 10 ms, 3 ms of it cudaMalloc, and six of 1 ms, each with 400 us of GPU work
    at its end. Work on another stream, from before the recording's first step, may last into that
    step's own."""
    trace = KinetoTrace()
    if still_busy:
        trace.name_process("python")
        launched(trace, -20, stream=9, duration_us=FIRST_US - 200)
    at = 0
    for step in range(STEPS + 1):
        length = STEP_US if step else FIRST_US
        trace.step(step, at, length - 1)
        if not step:
            call(trace, name, at + 100, blocked_us)
        launched(trace, at + length - 420)
        at += length
    trace.metadata["baseTimeNanoseconds"] = EPOCH_US * 1000
    file = folder / "trace.json"
    file.write_text(json.dumps({**trace.metadata, "traceEvents": trace.rows}))
    return file


def call(trace: KinetoTrace, name: str, at: float, length: float) -> None:
    trace.correlation += 1
    event = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 100,
        "tid": 100,
        "ts": at,
        "dur": length,
    }
    trace.add({**event, "args": {"correlation": trace.correlation}})


def launched(trace: KinetoTrace, at: float, *, stream: int = 7, duration_us: float = 400) -> None:
    call(trace, "cudaLaunchKernel", at, 5)
    args = {"correlation": trace.correlation, "device": 0, "stream": stream, "context": 1}
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 0,
        "tid": stream,
        "ts": at + 10,
        "dur": duration_us,
    }
    trace.add({**kernel, "args": args})


def log_of(folder: Path, begin_us: float, end_us: float) -> Path:
    log = LogBuilder()
    log.start()
    log.span("entire_frame_compile", EPOCH_US + begin_us, EPOCH_US + end_us)
    log.metrics((end_us - begin_us) / 1e6)
    file = folder / "some.log"
    file.write_bytes(log.bytes())
    return file


def steps(folder: Path, stopwatch: StopwatchTimes = UNTIMED) -> StepsUse:
    logs = read_logs(log_of(folder, 4000, 9000))
    return compile_report(logs, load([program(folder)]), stopwatch).compiled.steps


def test_the_first_step_is_taken_apart_to_the_nanosecond(tmp_path: Path) -> None:
    found = steps(tmp_path)
    parts = {part.what: part.ms for part in found.first_step}
    assert parts["GPU work"] == pytest.approx(0.4)
    assert parts["GPU idle: cudaMalloc"] == pytest.approx(3.0)
    assert parts["GPU idle: compiling"] == pytest.approx(5.0)
    assert sum(parts.values()) == pytest.approx(found.first_step_ms)
    assert sum(part.steady_ms for part in found.first_step) == pytest.approx(found.recorded_step_ms)
    assert found.warmup_steps == 1
    assert found.warmup_excess_ms == pytest.approx(
        (found.first_step_ms or 0) - (found.recorded_step_ms or 0)
    )


@pytest.mark.parametrize("still_busy", [False, True])
def test_the_first_step_begins_with_the_host_or_when_the_gpu_becomes_free(
    tmp_path: Path, still_busy: bool
) -> None:
    m = measure(load([program(tmp_path, still_busy=still_busy)]).traces[0])
    begin = begin_of_first(m.timed)
    assert begin == (
        int(m.timed.steps.start[0]) if still_busy else int(m.timed.steps.host_start[0])
    )
    assert begin < m.timed.steps.end[0]


def test_an_eager_program_has_its_first_step_taken_apart_too(tmp_path: Path) -> None:
    found = compile_report([], load([program(tmp_path, "cuModuleLoadData", 8000)])).compiled.steps
    assert {part.what for part in found.first_step} >= {"GPU work", "GPU idle: cuModuleLoadData"}
    assert (found.pays_after_steps, found.eager_step_ms) == (None, None)


def test_a_first_step_that_nothing_explains_may_be_the_recorders(tmp_path: Path) -> None:
    found = compile_report([], load([program(tmp_path, blocked_us=10)])).compiled.steps
    assert (found.first_step_ms, found.first_step) == (None, [])


def test_compilation_pays_after_the_steps_that_save_its_time(tmp_path: Path) -> None:
    assert steps(tmp_path, StopwatchTimes(1.0, 3.0)).pays_after_steps == 3  # 5 ms of compilation
    slower = steps(tmp_path, StopwatchTimes(1.0, 1.0))
    assert slower.pays_after_steps is None
    assert "never pays" in slower.basis


def test_an_estimated_step_does_not_say_when_compilation_pays(tmp_path: Path) -> None:
    found = steps(tmp_path, StopwatchTimes(None, 30.0))
    assert found.step_ms is not None
    assert found.pays_after_steps is None
    assert "--step-ms" in found.basis


def test_the_command_takes_the_eager_step(tmp_path: Path) -> None:
    arguments = [
        str(log_of(tmp_path, 4000, 9000)),
        str(program(tmp_path)),
        "--step-ms",
        "1",
        "--eager-step-ms",
        "1000",
    ]
    result = CliRunner().invoke(cli, ["compile", *arguments])
    assert result.exit_code == 0, result.output
    assert "Compilation is paid back after 1 step." in result.output


def test_compile_work_in_the_step_is_on_its_timeline(tmp_path: Path) -> None:
    trace = load([program(tmp_path)]).traces[0]
    spans = compile_spans(read_logs(log_of(tmp_path, 0, FIRST_US + 20 * STEP_US)), trace)
    timeline = step_timeline(measure(trace), spans)
    assert timeline is not None
    events = timeline.events
    (row,) = (events.category == Category.COMPILE).nonzero()[0].tolist()
    assert timeline.names[events.name[row]] == "entire_frame_compile"
    assert timeline.origin_ns + events.start[row] == spans.start[0] == 0
    assert timeline.lanes[events.lane[row]].title == "torch.compile"


def test_a_step_without_compile_work_has_no_lane_of_it(tmp_path: Path) -> None:
    trace = load([program(tmp_path)]).traces[0]
    timeline = step_timeline(
        measure(trace), compile_spans(read_logs(log_of(tmp_path, -90, -50)), trace)
    )
    assert timeline is not None
    assert "torch.compile" not in [lane.title for lane in timeline.lanes]


def test_the_page_draws_stages_and_steps_on_one_clock(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = [str(log_of(tmp_path, -40_000, 9000)), str(program(tmp_path)), "-o", str(page)]
    result = CliRunner().invoke(cli, ["compile", *arguments])
    assert result.exit_code == 0, result.output
    drawn = page.read_text()
    assert "Compile work by stage over 0.056 s" in drawn  # 40 ms before the trace and its 16 ms
    assert "steps that the trace recorded" in drawn
