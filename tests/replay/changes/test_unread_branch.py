"""A network beside the one that is trained, whose gradients nobody takes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from tests.replay.changes.test_unread_gradients import LAYER_US, gradient, update
from tests.replay.changes.test_weights_passed import added_up
from traceanalyzer.diagnosis.remedies.kernels import freeze_parameters
from traceanalyzer.replay.changes.gradients.unread_branch import unread_branch
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

STUDENT = "[384, 384]"
TEACHER = "[768, 768]"
LAYERS = 10
LONG_LIST = "[[], []]"
"""Of so many tensors the recorder tells no shapes."""
MULTIPLIED = "autograd::engine::evaluate_function: MmBackward0"
CONVOLVED = "autograd::engine::evaluate_function: ConvolutionBackward0"
TAKES_DATA = "[False, True, True]"
TAKES_ACTIVATIONS = "[True, True, True]"


def product(p: Program, count: int) -> None:
    """The backward pass of a layer: a product for its weights, and one for its input."""

    def node(p: Program) -> None:
        p.spend(1)
        for _ in range(count):
            within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, LAYER_US))

    within(p, MULTIPLIED, node)


def convolution(p: Program, mask: str) -> None:
    columns = {"concrete": p.code(f'["", "{mask}"]')}

    def node(p: Program) -> None:
        launch = "sm90_xmma_wgrad_implicit_gemm_bf16bf16"
        within(p, "aten::convolution_backward", lambda p: p.launch(launch, LAYER_US), **columns)

    within(p, CONVOLVED, node)


def taught(p: Program, teacher: str, first: str, *, student_first: bool = False) -> None:
    """A teacher's backward pass, down to its `first` layer, then that of a student; or the student's
    before it, where the teacher is called first."""
    within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, LAYER_US))
    if student_first:
        of_student(p)
    for _ in range(LAYERS):
        product(p, 2)
        added_up(p, teacher)
    if first == "product":
        product(p, 1)
    else:
        convolution(p, first)
    added_up(p, teacher)
    if not student_first:
        of_student(p)
    update(p, f"[[{STUDENT}], [{STUDENT}]]" if not student_first else LONG_LIST)


def of_student(p: Program) -> None:
    for _ in range(LAYERS):
        gradient(p, STUDENT)


def learned(teacher: str, first: str) -> Measurements:
    return program(partial(taught, teacher=teacher, first=first))


@pytest.mark.parametrize("first", [TAKES_DATA, "product"])
def test_no_backward_pass_goes_through_a_teacher(first: str) -> None:
    m = learned(TEACHER, first)
    tape = make_tape(m.rated)
    assert tape is not None
    branch = unread_branch(tape)
    assert branch is not None
    assert branch.gradients == LAYERS + 1
    left = step_us(m, "freeze_parameters")
    of_the_first = 2  # what comes before its first gradient stays
    assert left == pytest.approx((1 + of_the_first + LAYERS) * LAYER_US, rel=0.05)
    offer = freeze_parameters.offer(m)
    assert offer is not None
    assert "torch.no_grad()" in (offer.action.pytorch or "")


def test_a_teacher_that_is_called_first_has_its_backward_pass_last() -> None:
    m = program(partial(taught, teacher=TEACHER, first=TAKES_DATA, student_first=True))
    tape = make_tape(m.rated)
    assert tape is not None
    branch = unread_branch(tape)
    assert branch is not None
    assert branch.gradients == LAYERS + 1


@pytest.mark.parametrize(
    ("teacher", "first"),
    [(TEACHER, TAKES_ACTIVATIONS), (STUDENT, TAKES_DATA)],
    ids=["the gradient passes on", "a micro-batch more of the same network"],
)
def test_what_may_be_trained_stays(teacher: str, first: str) -> None:
    tape = make_tape(learned(teacher, first).rated)
    assert tape is not None
    assert unread_branch(tape) is None
