"""Gradients of weights that nobody takes, in the middle of a backward pass."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, step_us, within
from tests.replay.changes.test_unread_gradients import LAYER_US, gradient, update
from traceanalyzer.diagnosis.remedies.kernels import freeze_parameters
from traceanalyzer.replay.changes.gradients.weights_passed import weights_passed
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

HEAD = "[10, 512]"
WEIGHTS = "[64, 32, 3, 3]"
BIAS = "[64]"
JUDGES = 6
DATA_US = 300
SUM_US = 30
ADD_US = 20
CONVOLVED = "autograd::engine::evaluate_function: ConvolutionBackward0"
MULTIPLIED = "autograd::engine::evaluate_function: MmBackward0"
ENGINE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def added_up(p: Program, shape: str) -> None:
    def add(p: Program) -> None:
        p.spend(1)
        within(p, "aten::add_", lambda p: p.spend(2).launch(ADD, ADD_US))
        p.spend(1)

    def accumulate(p: Program) -> None:
        within(p.spend(1), "torch::autograd::AccumulateGrad", add, shapes=f"[{shape}]")
        p.spend(1)

    within(p, ENGINE, accumulate)


def convolved(p: Program) -> None:
    """The gradients of a convolution's data, its weights and its bias."""

    def kernels(p: Program) -> None:
        p.spend(5).launch("sm90_xmma_dgrad_implicit_gemm_bf16bf16", DATA_US)
        p.spend(5).launch("sm90_xmma_wgrad_implicit_gemm_bf16bf16", LAYER_US)

    def node(p: Program) -> None:
        p.spend(1)
        shapes = f"[[8, 64, 9, 9], [8, 32, 9, 9], {WEIGHTS}, []]"
        within(p, "aten::convolution_backward", kernels, shapes=shapes)
        within(p, "aten::sum", lambda p: p.spend(5).launch(ADD, SUM_US))

    within(p, CONVOLVED, node)


def multiplied(p: Program) -> None:
    """The gradients of a product's data, and of its weights of [64, 32], turned."""

    def node(p: Program) -> None:
        for shapes, us in (("[[8, 64], [64, 32]]", DATA_US), ("[[32, 8], [8, 64]]", LAYER_US)):
            within(p, "aten::mm", lambda p, us=us: p.spend(5).launch(GEMM, us), shapes=shapes)

    within(p, MULTIPLIED, node)


def judged(p: Program, listed: str, kind: str) -> None:
    within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, LAYER_US))
    for _ in range(JUDGES):
        if kind == "products":
            multiplied(p)
            added_up(p, "[64, 32]")
            added_up(p, BIAS)
            continue
        convolved(p)
        for shape in (WEIGHTS, BIAS):
            (gradient if kind == "new" else added_up)(p, shape)
    (added_up if kind == "all added up" else gradient)(p, HEAD)
    update(p, listed)


def learned(kind: str, listed: str = f"[[{HEAD}], [{HEAD}]]") -> Measurements:
    return program(partial(judged, listed=listed, kind=kind))


@pytest.mark.parametrize(("kind", "sum_us"), [("convolutions", SUM_US), ("products", 0)])
def test_gradients_that_are_added_up_for_nobody_are_gone(kind: str, sum_us: int) -> None:
    m = learned(kind)
    tape = make_tape(m.rated)
    assert tape is not None
    passed = weights_passed(tape)
    assert passed is not None
    assert passed.gradients == 2 * JUDGES
    gone_us = float(tape.duration[passed.ops].sum()) / tape.steps / 1e3
    assert gone_us == pytest.approx(JUDGES * (LAYER_US + sum_us + 2 * ADD_US))
    left = step_us(m, "freeze_parameters")
    assert left == pytest.approx(2 * LAYER_US + JUDGES * DATA_US, rel=0.05)
    offer = freeze_parameters.offer(m)
    assert offer is not None
    assert "no_grad" not in (offer.action.pytorch or ""), "the gradient has to pass"


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        ("all added up", f"[[{HEAD}], [{HEAD}]]"),
        ("convolutions", "[[], []]"),
        ("convolutions", f"[[{HEAD}, {WEIGHTS}], []]"),
        ("new", f"[[{HEAD}{f', {WEIGHTS}, {BIAS}' * JUDGES}], []]"),
    ],
    ids=["so are those that are taken", "not recorded", "one more is trained", "all are trained"],
)
def test_where_it_is_not_told_who_takes_them_they_stay(kind: str, listed: str) -> None:
    tape = make_tape(learned(kind, listed).rated)
    assert tape is not None
    assert weights_passed(tape) is None
