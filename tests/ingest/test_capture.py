"""A capture directory as a whole, and a timing log given with a trace."""

import json

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer import analyze, load
from traceanalyzer.ingest.capture import is_note, with_side_files
from traceanalyzer.ingest.conditions import environment_conditions
from traceanalyzer.ingest.folders import recordings_in
from traceanalyzer.ingest.unprofiled import stopwatch_of
from traceanalyzer.trace import Process, Run

ENVIRONMENT = {
    "schema_version": 1,
    "command": "train.py",
    "git_revision": "abc-dirty",
    "python": "3.11.4",
    "cpu": {"model": "EPYC", "count": 64, "usable": 8},
    "torch": {
        "version": "2.7.0",
        "cuda": "12.8",
        "debug_build": False,
        "anomaly_mode": False,
        "launch_blocking": False,
        "cudnn_benchmark": False,
        "float32_matmul_precision": "highest",
    },
    "gpus": [
        {
            "index": 0,
            "name": "NVIDIA H200",
            "driver": "570",
            "sm_clock_mhz": 1980,
            "sm_clock_max_mhz": 1980,
            "throttle_reasons": [],
            "processes": 1,
        }
    ],
    "variables": {"OMP_NUM_THREADS": "8"},
}


def event(category, name, start, duration, tid, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": tid,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def kineto(rank=None):
    """Five steps of 2 ms."""
    events = []
    for i in range(5):
        at = i * 2000
        events.append(event("user_annotation", f"ProfilerStep#{i}", at, 2000, 1))
        events.append(event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, 1, correlation=i + 1))
        events.append(
            event("kernel", "gemm", at + 20, 1900, 7, correlation=i + 1, device=0, stream=7)
        )
    trace = {"schemaVersion": 1, "traceEvents": events}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps(trace)


def capture(folder, *, ranks=1, environment=ENVIRONMENT, unprofiled=1.6):
    for rank in range(ranks):
        (folder / f"trace.rank{rank}.json").write_text(kineto(rank))
        if unprofiled is not None:
            value = {
                "steps": 20,
                "step_time_ms": unprofiled + rank,
                "clock": "host",
                "wall_mean_ms": 1.7,
            }
            (folder / f"unprofiled.rank{rank}.json").write_text(json.dumps(value, indent=1))
    if environment is not None:
        (folder / "environment.json").write_text(json.dumps(environment))
    return folder


def environment(**changes):
    changed = json.loads(json.dumps(ENVIRONMENT))
    changed["torch"].update(changes.pop("torch", {}))
    changed["gpus"][0].update(changes.pop("gpu", {}))
    changed["variables"].update(changes.pop("variables", {}))
    return changed


def test_the_unprofiled_step_and_what_the_profiler_cost(tmp_path):
    report = analyze(capture(tmp_path))
    assert report.metrics.unprofiled_step_time_ms == 1.6
    assert report.metrics.unprofiled_source == "measured"
    assert report.metrics.step_time_ms.mean == pytest.approx(2.0)
    assert "Profiling slowed the step by 25.0%: 1.6 ms without, 2 ms with." in report.notes
    assert "profiler-cost" in [f.id for f in report.findings]


def test_a_cheap_profiler_is_a_note_only(tmp_path):
    report = analyze(capture(tmp_path, unprofiled=1.98))
    assert "profiler-cost" not in [f.id for f in report.findings]
    assert any("Profiling slowed the step by 1.0%" in note for note in report.notes)


def test_steps_that_were_shorter_with_the_profiler_are_said_to_be(tmp_path):
    notes = analyze(capture(tmp_path, unprofiled=2.4)).notes
    assert any("Recorded steps were 17% shorter than those timed" in note for note in notes)
    assert not any("did not slow" in note for note in notes)


def test_other_processes_on_the_gpu_are_counted(tmp_path):
    report = analyze(capture(tmp_path, environment=environment(gpu={"processes": 3})))
    (found,) = [one for one in report.tables["conditions"] if one.name == "GPU 0 processes"]
    assert found.value == "2 besides this program's"
    assert not found.spoils, "nobody knows whether they worked on it"


def test_the_trace_alone_finds_what_lies_beside_it(tmp_path):
    capture(tmp_path)
    assert analyze(tmp_path / "trace.rank0.json").metrics.unprofiled_step_time_ms == 1.6


def test_each_rank_has_its_own(tmp_path):
    run = load(capture(tmp_path, ranks=2))
    assert [t.unprofiled_step_ns for t in run.traces] == [1_600_000, 2_600_000]


def test_another_process_and_a_second_cycle_of_a_rank(tmp_path):
    capture(tmp_path)
    for name in ("rank0.part2", "rank0.pid12"):
        (tmp_path / f"trace.{name}.json").write_text(kineto(0))
    (tmp_path / "unprofiled.rank0.pid12.json").write_text('{"step_time_ms": 3}')
    run = load(sorted(tmp_path.glob("trace.*.json")))
    found = {t.path.rsplit("/", 1)[1]: t.unprofiled_step_ns for t in run.traces}
    assert found == {
        "trace.rank0.json": 1_600_000,
        "trace.rank0.part2.json": 1_600_000,
        "trace.rank0.pid12.json": 3_000_000,
    }


def test_nothing_beside_the_trace(tmp_path):
    report = analyze(capture(tmp_path, environment=None, unprofiled=None))
    assert report.metrics.unprofiled_source != "measured"
    assert report.tables["conditions"] == []
    assert not any("Profiling slowed" in note for note in report.notes)


def test_the_hosts_shortest_step_is_known_where_the_device_has_a_clock(tmp_path):
    known = {"step_time_ms": 28.4, "clock": "cuda_events", "host_ms": {"min": 18.6, "median": 28.3}}
    found = stopwatch_of(known)
    assert found is not None
    assert found.host_ns == 18_600_000
    assert stopwatch_of(known | {"clock": "host"}).host_ns is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"step_time_ms": "x"}', '{"step_time_ms": -1}', '{"step_time_ms": true}'],
)
def test_a_damaged_unprofiled_file_is_noted(tmp_path, text):
    capture(tmp_path)
    (tmp_path / "unprofiled.rank0.json").write_text(text)
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns is None
    assert any("holds no step time" in note for note in trace.health.notes)


def test_a_timing_log_given_with_a_trace_is_its_unprofiled_run(tmp_path):
    capture(tmp_path, unprofiled=None)
    lines = "".join(f'{{"step": {i}, "iter_ms": 1.5, "data_ms": 0.1}}\n' for i in range(30))
    (tmp_path / "timings.rank0.jsonl").write_text(lines)
    report = analyze(tmp_path)
    assert report.metrics.unprofiled_step_time_ms == 1.5
    assert report.metrics.step_source == "profiler_step"
    assert report.metrics.timing.steps == 30
    assert [i.kind for i in report.inputs] == ["kineto", "timing_log"]


def test_logs_join_the_trace_of_their_rank():
    def trace(source, rank):
        return (
            TraceBuilder().kernel("k", 0, 1).build(process=Process(rank=rank))
            if source == "kineto"
            else log(rank)
        )

    def log(rank):
        from traceanalyzer.trace import StepTimings, Trace

        steps = StepTimings.from_columns({"duration": [(rank or 0) + 5]})
        return Trace("log", "timing_log", [], process=Process(rank=rank), step_timings=steps)

    run = with_side_files(Run((trace("kineto", 0), trace("kineto", 1), log(0), log(1))))
    assert [t.step_timings.duration.tolist() for t in run.traces] == [[5], [6]]
    assert len(run.logs) == 2
    alone = with_side_files(Run((trace("kineto", None), log(None))))
    assert alone.traces[0].step_timings.duration.tolist() == [5]
    other = with_side_files(Run((trace("kineto", 0), log(1))))
    assert len(other.traces[0].step_timings) == 0


def test_a_capture_of_timings_alone(tmp_path):
    (tmp_path / "environment.json").write_text(json.dumps(ENVIRONMENT))
    for rank in range(2):
        text = "".join(
            f'{{"step": {i}, "iter_ms": {10 + rank}, "data_ms": 1.0}}\n' for i in range(20)
        )
        (tmp_path / f"timings.rank{rank}.jsonl").write_text(text)
    report = analyze(tmp_path)
    assert report.metrics.step_source == "timing_log"
    assert report.metrics.step_time_ms.mean == pytest.approx(11)
    assert report.metrics.unprofiled_step_time_ms is None
    assert len(report.tables["ranks"]) == 2
    assert report.tables["conditions"]


def test_conditions_are_shown_and_sound_ones_are_no_finding(tmp_path):
    report = analyze(capture(tmp_path))
    shown = {c.name: c.value for c in report.tables["conditions"]}
    assert shown["PyTorch"] == "2.7.0"
    assert shown["GPU 0"] == "NVIDIA H200, driver 570, SM clock 1980 of 1980 MHz"
    assert shown["OMP_NUM_THREADS"] == "8"
    assert not [f for f in report.findings if f.id.startswith("condition-")]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"torch": {"debug_build": True}}, "condition-pytorch-debug-build"),
        ({"torch": {"anomaly_mode": True}}, "condition-autograd-anomaly-mode"),
        ({"torch": {"launch_blocking": True}}, "condition-cuda-launch-blocking"),
        ({"variables": {"CUDA_LAUNCH_BLOCKING": "1"}}, "condition-cuda-launch-blocking"),
        (
            {"variables": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}},
            "condition-pytorch-no-cuda-memory-caching",
        ),
        ({"gpu": {"throttle_reasons": ["hardware_thermal"]}}, "condition-gpu-0-throttling"),
    ],
)
def test_conditions_that_spoil_the_measurement_are_findings(tmp_path, change, name):
    report = analyze(capture(tmp_path, environment=environment(**change)))
    found = [f for f in report.findings if f.id.startswith("condition-")]
    assert [(f.id, f.severity, f.headroom_ms) for f in found] == [(name, "info", None)]
    assert len([c for c in report.tables["conditions"] if c.spoils]) == 1


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        ("0", ["GPU 0"]),
        ("0, 1", ["GPU 0", "GPU 1", "GPU 1 processes"]),
        ("GPU-8ce1", ["GPU 0", "GPU 1", "GPU 1 processes"]),
        ("GPU-8ce1,0", ["GPU 0", "GPU 1", "GPU 1 processes"]),
        ("0,-1,1", ["GPU 0"]),
        (["0"], ["GPU 0", "GPU 1", "GPU 1 processes"]),
        (None, ["GPU 0", "GPU 1", "GPU 1 processes"]),
    ],
)
def test_a_gpu_that_the_program_could_not_see_spoils_nothing(visible, shown):
    gpus = [{"index": i, "name": "NVIDIA H200", "processes": 1 + i} for i in range(2)]
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = environment_conditions({"gpus": gpus, "variables": variables})
    names = [condition.name for condition in found if condition.name.startswith("GPU")]
    assert names == shown


@pytest.mark.parametrize(
    ("number", "version"),
    [(91900, "9.19.0"), (90100, "9.1.0"), (8902, "8.9.2"), (7605, "7.6.5"), (5, "5"), ("9", "9")],
)
def test_cudnn_has_its_version(number, version):
    (said,) = environment_conditions({"torch": {"cudnn": number}})
    assert (said.name, said.value) == ("cuDNN", version)


def test_throttling_during_the_recording(tmp_path):
    capture(tmp_path)
    samples = [
        {
            "gpu": 0,
            "time_ns": i,
            "sm_clock_mhz": 1200 + i,
            "throttle_reasons": ["software_power_cap"] * (i % 2),
        }
        for i in range(4)
    ]
    (tmp_path / "nvml.rank0.jsonl").write_text(
        "\n".join(map(json.dumps, samples)) + '\n{"gpu": 0, "ti'
    )
    report = analyze(tmp_path)
    shown = {c.name: c.value for c in report.tables["conditions"]}
    assert shown["GPU 0 SM clock"] == "1200 to 1203 MHz in 4 samples"
    assert shown["GPU 0 throttling"] == "software_power_cap in 50% of the samples"
    assert "condition-gpu-0-throttling" in [f.id for f in report.findings]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"torch": 3, "gpus": [1, {"processes": "x"}], "variables": []}']
)
def test_an_odd_environment_file(tmp_path, text):
    capture(tmp_path)
    (tmp_path / "environment.json").write_text(text)
    report = analyze(tmp_path)
    if not text.startswith('{"'):
        assert any("environment.json cannot be read" in n for n in report.inputs[0].health.notes)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("environment.json", json.dumps(ENVIRONMENT), True),
        ("unprofiled.rank0.json", '{"steps": 20, "step_time_ms": 1.5}', True),
        ("unprofiled.rank0.json", '{"steps": 20}', False),
        ("environment.json", kineto(), False),
        ("environment.json", "[]", False),
        ("notes.json", json.dumps(ENVIRONMENT), False),
    ],
)
def test_what_a_capture_says_of_its_recordings_is_told_without_readers(
    tmp_path, name, text, expected
):
    file = tmp_path / name
    file.write_text(text)
    assert is_note(file) is expected


def test_a_recording_that_is_called_like_a_note_is_read(tmp_path):
    (tmp_path / "environment.json").write_text(kineto())
    assert recordings_in(tmp_path) == [tmp_path / "environment.json"]
