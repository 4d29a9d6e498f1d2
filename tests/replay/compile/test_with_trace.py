"""The log of torch.compile joined with a trace of the same program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.kineto_builder import KinetoTrace
from tests.replay.compile.log_builder import LogBuilder
from traceanalyzer.agent.sources import Sources
from traceanalyzer.analysis.algebra.intervals import union
from traceanalyzer.cli import cli
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.run import injected_environment
from traceanalyzer.diagnosis.compile.judged import breaks
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.replay.compile.regions import CompiledCode
from traceanalyzer.replay.compile.windows import graph_break_windows, idle_in
from traceanalyzer.report.compile.build import compile_report
from traceanalyzer.report.compile.strip import CompileReport

DATA = Path(__file__).parents[2] / "data" / "compile"
STEPS = 6
STEP_US = 1000


def broken_trace() -> KinetoTrace:
    """Steps of 1000 us: graph A launches 100 us of work at 100 us and returns at 150; the break
    lasts until 450, when graph B launches 100 us of work; the GPU idles in between, and each launch
    takes 10 us to reach it."""
    trace = KinetoTrace()
    for step in range(STEPS):
        t = step * STEP_US
        trace.step(step, t, STEP_US - 1)
        trace.op("Torch-Compiled Region: 0/0", t + 50, 800)
        trace.op("Torch-Compiled Region: 1/0", t + 400, 400)
        for key, launched, name in (
            ("fa", 100, "triton_poi_fused_relu_0"),
            ("fb", 450, "triton_poi_fused_add_0"),
        ):
            trace.annotation(f"## Call CompiledFxGraph {key} ##", t + launched, 50)
            launch_and_run(trace, name, t + launched + 1)
    return trace


def launch_and_run(trace: KinetoTrace, name: str, at: float, length: float = 100) -> None:
    trace.correlation += 1
    ids = {"correlation": trace.correlation}
    for cat, what, ts, dur, pid, tid, more in (
        ("cuda_runtime", "cudaLaunchKernel", at, 5, 100, 100, {}),
        ("kernel", name, at + 10, length, 0, 7, {"device": 0, "stream": 7, "context": 1}),
    ):
        args = {**ids, **more}
        trace.add(
            {
                "ph": "X",
                "cat": cat,
                "name": what,
                "pid": pid,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "args": args,
            }
        )


def written(folder: Path, trace: KinetoTrace) -> Path:
    file = folder / "trace.json"
    file.write_text(json.dumps({**trace.metadata, "traceEvents": trace.rows}))
    return file


def broken_log(folder: Path) -> Path:
    log = LogBuilder()
    log.start()
    log.artifact(
        "dynamo_graph_break_reason",
        "Graph break in user code at /p/train.py:12\nReason: builtin `print` called",
    )
    log.record("dynamo_output_graph", {}, "g")
    log.artifact("fx_graph_cache_miss", json.dumps({"key": "fa"}))
    log.metrics(1.0)
    log.frame = 1
    log.start(line=12, name="torch_dynamo_resume_in_forward_at_12")
    log.record("dynamo_output_graph", {}, "g")
    log.artifact("fx_graph_cache_miss", json.dumps({"key": "fb"}))
    log.metrics(1.0, co_name="torch_dynamo_resume_in_forward_at_12", co_firstlineno=12)
    file = folder / "some.log"
    file.write_bytes(log.bytes())
    return file


def reported(log: Path | None, trace: Path) -> CompileReport:
    return compile_report(read_logs(log) if log else [], load([trace]))


def test_a_seam_is_the_host_time_between_the_graphs_and_is_charged_the_idle_time_in_it(
    tmp_path: Path,
) -> None:
    ctx = measure(load([written(tmp_path, broken_trace())]).traces[0])
    (seam,) = graph_break_windows(CompiledCode(ctx.joined))
    assert (seam.before, seam.after, seam.forward) == ("0/0", "1/0", STEPS)
    assert ((seam.end - seam.start) == 300_000).all()
    # The GPU is done at 211 us and starts again at 461: idle for 250, of which the host left graph
    # A from 150 on. Moved by the launch's 10 us, the gap is 201 to 451: the break holds 201 to 450
    # of it.
    assert idle_in(ctx.timed, union(seam.start, seam.end)) == pytest.approx(0.249, abs=2e-3)


def test_a_break_has_its_idle_time_and_the_step_without_it(tmp_path: Path) -> None:
    report = reported(broken_log(tmp_path), written(tmp_path, broken_trace()))
    compiled = report.compiled
    (row,) = compiled.graph_breaks
    assert (row.location, row.per_step, row.reason) == (
        "/p/train.py:12",
        1.0,
        "print() in compiled code",
    )
    assert row.idle_ms == pytest.approx(0.249, abs=2e-3)
    assert row.predicted_step_ms is not None
    assert row.low_ms is not None
    assert row.high_ms is not None
    assert row.low_ms < row.predicted_step_ms <= row.high_ms
    assert report.diagnosis.findings[0].id == "graph-break"
    assert compiled.trace is not None
    assert compiled.trace.compiled_share == 1.0
    assert (compiled.trace.triton_ms, compiled.trace.mapped_share) == (
        pytest.approx(0.2),
        None,
    )  # no code in the log
    assert compiled.trace.regions_per_step == {"0/0": 1.0, "1/0": 1.0}


def test_a_trace_alone_tells_breaks_and_how_often_a_function_was_compiled(tmp_path: Path) -> None:
    trace = broken_trace()
    for row in trace.rows:
        row["name"] = row["name"].replace("Region: 0/0", "Region: 0/7")
    report = reported(None, written(tmp_path, trace))
    compiled = report.compiled
    assert compiled.source == "trace"
    assert (compiled.graphs, compiled.compile_s) == (None, None)
    assert len(compiled.graph_breaks) == 1
    assert compiled.trace is not None
    assert any("compiled at least 8 times" in note for note in compiled.trace.notes)


def test_shares_are_of_the_gpus_busy_time(tmp_path: Path) -> None:
    trace = broken_trace()
    for step in range(STEPS):
        launch_and_run(trace, "ampere_sgemm_128x64_tn", step * STEP_US + 900, length=50)
    compiled = reported(broken_log(tmp_path), written(tmp_path, trace)).compiled
    assert compiled.trace is not None
    assert compiled.trace.compiled_share == pytest.approx(200 / 250)
    assert compiled.trace.triton_share == pytest.approx(200 / 250)
    assert compiled.trace.triton_ms == pytest.approx(0.2)
    measured = {
        row.name: (row.measured_ms, row.share) for row in compiled.kernels if row.measured_ms
    }
    assert measured["triton_poi_fused_relu_0"] == (pytest.approx(0.1), pytest.approx(0.4))


def test_a_break_of_unknown_cost_is_only_told(tmp_path: Path) -> None:
    compiled = compile_report(read_logs(broken_log(tmp_path)), None).compiled
    ((finding, advice),) = breaks(compiled, 10.0)
    assert (finding.severity, finding.headroom_ms) == ("info", None)
    assert [one.predicted_step_ms for one in advice] == [None]


def test_kernels_of_a_recording_are_mapped_to_source_lines() -> None:
    report = reported(DATA / "clean.log.gz", DATA / "clean.trace.json.gz")
    compiled = report.compiled
    assert compiled.trace is not None
    assert compiled.trace.mapped_share == 1.0
    assert compiled.trace.triton_ms == pytest.approx(0.088056, abs=1e-6)
    first = compiled.kernels[0]
    assert first.lines[0].startswith("/home/user/project/compile_cases.py:14: x = F.gelu(")
    assert first.per_step == 6.0


def test_a_function_that_runs_eager_as_a_whole_is_said_so() -> None:
    report = reported(DATA / "break_once.log.gz", DATA / "break_once.trace.json.gz")
    compiled = report.compiled
    (row,) = compiled.graph_breaks
    assert row.whole_function_eager
    assert row.low_ms is not None
    assert row.high_ms is not None
    assert (
        row.low_ms <= 2.507 <= row.high_ms
    )  # the same program without the break, by the stopwatch
    assert "all of forward runs eager" in report.diagnosis.findings[0].title


@pytest.mark.parametrize("format_", ["terminal", "markdown", "json", "html"])
def test_every_output_names_the_break(format_: str, tmp_path: Path) -> None:
    log = broken_log(tmp_path)
    trace = written(tmp_path, broken_trace())
    result = CliRunner().invoke(cli, ["compile", str(log), str(trace), "--format", format_])
    assert result.exit_code == 0, result.output
    assert "train.py:12" in result.output.replace("\u200b", "").replace("\\", "")


def test_json_has_what_the_contract_says(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["compile", str(broken_log(tmp_path)), "--format", "json"])
    compiled = json.loads(result.output)["compile"]
    (row,) = compiled["graph_breaks"]
    assert {"reason", "location", "count", "idle_ms"} <= set(row)
    assert row["idle_ms"] is None
    assert compiled["recompiles"] == 0
    assert compiled["recompile_limit_hit"] is False
    assert sum(compiled["stages_s"].values()) == pytest.approx(compiled["compile_s"], abs=1e-3)
    assert set(compiled["cache"]) >= {"hits", "misses", "bypasses"}
    assert set(compiled["cudagraphs"]) >= {"used", "skipped"}


def test_a_capture_with_the_log_has_a_compile_part(tmp_path: Path) -> None:
    (tmp_path / "compile").mkdir()
    broken_log(tmp_path).rename(tmp_path / "compile" / "some.log")
    trace = written(tmp_path, broken_trace())
    for format_ in ("terminal", "markdown", "html"):
        result = CliRunner().invoke(cli, ["analyze", str(trace), "--full", "--format", format_])
        assert result.exit_code == 0, result.output
        assert "Compile time" in result.output
    picture = CliRunner().invoke(cli, ["analyze", str(trace), "--format", "svg"])
    assert (picture.exit_code, picture.output[:5]) == (0, "<svg ")
    result = CliRunner().invoke(cli, ["analyze", str(trace), "--format", "json"])
    report = json.loads(result.output)
    assert report["compile"]["compile_s"] == 2.0
    assert [one["id"] for one in report["compile"]["findings"]] == ["graph-break"]
    (own,) = [one for one in report["findings"] if one["id"] == "graph-break"]
    assert own["headroom_ms"] is None, "it is part of what the others have"
    assert report["recommendations"][0]["remedy"] == "remove_graph_breaks"


def test_a_capture_is_asked_as_a_whole_with_the_log_that_was_recorded_into_it(
    tmp_path: Path,
) -> None:
    trace = written(tmp_path, broken_trace())
    without = CliRunner().invoke(cli, ["compile", str(tmp_path), "--format", "json"])
    assert without.exit_code == 0, without.output
    assert json.loads(without.output)["compile"]["source"] == "trace"
    (tmp_path / "compile").mkdir()
    broken_log(tmp_path).rename(tmp_path / "compile" / "some.log")
    for given in (tmp_path, trace):
        result = CliRunner().invoke(cli, ["compile", str(given), "--format", "json"])
        assert result.exit_code == 0, result.output
        compiled = json.loads(result.output)["compile"]
        assert compiled["compile_s"] == 2.0
        assert [row["location"] for row in compiled["graph_breaks"]]
    agent = Sources([tmp_path]).compiled(str(tmp_path))
    assert agent.compiled.compile_s == 2.0


def test_a_folder_with_neither_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["compile", str(tmp_path)])
    assert result.exit_code == 1
    assert str(tmp_path) in str(result.exception or result.output)


def test_compile_work_is_laid_onto_the_clock_of_the_trace(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.span("entire_frame_compile", 2_000_000_000_000_100.0, 2_000_000_000_000_300.0)
    (tmp_path / "some.log").write_bytes(log.bytes())
    trace = broken_trace()
    trace.metadata["baseTimeNanoseconds"] = 2_000_000_000_000_000_000
    overlay = tmp_path / "overlay.json"
    arguments = [
        "compile",
        str(tmp_path / "some.log"),
        str(written(tmp_path, trace)),
        "--overlay",
        str(overlay),
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    (span,) = [
        event for event in json.loads(overlay.read_text())["traceEvents"] if event["ph"] == "X"
    ]
    assert (span["name"], span["ts"], span["dur"]) == ("entire_frame_compile", 100.0, 200.0)


def test_the_environment_of_a_capture_asks_for_the_log_only_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    plan = CapturePlan(str(tmp_path))
    assert "TORCH_TRACE" not in injected_environment(plan)
    assert injected_environment(replace(plan, compile_log=True))["TORCH_TRACE"] == str(
        tmp_path / "compile"
    )


@pytest.mark.parametrize(("region", "found"), [("0/1", []), ("0/2", ["medium"]), ("0/7", ["high"])])
def test_a_trace_alone_says_how_often_a_function_was_compiled(
    region: str, found: list[str], tmp_path: Path
) -> None:
    """The second compilation is PyTorch's own way to sizes that change; a third says that it did
    not help."""
    trace = KinetoTrace()
    for step in range(STEPS):
        t = step * STEP_US
        trace.step(step, t, STEP_US - 1)
        trace.op(f"Torch-Compiled Region: {region}", t + 50, 800)
        launch_and_run(trace, "triton_poi_fused_relu_0", t + 101)
    result = CliRunner().invoke(cli, ["analyze", str(written(tmp_path, trace)), "--format", "json"])
    report = json.loads(result.output)
    assert [one["severity"] for one in report["findings"] if one["id"] == "recompilation"] == found
    if found:
        assert report["recommendations"][0]["remedy"] == "mark_dynamic"
