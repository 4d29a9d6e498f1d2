"""Gradients that no optimizer takes: where the backward pass could end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from traceanalyzer.diagnosis.remedies.kernels import freeze_parameters
from traceanalyzer.replay.changes.gradients.unread_gradients import unread_gradients
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

HEAD = "[10, 512]"
LAYER = "[512, 512]"
LAYERS = 12
LAYER_US = 200
DISPATCH_US = 14
"""What the host takes for one product, of which the device takes longer."""


def gradient(p: Program, shape: str, us: float = LAYER_US) -> None:
    """A product's backward pass, and the gradient of its weights."""
    node = "autograd::engine::evaluate_function: MmBackward0"
    within(p, node, lambda p: p.spend(10).launch(GEMM, us))

    def accumulate(p: Program) -> None:
        within(p, "torch::autograd::AccumulateGrad", lambda p: p.spend(2), shapes=f"[{shape}]")

    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    within(p, engine, accumulate)


def update(p: Program, listed: str) -> None:
    def step(p: Program) -> None:
        columns = {"shapes": listed, "dtypes": p.code('["TensorList", "TensorList"]')}
        launch = "void multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor>"
        within(p, "aten::_fused_adamw_", lambda p: p.spend(10).launch(launch, 5), **columns)

    start = p.now
    step(p.spend(1))
    p.spend(1)
    p.annotation("Optimizer.step#AdamW.step", start, p.now)


def trained(p: Program, listed: str, order: Sequence[str]) -> None:
    for _ in range(LAYERS + 1):
        within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, LAYER_US))
    for shape in order:
        gradient(p, shape)
    update(p, listed)


def learned(listed: str, order: Sequence[str]) -> Measurements:
    return program(partial(trained, listed=listed, order=order))


def test_the_backward_pass_ends_with_the_last_gradient_that_is_taken() -> None:
    m = learned(f"[[{HEAD}], [{HEAD}]]", [HEAD, *[LAYER] * LAYERS])
    tape = make_tape(m.rated)
    assert tape is not None
    unread = unread_gradients(tape)
    assert unread is not None
    assert unread.gradients == LAYERS
    left = step_us(m, "freeze_parameters")
    assert left == pytest.approx((LAYERS + 2) * (LAYER_US + 1), rel=0.05)
    offer = freeze_parameters.offer(m)
    assert offer is not None
    assert f"{LAYERS} gradients" in (offer.action.pytorch or "")


@pytest.mark.parametrize(
    ("listed", "order"),
    [
        (f"[[{HEAD}{f', {LAYER}' * LAYERS}], []]", [HEAD, *[LAYER] * LAYERS]),
        (f"[[{HEAD}], []]", [*[LAYER] * LAYERS, HEAD]),
        ("[[], []]", [HEAD, *[LAYER] * LAYERS]),
        (f"[[{LAYER}], []]", [HEAD, *[LAYER] * LAYERS]),
        (f"[[{HEAD}], []]", [HEAD, *[LAYER] * 4]),
    ],
    ids=["all are trained", "the first layer is", "not recorded", "one of them", "few"],
)
def test_what_may_be_taken_stays(listed: str, order: list[str]) -> None:
    tape = make_tape(learned(listed, order).rated)
    assert tape is not None
    assert unread_gradients(tape) is None
