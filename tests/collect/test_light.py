"""The light recording before the full one: with a profiler of the host standing in for one of the
device."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.collect.running import recorded_steps
from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.torch_profiler import record
from traceanalyzer.collect.torch_recording import LIGHT, UNIT, TorchRecording

torch = pytest.importorskip("torch")
OPTIONS = {"wait": 1, "unprofiled_steps": 0, "light_steps": 3, "warmup": 1, "active": 2}


@pytest.fixture
def stand_in(monkeypatch):
    """A device that is in use, and the host's activities in place of its own."""
    from torch.profiler import ProfilerActivity

    monkeypatch.setattr(cuda, "in_use", lambda: True)
    monkeypatch.setattr(cuda, "wait_at_most", lambda seconds: True)
    monkeypatch.setattr(ProfilerActivity, "CUDA", ProfilerActivity.CPU)


def _steps(recording, count):
    for _ in range(count):
        torch.ones(4) + 1
        recording.step()


def _head(path):
    with gzip.open(path) as file:
        return json.load(file)


def test_it_says_when_its_steps_ended_and_comes_before_the_full_one(tmp_path, stand_in):
    with record(tmp_path, **OPTIONS) as recording:
        _steps(recording, 12)
    assert recording.finished
    light = _head(tmp_path / "light.rank0.json.gz")
    assert len(light[LIGHT]["step_ends_ns"]) == 4
    assert light[LIGHT]["step_ends_ns"] == sorted(light[LIGHT]["step_ends_ns"])
    full = _head(tmp_path / "trace.rank0.json.gz")
    assert LIGHT not in full
    assert full[UNIT] == light[UNIT] == "call of step()"
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
    starts = [
        min(e["ts"] for e in t["traceEvents"] if e.get("cat") == "cpu_op") for t in (light, full)
    ]
    assert starts[0] < starts[1]


def test_cut_short_it_leaves_nothing(tmp_path, stand_in):
    with record(tmp_path, **OPTIONS) as recording:
        _steps(recording, 4)
    assert not list(tmp_path.glob("*.gz"))


def test_a_profiler_of_the_scripts_ends_it_and_it_is_made_again(tmp_path, stand_in):
    notes = []
    recording = TorchRecording(CapturePlan(folder=str(tmp_path), **OPTIONS), on_note=notes.append)
    _steps(recording, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        _steps(recording, 2)
    assert sum(event.name == "aten::add" for event in own.events()) == 2
    _steps(recording, 12)
    assert recording.finished
    assert [note.split(":")[0] for note in notes] == [
        "the script began a profiler of its own",
        "the script runs a profiler of its own",
    ]
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
    assert (tmp_path / "light.rank0.json.gz").exists()


def test_without_a_device_there_is_none(tmp_path):
    with record(tmp_path, **OPTIONS) as recording:
        _steps(recording, 8)
    assert recording.finished
    assert not (tmp_path / "light.rank0.json.gz").exists()


@pytest.mark.parametrize(
    ("version", "before", "inside"),
    [
        ("13.0", None, "1"),
        ("12.6", None, "1"),
        ("12.4", None, None),
        (None, None, None),
        ("13.0", "0", "0"),
    ],
)
def test_cupti_is_switched_off_where_that_is_safe_and_nobody_decided(
    monkeypatch, stand_in, version, before, inside
):
    import os

    from traceanalyzer.collect.profilers.session import TEARDOWN, _torn_down

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.delenv(TEARDOWN, raising=False)
    if before is not None:
        monkeypatch.setenv(TEARDOWN, before)
    with _torn_down(wanted=True):
        assert os.environ.get(TEARDOWN) == inside
    assert os.environ.get(TEARDOWN) == before
    with _torn_down(wanted=False):
        assert os.environ.get(TEARDOWN) == before


def test_a_recording_whose_device_hangs_is_stopped_without_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "wait_at_most", lambda seconds: False)
    before = torch.cuda.synchronize
    with record(tmp_path, **OPTIONS) as recording:
        _steps(recording, 8)
    assert torch.cuda.synchronize is before
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
