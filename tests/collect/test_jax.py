"""`collect jax` with a package that stands in for JAX, and with JAX itself where it is
installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.collect.running import collect
from traceanalyzer import load

FEW = ("--wait", "2", "--unprofiled-steps", "3", "--warmup", "1", "--active", "2")
STAND_IN = Path(__file__).parent / "stand_in_jax"
ANNOTATED = """
import jax
for i in range({steps}):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        jax.compute()
jax.show()
"""
CALLED = """
import jax
def train():
    jax.compute()
for _ in range(20):
    train()
jax.show()
"""
BARE = """
import jax, time
from traceanalyzer.collect.profilers import jax_trace
jax_trace.QUIET_S = jax_trace.SECONDS = 0.1
while "stop" not in jax.CALLS and time.process_time() < 60:
    jax.compute()
jax.show()
"""


def record(tmp_path, script, *options):
    return collect(
        "jax",
        "-o",
        tmp_path / "c",
        *FEW,
        *options,
        "--",
        sys.executable,
        "-c",
        script,
        PYTHONPATH=STAND_IN,
    )


def test_annotated_steps_are_timed_then_recorded(tmp_path):
    done = record(tmp_path, ANNOTATED.format(steps=30))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["start", "MainThread", "stop", "MainThread"]
    assert {file.name for file in (tmp_path / "c").iterdir()} == {
        "trace.rank0.xplane.pb",
        "unprofiled.rank0.json",
        "environment.json",
    }
    timed = json.loads((tmp_path / "c" / "unprofiled.rank0.json").read_text())
    assert timed["unit"] == "jax.profiler.StepTraceAnnotation"
    assert timed["step_time_ms"] == pytest.approx(timed["wall_mean_ms"])
    (trace,) = load(tmp_path / "c").traces
    assert trace.source == "xplane"
    assert trace.stopwatch is not None


def test_calls_of_a_named_function_are_marked(tmp_path):
    done = record(tmp_path, CALLED, "--step-on", "__main__.train$")
    assert done.returncode == 0, done.stderr
    began, _, first, second, third, stop, _ = json.loads(done.stdout)
    assert (began, stop) == ("start", "stop")
    number = int(first.removeprefix("step "))
    assert (second, third) == (f"step {number + 1}", f"step {number + 2}")


def test_a_program_without_steps_is_recorded_by_the_thread_that_runs_it(tmp_path):
    done = record(tmp_path, BARE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["start", "MainThread", "stop", "MainThread"]


def test_what_ends_too_soon_is_told_how_to_name_its_steps(tmp_path):
    done = record(tmp_path, "import jax; jax.compute()")
    assert "no jax.profiler.StepTraceAnnotation" in done.stderr
    assert "--step-on REGEX" in done.stderr
    done = record(tmp_path, ANNOTATED.format(steps=4))
    assert "it ended after 4 steps, a recording needs 8" in done.stderr


def test_a_program_without_jax(tmp_path):
    done = collect(
        "jax", "-o", tmp_path / "c", "--", sys.executable, "-c", "pass", PYTHONPATH=STAND_IN
    )
    assert "no process of the command imported jax" in done.stderr


def test_with_jax_itself(tmp_path):
    pytest.importorskip("jax")
    script = ANNOTATED.replace("jax.compute()", "f(x).block_until_ready()").replace(
        "jax.show()", ""
    )
    script = script.replace(
        "import jax", "import jax; f = jax.jit(lambda x: x @ x); x = jax.numpy.ones((64, 64))"
    )
    done = collect(
        "jax", "-o", tmp_path / "c", *FEW, "--", sys.executable, "-c", script.format(steps=30)
    )
    assert done.returncode == 0, done.stderr
    (trace,) = load(tmp_path / "c").traces
    assert any(name.startswith("train step_num=") for name in trace.strings)
