"""The recording API: `record`, `record_calls`, `annotate`, in this process."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.collect.running import recorded_steps, trace_events
from traceanalyzer.collect.annotate import annotate
from traceanalyzer.collect.torch_profiler import record, record_calls

torch = pytest.importorskip("torch")
SHORT = {"wait": 1, "unprofiled_steps": 3, "warmup": 1, "active": 2}
KEPT = {"wait": 1, "unprofiled_steps": 0, "warmup": 1, "active": 100}


def _work():
    with annotate("outer"):
        inner(torch.ones(4))


@annotate("inner")
def inner(x):
    return (x + 1).sum()


def test_steps_are_timed_then_recorded_with_their_phases(tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    with record(tmp_path / "new", **SHORT, repeat=2) as recording:
        for _ in range(20):
            _work()
            recording.step()
    assert recording.finished
    names = {file.name for file in (tmp_path / "new").iterdir()}
    assert names == {
        "trace.rank0.json.gz",
        "trace.rank0.part2.json.gz",
        "unprofiled.rank0.json",
        "environment.json",
    }
    for part in ("", ".part2"):
        trace = tmp_path / "new" / f"trace.rank0{part}.json.gz"
        assert recorded_steps(trace) == 2
        phases = [
            event["name"] for event in trace_events(trace) if event.get("cat") == "user_annotation"
        ]
        assert phases.count("outer") == phases.count("inner") == 2
    assert json.loads((tmp_path / "new" / "unprofiled.rank0.json").read_text())["steps"] >= 3
    assert signal.getsignal(signal.SIGTERM) is handler
    with pytest.raises(FileExistsError, match="holds a capture already"), record(tmp_path / "new"):
        pass


def test_leaving_the_block_keeps_what_is_recorded_also_after_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="as asked"), record(tmp_path, **KEPT) as recording:  # noqa: PT012
        for _ in range(6):
            _work()
            recording.step()
        raise RuntimeError("as asked")
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 4


def test_a_time_limit_ends_the_recording_at_the_next_step(tmp_path):
    with record(tmp_path, **KEPT, time_limit=0.0) as recording:
        for _ in range(6):
            _work()
            recording.step()
        assert recording.finished


def test_a_decorated_function_is_a_step_a_call(tmp_path):
    @record_calls(tmp_path, **SHORT)
    def step(x, *, y=1):
        return (torch.ones(4) * x).sum().item() + y

    assert [step(i, y=2) for i in range(16)] == [4.0 * i + 2 for i in range(16)]
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2


def test_a_recording_on_request_starts_at_the_next_step(tmp_path):
    with record(tmp_path, **SHORT | {"wait": 1000}) as recording:
        _work()
        recording.step()
        recording.record_now()
        for _ in range(16):
            _work()
            recording.step()
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2


def test_annotating_works_without_torch_and_inside_a_compiled_function(monkeypatch):
    compiled = torch.compile(lambda x: inner(x), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(2)) == 2
    monkeypatch.delitem(sys.modules, "torch")
    with annotate("alone") as phase:
        assert phase.name == "alone"
