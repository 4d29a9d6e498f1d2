"""What is said when a command has ended, from what its processes wrote down."""

from __future__ import annotations

import json

import pytest

from traceanalyzer.collect import outcome
from traceanalyzer.collect.host import progress
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.plan import CapturePlan


@pytest.mark.parametrize(
    ("options", "phase", "steps", "said"),
    [
        (
            {},
            "timing",
            14,
            "it ended after 14 steps, a recording needs 41 to 81 (--wait 10, --unprofiled-steps 20",
        ),
        (
            {},
            "timing",
            60,
            "(--wait 10, --unprofiled-steps 20, --light-steps 4, --warmup 2, --active 4), as many "
            "as its steps vary: they were still timed: --wait 2 --unprofiled-steps 15 records 60",
        ),
        (
            {"recorder": "timing"},
            "attached",
            4,
            "it ended after 4 steps, a recording needs 11 (--wait 10)",
        ),
        ({}, "attached", 0, "no step was found"),
        ({"step_on": "x"}, "attached", 0, "no function that matches --step-on 'x' was called"),
        ({"on_signal": True}, "attached", 0, "no SIGUSR2 came"),
        ({}, "recording", 33, "it ended while the profiler warmed up, at step 33"),
        (
            {},
            "failed: RuntimeError: the profiler is on already",
            30,
            "recording failed: RuntimeError: the profiler",
        ),
    ],
)
def test_nothing_recorded_says_why(tmp_path, options, phase, steps, said):
    progress.report(tmp_path, phase, steps)
    lines = outcome.describe_outcome(CapturePlan(folder=str(tmp_path), **options), 0)
    assert said in "\n".join(lines)
    assert lines[-1].startswith("nothing was recorded")
    assert not list(tmp_path.iterdir()), "the processes' notes are no part of a capture"


def test_a_capture_is_named_with_its_unprofiled_step_time(tmp_path):
    (tmp_path / "trace.rank3.part2.json.gz").write_bytes(b"x" * 4096)
    (tmp_path / "unprofiled.rank3.json").write_text(json.dumps({"step_time_ms": 1.25}))
    lines = outcome.describe_outcome(CapturePlan(folder=str(tmp_path)), -15)
    assert lines == [
        "the command was ended by signal 15",
        f"{tmp_path}/trace.rank3.part2.json.gz (4 KiB), unprofiled step 1.250 ms",
    ]
    plan = CapturePlan(folder=str(tmp_path))
    assert outcome.next_command(plan) == f"next: traceanalyzer analyze {tmp_path}"


def test_a_second_process_of_a_rank_has_files_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    assert own_file(tmp_path, "trace", ".json.gz").name == "trace.rank2.json.gz"
    (tmp_path / "unprofiled.rank2.json").touch()
    assert own_file(tmp_path, "trace", ".json.gz", part=2).name == "trace.rank2.part2.json.gz"
    monkeypatch.setattr("os.getpid", lambda: 77)
    assert own_file(tmp_path, "trace", ".json.gz").name == "trace.rank2.pid77.json.gz"
    (tmp_path / "nvml.rank3.jsonl").touch()
    monkeypatch.setenv("RANK", "3")
    assert own_file(tmp_path, "trace", ".json.gz").name == "trace.rank3.json.gz"
