"""Ranks that are recorded together."""

from __future__ import annotations

import itertools

import pytest

from traceanalyzer.collect.host.ranks import SIZE_VARIABLES, several_ranks
from traceanalyzer.collect.plan import UNPROFILED_STEPS, CapturePlan
from traceanalyzer.collect.torch_recording import TorchRecording


@pytest.mark.parametrize(
    ("variables", "several"),
    [
        ({}, False),
        ({"WORLD_SIZE": "1"}, False),
        ({"WORLD_SIZE": "2"}, True),
        ({"SLURM_NTASKS": "8"}, True),
        ({"WORLD_SIZE": "many"}, False),
        ({"WORLD_SIZE": "1", "SLURM_NTASKS": "8"}, False),
    ],
)
def test_the_launcher_says_whether_there_are_several(monkeypatch, variables, several):
    for name in SIZE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert several_ranks() is several


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_each_of_several_times_so_many_steps_as_the_others(monkeypatch, tmp_path, ranks):
    """Steps that never settle: one process goes on timing them, several must begin to record at the
    same one."""
    pytest.importorskip("torch")
    monkeypatch.setenv("WORLD_SIZE", ranks)
    ends_ns = itertools.accumulate(itertools.cycle([1_000_000, 5_000_000]))
    now_ns = 0
    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns)
    phases: list[str] = []
    recording = TorchRecording(CapturePlan(folder=str(tmp_path), wait=1), phases.append)
    for end_ns in itertools.islice(ends_ns, UNPROFILED_STEPS + 1):
        now_ns = end_ns
        recording.step()
    recording.close()
    assert ("recording" in phases) is (ranks == "2")
