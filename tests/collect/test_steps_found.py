"""Which calls are taken for the steps of a script."""

from __future__ import annotations

import sys

import pytest

from tests.collect.running import SCRIPTS, SMALL, recorded_steps, trace_events
from tests.collect.warm import collect

pytest.importorskip("torch")


def test_calls_of_the_outermost_module_without_an_optimizer(tmp_path):
    done = collect("torch", "-o", tmp_path, *SMALL, "--", sys.executable, SCRIPTS / "infer.py", 40)
    assert done.stdout == "0\n", "no hook may stay when the recording is complete"
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2


def test_training_supersedes_an_evaluation_and_its_first_optimizer_leads(tmp_path):
    done = collect(
        "torch", "-o", tmp_path, *SMALL, "--", sys.executable, SCRIPTS / "evaluate_then_train.py"
    )
    assert done.returncode == 0
    trace = tmp_path / "trace.rank0.json.gz"
    assert [file.name for file in tmp_path.glob("trace.*")] == [trace.name]
    assert recorded_steps(trace) == 2
    names = [event.get("name", "") for event in trace_events(trace) if event.get("ph") == "X"]
    assert sum(name.startswith("Optimizer.step#SGD") for name in names) == 4
    assert any("Backward" in name for name in names)


def test_a_function_named_by_its_qualified_name(tmp_path):
    done = collect(
        "torch",
        "-o",
        tmp_path,
        *SMALL,
        "--step-on",
        r"__main__\.answer$",
        "--",
        SCRIPTS / "infer.py",
        40,
    )
    assert done.returncode == 0, done.stderr
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
