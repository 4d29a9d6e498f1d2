"""When a profiler is on in a program that evaluates, trains, or does one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.profilers import profiler_range
from traceanalyzer.collect.profilers.profiler_range import CudaProfiler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

torch = pytest.importorskip("torch")


class Program:
    """A script under the collector, and what the profiler was told."""

    def __init__(self, folder: Path) -> None:
        plan = CapturePlan(
            str(folder), recorder="nsys", wait=2, unprofiled_steps=2, warmup=1, active=2
        )
        self.attached = Attached(plan)
        self.attached._finder.install()
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def evaluate(self, calls: int) -> None:
        with torch.no_grad():
            for _ in range(calls):
                self.model(torch.zeros(1, 2))

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.model(torch.zeros(1, 2)).sum().backward()
            self.optimizer.step()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    class Logged(CudaProfiler):
        def start(self) -> None:
            calls.append("on")

        def stop(self) -> None:
            calls.append("off")

        def push(self, number: int) -> None:
            calls.append("step")

        def pop(self) -> None:
            pass

    monkeypatch.setattr(profiler_range, "CudaProfiler", Logged)
    return calls


@pytest.fixture
def program(tmp_path: Path, said: list[str]) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.attached._finder.remove()
    made.attached._recorder.discard()


CAPTURE = ["on", "step", "step", "step", "off"]


def unit(folder: Path) -> str:
    return str(json.loads((folder / "unprofiled.rank0.json").read_text())["unit"])


def test_a_program_that_has_an_optimizer_and_only_evaluates_is_recorded(program, said, tmp_path):
    program.evaluate(30)
    assert said == CAPTURE
    assert unit(tmp_path) == "call of Linear"


def test_a_training_after_an_evaluation_is_recorded_again(program, said, tmp_path):
    program.evaluate(30)
    program.train(30)
    assert said == CAPTURE * 2
    assert unit(tmp_path) == "step of SGD"


def test_a_training_that_begins_within_the_capture_ends_it(program, said, tmp_path):
    while said.count("step") < 2:
        program.evaluate(1)
    program.train(30)
    assert said == ["on", "step", "step", "off", *CAPTURE]
    assert unit(tmp_path) == "step of SGD"


def test_a_training_too_short_to_record_leaves_what_belongs_to_the_evaluation(
    program, said, tmp_path
):
    program.evaluate(30)
    while said.count("on") < 2:
        program.train(1)
    program.attached._recorder.close()
    assert said == [*CAPTURE, "on", "step", "off"]
    assert unit(tmp_path) == "call of Linear"


def test_marks_of_a_whole_run_tell_calls_from_steps(monkeypatch):
    names = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", names.append)
    units = ["call of Policy", "step of Adam"]
    marked = CudaProfiler(CapturePlan("", recorder="rocprofv3"), lambda: units[len(names)])
    marked.push(3)
    marked.push(0)
    CudaProfiler(CapturePlan("", recorder="ncu"), lambda: units[0]).push(4)
    assert names == ["call of Policy 3", "step of Adam 0", "step 4"]
