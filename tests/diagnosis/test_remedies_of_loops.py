"""Remedies that read more than kernels: how a program takes data apart, where it goes, and what
loads code."""

from __future__ import annotations

from functools import partial

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, REDUCE, copy, program, step_us, within
from traceanalyzer.diagnosis.remedies.loops import batch_calls
from traceanalyzer.replay.changes.fusion import find_runs
from traceanalyzer.replay.changes.loops.repetition import batched
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind, MemoryKind

FUSIBLE = ("elementwise", "reduction", "layout")
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
ITEMS = 8
LAYERS = 12


def call(p: Program) -> None:
    for _ in range(LAYERS):
        within(p, "aten::linear", lambda p: p.spend(20).launch(GEMM, 3))


def test_a_call_for_each_item_of_a_batch_can_be_one() -> None:
    def step(p: Program) -> None:
        within(p, "aten::unbind", lambda p: p.spend(5), shapes=f"[[{ITEMS}, 64, 384], []]")
        for _ in range(ITEMS):
            within(p, "aten::unsqueeze", lambda p: p.spend(2), shapes="[[64, 384], []]")
            call(p)

    tape = make_tape(program(step).rated)
    assert tape is not None
    one = batched(tape)
    assert one is not None
    assert step_time_ns(one) < step_time_ns(tape) / ITEMS * 1.5


def test_layers_that_are_not_called_for_items_stay() -> None:
    def step(p: Program) -> None:
        within(p, "aten::unbind", lambda p: p.spend(5), shapes="[[3, 64, 384], []]")
        for _ in range(ITEMS):
            within(p, "aten::unsqueeze", lambda p: p.spend(2), shapes="[[64, 384], []]")
            call(p)

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert batched(tape) is None


@pytest.mark.parametrize(
    ("user", "shapes", "kept"),
    [
        ("aten::index", "[[16384, 1024], []]", True),
        ("aten::embedding", "[[16384, 1024], [8192]]", True),
        ("aten::linear", "[[8, 1024], [16384, 1024]]", True),
        ("aten::linear", "[[16384, 1024], [1024, 1024]]", False),
        ("aten::mul", "[[64, 16384, 1024], [16384, 1024]]", True),
        ("aten::relu", "[[16384, 1024]]", False),
    ],
)
def test_what_each_step_copies_is_a_constant_by_its_use(user: str, shapes: str, kept: bool) -> None:
    def bring(p: Program) -> None:
        copy(p, 900, CopyKind.HOST_TO_DEVICE, 1 << 26, MemoryKind.PAGEABLE).sync()

    def step(p: Program) -> None:
        within(p, "aten::to", bring, shapes="[[16384, 1024], []]")
        within(p, user, lambda p: p.spend(10).launch(ADD, 40), shapes=shapes)

    found = step_us(program(step), "keep_on_device")
    assert (found is not None) == kept
    assert found is None or found < 120


def test_data_that_the_host_works_on_and_brings_back_can_stay() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 50)
        copy(p, 100, CopyKind.DEVICE_TO_HOST, 1 << 20, MemoryKind.PAGEABLE).sync()
        copy(p.spend(1500), 5, CopyKind.HOST_TO_DEVICE, 1 << 13)
        p.launch(GEMM, 50)

    found = step_us(program(step), "keep_on_device")
    assert found is not None
    assert found < 400


def test_input_that_is_larger_than_what_was_read_is_no_way_back() -> None:
    def step(p: Program) -> None:
        copy(p.launch(GEMM, 50), 5, CopyKind.DEVICE_TO_HOST, 1 << 13, MemoryKind.PAGEABLE).sync()
        copy(p.spend(1500), 100, CopyKind.HOST_TO_DEVICE, 1 << 20)
        p.launch(GEMM, 50)

    assert step_us(program(step), "keep_on_device") is None


def test_kernels_whose_first_launch_takes_long_in_one_step_were_loaded_then() -> None:
    def step(p: Program) -> None:
        p.spend(10).launch(GEMM, 50)
        if p.launched == 3:
            p.launch_slowly("late", 800)

    found = step_us(program(step), "warm_up")
    assert found is not None
    assert found < 120


def test_nothing_is_warmed_up_where_nothing_loads() -> None:
    """What an operator does for a kernel that is new in each step is no loading of it."""

    def step(p: Program) -> None:
        p.spend(10).launch(GEMM, 50)
        within(p, "aten::tan", lambda p: p.spend(800).launch(f"kernel_{p.launched}", 5))

    assert step_us(program(step), "warm_up") is None


def test_what_is_new_in_every_step_cannot_be_warmed_up() -> None:
    def step(p: Program) -> None:
        p.spend(10).launch(GEMM, 50).launch_slowly(f"kernel_{p.launched}", 800)

    assert step_us(program(step), "warm_up") is None


def test_what_a_library_runs_around_its_matrix_kernel_is_not_merged() -> None:
    def convolution(p: Program) -> None:
        p.launch(LAYOUT, 20).launch(GEMM, 50).launch(LAYOUT, 20)

    def step(p: Program) -> None:
        within(p, "aten::cudnn_convolution", convolution)
        within(p, "aten::add_", lambda p: p.launch(ADD, 20))
        within(p, "aten::relu", lambda p: p.launch(ADD, 20))

    tape = make_tape(program(step).rated)
    assert tape is not None
    runs = find_runs(tape, FUSIBLE)
    assert len(runs.first) == tape.steps
    assert int((runs.number >= 0).sum()) == 2 * tape.steps


def test_a_norm_after_a_norm_is_a_kernel_of_its_own() -> None:
    def step(p: Program) -> None:
        for _ in range(3):
            p.launch(ADD, 20).launch(REDUCE, 20).launch(ADD, 20)
        p.launch(GEMM, 50)

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert len(find_runs(tape, FUSIBLE).first) == 3 * tape.steps


def test_the_recorders_end_is_not_the_programs_work() -> None:
    steps = iter(range(99))

    def step(p: Program) -> None:
        p.spend(20).launch(GEMM, 10).spend(20).launch(GEMM, 10)
        if next(steps) == 5:
            p.spend(3000)

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert sum(tape.tail) < 100_000


def test_microbatches_of_a_pipelines_stage_are_not_joined() -> None:
    """As one call they would keep the other stages waiting: the schedule is why they are several."""

    def step(p: Program, *, sent: bool) -> None:
        within(p, "aten::unbind", lambda p: p.spend(5), shapes=f"[[{ITEMS}, 64, 384], []]")
        for _ in range(ITEMS):
            within(p, "aten::unsqueeze", lambda p: p.spend(2), shapes="[[64, 384], []]")
            call(p)
            if sent:
                within(p, "c10d::send", lambda p: p.spend(20).launch(SEND, 3))

    alone = batch_calls.offer(program(partial(step, sent=False)))
    assert alone is not None
    assert alone.scenario.id == "batch_calls"
    assert batch_calls.offer(program(partial(step, sent=True))) is None


@pytest.mark.parametrize(
    ("looked_up", "written_us", "kept"),
    [(100_000, 0, True), (12_000_000, 0, False), (100_000, 5000, False)],
    ids=["few of many numbers", "most of the numbers", "the host may have written it"],
)
def test_numbers_that_the_host_cannot_have_written_stay_where_few_are_looked_up(
    looked_up: int, written_us: float, *, kept: bool
) -> None:
    def bring(p: Program) -> None:
        copy(p, 900, CopyKind.HOST_TO_DEVICE, 1 << 26, MemoryKind.PAGEABLE).sync()

    def step(p: Program) -> None:
        p.spend(written_us)
        within(p, "aten::to", bring, shapes="[[16777216], []]")
        found = f"[[{looked_up}]]"
        index = "[[16777216], []]"
        within(p, "aten::index", lambda p: p.spend(10).launch(ADD, 40), shapes=index)
        within(p, "aten::mul", lambda p: p.spend(10).launch(ADD, 40), shapes=found)

    assert (step_us(program(step), "keep_on_device") is not None) == kept
