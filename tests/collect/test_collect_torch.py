"""`collect torch` on scripts that know nothing of it."""

from __future__ import annotations

import json
import sys

import pytest

from tests.collect import warm
from tests.collect.running import SCRIPTS, SMALL, collect, recorded_steps
from traceanalyzer.ingest import load

pytest.importorskip("torch")
TRAIN = SCRIPTS / "train.py"
COMPILED = SCRIPTS / "compiled.py"


def test_steps_are_recorded_and_the_script_keeps_its_output_and_status(tmp_path):
    done = collect("torch", "-o", tmp_path, *SMALL, "--", sys.executable, TRAIN, 40, "exit")
    assert done.returncode == 7
    assert done.stdout == "started\ntrained\n"
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
    timed = json.loads((tmp_path / "unprofiled.rank0.json").read_text())
    assert 5 <= timed["steps"] <= timed["timed_steps"] <= 15
    assert timed["unit"] == "step of SGD"
    assert timed["after_profiler"] is False
    assert timed["low_ms"] <= timed["step_time_ms"] <= timed["high_ms"]
    assert len(timed["series_ms"]) == timed["timed_steps"]
    assert timed["clock"] == "host"
    assert min(timed["series_ms"]) <= timed["wall_mean_ms"]
    assert timed["wall_mean_ms"] <= 1.5 * max(timed["series_ms"])
    *_, recorded, verdict, last = done.stderr.splitlines()
    assert "trace.rank0.json.gz (" in recorded
    assert verdict.startswith("traceanalyzer: ")
    assert "next: traceanalyzer analyze" in last
    assert [
        line for line in done.stderr.splitlines() if not line.startswith("traceanalyzer: ")
    ] == []
    assert {file.name for file in tmp_path.iterdir()} == {
        "trace.rank0.json.gz",
        "unprofiled.rank0.json",
        "environment.json",
    }


def test_a_recording_cut_short_keeps_the_steps_it_has(tmp_path):
    options = (*SMALL[:-1], "50")
    done = warm.collect("torch", "-o", tmp_path, *options, "--", sys.executable, TRAIN, 30, "crash")
    assert done.returncode == 1
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") >= 5


def test_a_script_without_steps_is_told_so(tmp_path):
    done = warm.collect("torch", "-o", tmp_path, "--", sys.executable, TRAIN, 0, "exit")
    assert done.returncode == 7
    assert "no step was found" in done.stderr


def test_a_script_without_torch_is_told_so(tmp_path):
    done = collect("torch", "-o", tmp_path, "--", sys.executable, "-c", "print(1)")
    assert done.returncode == 0
    assert done.stdout == "1\n"
    assert "no process of the command imported torch" in done.stderr


def test_first_steps_are_timed_from_their_begin(tmp_path):
    options = (*SMALL, "--no-verdict")
    done = warm.collect("torch", "-o", tmp_path, *options, "--", sys.executable, TRAIN, 40)
    assert "next: traceanalyzer analyze" in done.stderr.splitlines()[-1]
    timed = json.loads((tmp_path / "unprofiled.rank0.json").read_text())
    assert len(timed["first_steps_ms"]) == 2  # of --wait 2
    assert all(each > 1 for each in timed["first_steps_ms"])  # each sleeps for 1 ms


def test_first_steps_are_recorded_and_steady_ones_timed_after_them(tmp_path):
    done = warm.collect("torch", "-o", tmp_path, *SMALL, "--first", "--", sys.executable, TRAIN, 40)
    assert "unprofiled step" in done.stderr
    assert "UserWarning" not in done.stderr
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
    timed = json.loads((tmp_path / "unprofiled.rank0.json").read_text())
    assert "first_steps_ms" not in timed
    assert timed["timed_steps"] >= 5
    found = load([tmp_path]).traces[0]
    assert any(text.startswith("ProfilerStep#0") for text in found.strings)


def test_eager_steps_are_timed_where_something_was_compiled(tmp_path):
    options = (*SMALL, "--eager-steps", "5")
    warm.collect("torch", "-o", tmp_path / "plain", *options, "--", sys.executable, TRAIN, 40)
    done = collect(
        "torch", "-o", tmp_path / "compiled", *options, "--", sys.executable, COMPILED, 60
    )
    assert done.returncode == 0
    plain, compiled = (
        json.loads((tmp_path / name / "unprofiled.rank0.json").read_text())
        for name in ("plain", "compiled")
    )
    assert "eager_step_ms" not in plain
    assert compiled["eager_step_ms"] > 1
    assert compiled["first_steps_ms"][0] > compiled["first_steps_ms"][1]
