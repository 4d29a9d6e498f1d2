"""GPU memory from a trace alone: peaks of phases, and what grows, on allocator events written by
hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.tables.test_op_memory import memory, op
from traceanalyzer.analysis.memory.traced import TracedMemory
from traceanalyzer.diagnosis.memory import of_a_trace
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest.run import load

STEP = 1000
MIB = 1 << 20


class Program:
    """Steps of 1,000 us, and the allocator's events in them; sizes are MiB."""

    def __init__(self, steps: int, held: int = 100) -> None:
        self.events = [
            annotation(f"ProfilerStep#{i}", i * STEP, (i + 1) * STEP) for i in range(steps)
        ]
        self.total = held
        self.address = 0

    def alloc(self, at: float, size: int) -> int:
        self.total += size
        self.address += 1
        self.events.append(memory(at, size * MIB, self.address, self.total * MIB))
        return self.address

    def free(self, at: float, size: int, address: int) -> None:
        self.total -= size
        self.events.append(memory(at, -size * MIB, address, self.total * MIB))

    def found(self, tmp_path: Path) -> TracedMemory:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": self.events}))
        result = measured(load([path])).critical.traced_memory
        assert result is not None
        return result


def annotation(name: str, start: float, end: float) -> dict[str, Any]:
    return {**op(name, start, end), "cat": "user_annotation"}


def training_step(program: Program, i: int, batch: int = 10, update: int = 7) -> None:
    """Forward (activations of `batch`, and the loss), backward (gradients), an update with
    temporaries."""
    t = i * STEP
    number = {"Sequence number": i, "Fwd thread id": 0}
    program.events += [
        {**op("aten::mm", t + 100, t + 200), "args": number},
        {
            **op("autograd::engine::evaluate_function: MmBackward0", t + 400, t + 500, thread=2),
            "args": {"Sequence number": i, "Fwd thread id": 1},
        },
        annotation("Optimizer.step#SGD.step", t + 600, t + 700),
    ]
    activation = program.alloc(t + 110, batch)
    loss = program.alloc(t + 300, 1)  # no operator: of the forward pass all the same
    gradient = program.alloc(t + 410, 20)
    program.free(t + 490, batch, activation)
    program.free(t + 495, 1, loss)
    temporary = program.alloc(t + 650, update)
    program.free(t + 660, update, temporary)
    program.free(t + 690, 20, gradient)
    logged = program.alloc(t + 800, 2)
    program.free(t + 810, 2, logged)


def in_mib(size: float | None) -> float | None:
    return None if size is None else size / MIB


def test_peaks_of_phases(tmp_path: Path) -> None:
    program = Program(3)
    for i in range(3):
        training_step(program, i)
    found = program.found(tmp_path).stats
    assert [
        in_mib(size)
        for size in (found.forward, found.backward, found.optimizer, found.other, found.peak)
    ] == [
        111,
        131,
        127,
        120,
        131,
    ]
    assert (found.peak_phase, found.growth, found.growth_per_step) == ("backward", "steady", 0)


def test_a_phase_that_allocates_nothing_has_the_level_it_begins_with(tmp_path: Path) -> None:
    program = Program(3)
    for i in range(3):
        training_step(program, i, update=0)
    assert in_mib(program.found(tmp_path).stats.optimizer) == 120


def test_what_every_step_leaves_is_a_leak_of_the_operator(tmp_path: Path) -> None:
    program = Program(3)
    for i in range(3):
        training_step(program, i)
        program.events.append(op("aten::clone", i * STEP + 900, i * STEP + 950))
        program.alloc(i * STEP + 910, 3 + i % 2)  # of other sizes from step to step
    found = program.found(tmp_path)
    assert found.stats.growth == "leak"
    assert in_mib(found.stats.growth_per_step) == pytest.approx(3.5)
    assert found.stats.growth_at == "aten::clone between optimizer and forward"
    (finding,), (advice,) = of_a_trace(found, 1 << 30)
    assert (finding.id, advice.remedy, advice.predicted_step_ms) == (
        "memory-leak",
        "free_tensors",
        None,
    )
    assert ("steps until the GPU is full", 253) in [(e.metric, e.value) for e in finding.evidence]


def test_one_tensor_that_gets_larger_is_growth(tmp_path: Path) -> None:
    program = Program(4)
    old = 0
    size = 0
    for i in range(4):
        program.events.append(op("aten::cat", i * STEP + 100, i * STEP + 150))
        new = program.alloc(i * STEP + 110, size + 5)
        if old:
            program.free(i * STEP + 200, size, old)
        old = new
        size = size + 5
    found = program.found(tmp_path)
    assert (found.stats.growth, found.stats.growth_at) == ("growth", "aten::cat")
    assert in_mib(found.stats.growth_per_step) == pytest.approx(5)
    assert in_mib(found.stats.forward) == 135, "without a backward pass all of a step is forward"
    assert of_a_trace(found, None)[1][0].remedy == "avoid_allocations"


@pytest.mark.parametrize("kept", [[0, 40, 0], [9, 3, 7], [30, 0, 0]])
def test_what_is_only_kept_for_a_while_is_none(tmp_path: Path, kept: list[int]) -> None:
    """A step's results that the next replaces, batches of other sizes, what the first step
    makes."""
    program = Program(4)
    held = (0, 0)
    for i in range(4):
        training_step(program, i)
        size = [*kept, 5][i]
        new = program.alloc(i * STEP + 900, size) if size else 0
        if held[0] and kept[0] != 30:
            program.free(i * STEP + 950, held[1], held[0])
        held = (new, size)
    found = program.found(tmp_path)
    assert found.stats.growth == "steady"
    assert of_a_trace(found, None) == ([], [])


def test_a_leak_is_what_stays_where_what_is_freed_again_is_of_other_sizes(tmp_path: Path) -> None:
    """Kept for a step, or until garbage is collected; what was there before is given up in turn."""
    program = Program(6)
    held = list[tuple[int, int]]()
    garbage = list[tuple[int, int]]()
    for i in range(6):
        training_step(program, i)
        program.events.append(op("aten::empty", i * STEP + 900, i * STEP + 990))
        program.alloc(i * STEP + 910, 8)
        for at, (size, block) in enumerate(held + (garbage if i == 3 else [])):
            program.free(i * STEP + 920 + at, size, block)
        held = [(size := [5, 1, 3, 9, 1, 7][i], program.alloc(i * STEP + 930, size))]
        garbage.append((2, program.alloc(i * STEP + 940, 2)))
    stats = program.found(tmp_path).stats
    assert (stats.growth, in_mib(stats.growth_per_step)) == ("leak", pytest.approx(8, rel=0.1))
    assert stats.growth_low == 8 * MIB < stats.growth_high


def test_two_steps_are_too_few_for_growth(tmp_path: Path) -> None:
    program = Program(2)
    for i in range(2):
        training_step(program, i)
    assert program.found(tmp_path).stats.growth_per_step is None
