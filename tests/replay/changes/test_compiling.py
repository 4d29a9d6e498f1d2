"""What compiled code costs the host, what it merges, and what it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, REDUCE, program, step_us, within
from traceanalyzer.replay.changes.compiling import (
    BATCH_NORM_LAUNCHES,
    INFERENCE,
    LEAST_REGION_LAUNCHES,
    TRAINING,
    compiled,
    of_model,
)
from traceanalyzer.replay.changes.fusion import RANDOM_NUMBERS, Reading
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

    Change = Callable[[Tape], Tape | None]

usual = compiled(Reading.TYPICAL)
LAUNCH_US = 20.0
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
DRAW = "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>()"
NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>"


def op(p: Program, name: str, kernel: str, us: float = 2.0, sequence: int = -1) -> Program:
    """An operator that launches a kernel, of so much dispatch."""
    return within(p, name, lambda p: p.spend(LAUNCH_US - 4).launch(kernel, us), sequence=sequence)


def layers(p: Program, count: int, small: int, sequence: int = -1) -> Program:
    """Products with so many small operators after each."""
    for _ in range(count):
        op(p, "aten::mm", GEMM, sequence=sequence)
        for _ in range(small):
            op(p, "aten::add", ADD, sequence=sequence)
    return p


def backward(p: Program, count: int, small: int = 0) -> Program:
    return within(p, BACKWARD, lambda p: layers(p, count, small))


def tape_of(step: Callable[[Program], object]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def host_us(tape: Tape | None) -> float:
    """Dispatch of a step, us."""
    assert tape is not None
    return float(tape.dispatch.sum()) / tape.steps / 1e3


def of_launches(tape: Tape, change: Change) -> float:
    """What the host does in a step, in launches as they were."""
    return host_us(change(tape)) / (host_us(tape) / (len(tape.row) / tape.steps))


def test_small_operators_between_products_are_one_launch() -> None:
    tape = tape_of(lambda p: layers(p, 10, 4))
    for reading in (Reading.OPTIMISTIC, Reading.TYPICAL):
        cost = INFERENCE[reading]
        assert of_launches(tape, compiled(reading)) == pytest.approx(
            20 * cost.launch + cost.call, rel=0.01
        )
    fast, typical, slow = (host_us(compiled(reading)(tape)) for reading in Reading)
    assert fast < typical < slow


def test_a_layer_of_a_product_and_one_operator_gains_no_host_time() -> None:
    tape = tape_of(lambda p: (layers(p, 10, 1), op(p, "aten::add", ADD)))
    assert host_us(usual(tape)) > host_us(tape)


def test_a_reduction_among_them_is_a_launch_of_its_own() -> None:
    def step(p: Program) -> None:
        for _ in range(10):
            layers(p, 1, 2)
            op(p, "aten::amax", REDUCE)
            op(p, "aten::add", ADD)

    cost = INFERENCE[Reading.TYPICAL]
    assert of_launches(tape_of(step), usual) == pytest.approx(
        30 * cost.launch + cost.call, rel=0.01
    )


def test_numbers_that_are_drawn_take_as_long_as_before() -> None:
    def step(p: Program) -> None:
        op(p, "aten::mm", GEMM)
        for _ in range(10):
            op(p, "aten::randn", DRAW, us=12.0)
            op(p, "aten::add", ADD)
            op(p, "aten::add", ADD)

    tape = tape_of(step)
    left = usual(tape)
    assert left is not None
    drawn = kernels_named(left, RANDOM_NUMBERS)
    assert np.count_nonzero(drawn) == 10 * left.steps
    assert left.duration[drawn].tolist() == [12_000] * (10 * left.steps)
    cost = INFERENCE[Reading.TYPICAL]
    assert of_launches(tape, usual) == pytest.approx(21 * cost.launch + cost.call, rel=0.01)


def test_training_pays_for_a_call_once() -> None:
    tape = tape_of(lambda p: (layers(p, 10, 4, 1), backward(p, 20, 4)))
    cost = TRAINING[Reading.TYPICAL]
    assert of_launches(tape, usual) == pytest.approx(60 * cost.launch + cost.call, rel=0.01)


def test_what_autograd_does_not_record_is_not_the_models() -> None:
    def step(p: Program) -> None:
        layers(p, 10, 4, 1)
        backward(p, 10)
        layers(p, 0, 30)  # an average of the weights
        within(p, "Optimizer.step#SGD.step", lambda p: layers(p, 0, 30), kind=RangeKind.ANNOTATION)
        layers(p, 10, 0, 1)  # a norm of each gradient

    tape = tape_of(step)
    assert int(of_model(tape).sum()) == 60 * tape.steps
    found = usual(tape)
    assert found is not None
    outside = ~of_model(tape)
    assert (found.dispatch[tape.event[outside]] == tape.dispatch[tape.event[outside]]).all()
    assert (found.duration[outside] == tape.duration[outside]).all()


def test_reads_of_single_values_are_no_part_of_a_model() -> None:
    def step(p: Program) -> None:
        layers(p, 10, 4)
        for _ in range(20):
            p.sync()
            layers(p, 0, LEAST_REGION_LAUNCHES - 1)

    tape = tape_of(step)
    assert int(of_model(tape).sum()) == 50 * tape.steps


def test_each_wait_within_the_model_is_another_call() -> None:
    def step(p: Program, waits: bool) -> None:
        for _ in range(5):
            layers(p, 2, 5)
            if waits:
                p.sync()

    cost = INFERENCE[Reading.TYPICAL]
    without, cut = (of_launches(tape_of(lambda p, w=w: step(p, w)), usual) for w in (False, True))  # type: ignore[misc]
    assert without == pytest.approx(20 * cost.launch + cost.call, rel=0.01)
    assert cut > without + 3 * cost.call


def test_a_trained_batch_norm_gains_nothing_and_costs_launches() -> None:
    def step(p: Program, name: str) -> None:
        for _ in range(5):
            layers(p, 1, 3, 1)
            op(p, name, NORM, 50, 1)
        within(p, BACKWARD, lambda p: (layers(p, 10, 0), op(p, f"{name}_backward", NORM, 50)))

    norm, other = (
        tape_of(lambda p, name=name: step(p, name))
        for name in ("aten::cudnn_batch_norm", "aten::my_norm")
    )  # type: ignore[misc]
    found = usual(norm)
    assert found is not None
    norms = norm.duration == 50_000
    assert (found.duration[norms] == 50_000).all()
    more = of_launches(norm, usual) - of_launches(other, usual)
    assert more >= 6 * BATCH_NORM_LAUNCHES * TRAINING[Reading.TYPICAL].launch - 1


def test_gradients_of_gradients_and_recurrent_layers_are_not_compiled() -> None:
    def twice(p: Program) -> None:
        layers(p, 10, 4, 1)
        within(p, BACKWARD, lambda p: (layers(p, 1, 0), op(p, "aten::tanh_backward", ADD, 2, 3)))

    assert usual(tape_of(twice)) is None

    def recurrent(p: Program) -> None:
        within(p, "aten::lstm", lambda p: layers(p, 20, 4))

    assert usual(tape_of(recurrent)) is None


def test_a_convolution_keeps_its_bias() -> None:
    def step(p: Program, name: str) -> None:
        for _ in range(10):
            within(p, name, lambda p: (op(p, "aten::mm", GEMM), op(p, "aten::add_", ADD, 100)))
            op(p, "aten::relu", ADD, 100)

    alone = usual(tape_of(lambda p: step(p, "aten::_convolution")))
    merged = usual(tape_of(lambda p: step(p, "aten::linear")))
    assert alone is None
    assert merged is not None
    assert int(np.count_nonzero(merged.duration)) < len(merged.duration)


def test_nothing_to_merge_is_nothing_to_promise() -> None:
    assert step_us(program(lambda p: layers(p, 20, 0)), "compile") is None
