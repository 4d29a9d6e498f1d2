"""Autograd's nodes where no backward pass follows."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from tests.replay.changes.test_unread_gradients import gradient
from traceanalyzer.diagnosis.remedies.kernels import freeze_parameters
from traceanalyzer.replay.changes.gradients.unread_graph import NODE_SHARE, unread_graph
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_times_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

LAYERS = 40
HOST_US = 20
LAUNCH_US = 4
KERNEL_US = 3
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, silu>"


def layer(p: Program, sequence: int, *, in_place: bool = False) -> None:
    """A product, and what overwrites its result, which is copied before."""
    launch = partial(lambda p, name: p.spend(HOST_US).launch(name, KERNEL_US), name=GEMM)
    within(p, "aten::linear", launch, sequence=sequence)
    if not in_place:
        return

    def overwrite(p: Program) -> None:
        within(p, "aten::clone", lambda p: p.spend(HOST_US).launch(ELEMENTWISE, KERNEL_US))
        p.spend(HOST_US).launch(ELEMENTWISE, KERNEL_US)

    within(p, "aten::silu_", overwrite, sequence=-1 if sequence < 0 else sequence + 1)


def evaluated(p: Program, numbers: Iterator[int], *, in_place: bool = False) -> None:
    for _ in range(LAYERS):
        layer(p, next(numbers), in_place=in_place)


def of(numbers: Iterator[int], *, in_place: bool = False) -> Measurements:
    return program(partial(evaluated, numbers=numbers, in_place=in_place))


def recorded_us(m: Measurements) -> float:
    tape = make_tape(m.rated)
    assert tape is not None
    return step_times_ns([tape])[0] / 1e3


def test_a_part_of_each_operator_goes_where_no_backward_pass_follows() -> None:
    m = of(count(1))
    tape = make_tape(m.rated)
    assert tape is not None
    graph = unread_graph(tape)
    assert graph is not None
    assert graph.nodes == LAYERS
    saved = LAYERS * (HOST_US + LAUNCH_US) * NODE_SHARE
    left = step_us(m, "freeze_parameters")
    assert left == pytest.approx(recorded_us(m) - saved, rel=0.05)
    offer = freeze_parameters.offer(m)
    assert offer is not None
    assert "torch.inference_mode()" in (offer.action.pytorch or "")


def test_copies_of_what_is_overwritten_go() -> None:
    m = of(count(1, 2), in_place=True)
    left = step_us(m, "freeze_parameters")
    assert left == pytest.approx(2 * LAYERS * (1 - NODE_SHARE) * (HOST_US + LAUNCH_US), rel=0.05)


@pytest.mark.parametrize("number", [-1, 7], ids=["no gradients", "no weight asks for one"])
def test_without_nodes_nothing_is_said(number: int) -> None:
    m = of(iter(lambda: number, None))
    assert freeze_parameters.offer(m) is None


def test_a_backward_pass_reads_the_nodes() -> None:
    numbers = count(1)

    def step(p: Program) -> None:
        evaluated(p, numbers)
        gradient(p, "[512, 512]")

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert unread_graph(tape) is None


@pytest.mark.parametrize("name", ["aten::native_dropout", "aten::bernoulli_"])
def test_a_model_that_learns_was_recorded_without_its_backward_pass(name: str) -> None:
    numbers = count(1)

    def step(p: Program) -> None:
        evaluated(p, numbers)
        within(p, name, lambda p: p.spend(5).launch(ELEMENTWISE, KERNEL_US))

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert unread_graph(tape) is None
