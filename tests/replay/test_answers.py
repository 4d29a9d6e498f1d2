"""Tests that the program makes only to decide by them, and ids made unique only to be looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, step_us, within
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.changes.syncs.answers import answers
from traceanalyzer.replay.changes.syncs.unique_ids import made_unique
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

ROUNDS = 6
DISPATCH_US = 24.0
FLOATS = "[64, 8]"


def call(p: Program, name: str, types: str, *shapes: str) -> None:
    columns = {"shapes": f"[{', '.join(shapes)}]", "dtypes": p.code(types)}
    kernel = GEMM if name == "aten::mm" else ADD
    within(p, name, lambda p: p.spend(20).launch(kernel, 2), **columns)


def decide(p: Program, types: str = '["bool"]') -> None:
    columns = {"shapes": "[[]]", "dtypes": p.code(types)}

    def read(p: Program) -> None:
        copy(p.spend(20), 2, CopyKind.DEVICE_TO_HOST, 1).sync()

    within(p, "aten::is_nonzero", read, **columns)


def validated(p: Program) -> None:
    """A distribution's support: not negative, and its rows add up to 1 within a tolerance."""
    call(p, "aten::mm", '["float", "float"]', FLOATS, "[8, 8]")
    call(p, "aten::ge", '["float", "Scalar"]', FLOATS, "[]")
    call(p, "aten::sum", '["float"]', FLOATS)
    call(p, "aten::sub", '["float", "Scalar"]', "[64]", "[]")
    call(p, "aten::abs", '["float"]', "[64]")
    call(p, "aten::lt", '["float", "Scalar"]', "[64]", "[]")
    call(p, "aten::bitwise_and", '["bool", "bool"]', "[64, 8]", "[64, 1]")
    call(p, "aten::all", '["bool"]', FLOATS)
    decide(p)


def finite(p: Program) -> None:
    """`assert x.isfinite().all()`."""
    call(p, "aten::mm", '["float", "float"]', FLOATS, "[8, 8]")
    call(p, "aten::isfinite", '["float"]', FLOATS)
    call(p, "aten::all", '["bool"]', FLOATS)
    decide(p)


def masked(p: Program) -> None:
    """`if mask.any(): x = torch.where(mask, ...)`: the mask is of use, `any` is not."""
    call(p, "aten::mm", '["float", "float"]', FLOATS, "[8, 8]")
    call(p, "aten::gt", '["float", "Scalar"]', FLOATS, "[]")
    call(p, "aten::any", '["bool"]', FLOATS)
    decide(p)
    call(p, "aten::where", '["bool", "float", "float"]', FLOATS, FLOATS, FLOATS)


def number(p: Program) -> None:
    """What is read is a number."""
    call(p, "aten::mm", '["float", "float"]', FLOATS, "[8, 8]")
    call(p, "aten::sum", '["float"]', FLOATS)
    decide(p, '["float"]')


@pytest.mark.parametrize(("turn", "left"), [(validated, 1), (finite, 1), (masked, 3), (number, 3)])
def test_a_test_for_the_host_alone_is_gone_with_its_answer(turn: object, left: int) -> None:
    """`left` are the launches of a turn that stay, a read among them where no answer is read."""

    def step(p: Program) -> None:
        for _ in range(ROUNDS):
            turn(p)  # type: ignore[operator]

    m = program(step)
    tape = make_tape(m.rated)
    assert tape is not None
    stay = ~answers(tape)[tape.event]
    assert int(stay.sum()) == left * ROUNDS * tape.steps


def untyped(p: Program, name: str, *shapes: str) -> None:
    """An operator as `emit_nvtx` writes it, with shapes and without element types."""
    within(p, name, lambda p: p.spend(20).launch(ADD, 2), shapes=f"[{', '.join(shapes)}]")


def decide_untyped(p: Program) -> None:
    def read(p: Program) -> None:
        copy(p.spend(20), 2, CopyKind.DEVICE_TO_HOST, 1).sync()

    within(p, "aten::is_nonzero", read, shapes="[[]]")


def asked_twice(p: Program) -> None:
    """`if g.isnan().any() or g.isinf().any()`: what the second test takes are numbers."""
    for test in ("aten::isnan", "aten::isinf"):
        untyped(p, test, FLOATS)
        untyped(p, "aten::any", FLOATS)
        decide_untyped(p)


def masked_untyped(p: Program) -> None:
    untyped(p, "aten::gt", FLOATS, "[]")
    untyped(p, "aten::any", FLOATS)
    decide_untyped(p)
    untyped(p, "aten::where", FLOATS, FLOATS, FLOATS)


def number_untyped(p: Program) -> None:
    untyped(p, "aten::gt", FLOATS, "[]")
    untyped(p, "aten::sum", FLOATS)
    decide_untyped(p)


@pytest.mark.parametrize(
    ("turn", "left"), [(asked_twice, 0), (masked_untyped, 2), (number_untyped, 3)]
)
def test_names_tell_tests_where_types_were_not_recorded(turn: object, left: int) -> None:
    """The mask that `where` takes stays; a sum that is read is no test."""

    def step(p: Program) -> None:
        for _ in range(ROUNDS):
            turn(p)  # type: ignore[operator]
            untyped(p, "aten::mm", "[512, 8]", "[8, 8]")

    tape = make_tape(program(step).rated)
    assert tape is not None
    stay = ~answers(tape)[tape.event]
    assert int(stay.sum()) == (left + 1) * ROUNDS * tape.steps


def test_leaving_tests_out_saves_what_they_cost() -> None:
    def step(p: Program) -> None:
        for _ in range(ROUNDS):
            validated(p)

    m = program(step)
    assert remove_syncs.offer(m).action.pytorch == text("remove_syncs", "no_tests")
    assert step_us(m, "remove_syncs") == pytest.approx(ROUNDS * DISPATCH_US, rel=0.2)


def looked_up(p: Program, place: str = "aten::index") -> None:
    call(p, "aten::_unique2", '["long int"]', "[64]")
    copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 8).sync()
    call(p, "aten::embedding", '["float", "long int"]', "[100, 8]", "[37]")
    call(p, place, '["float", ""]', "[37, 8]", "[]")


@pytest.mark.parametrize("place", ["aten::index", "aten::mm"])
def test_ids_are_looked_up_as_they_are(place: str) -> None:
    """Where a model works on the rows of different ids there is a point in having each once."""

    def step(p: Program) -> None:
        for _ in range(ROUNDS):
            looked_up(p, place)

    tape = make_tape(program(step).rated)
    assert tape is not None
    gone = made_unique(tape)[tape.event]
    # The lookup stays; the copy here is outside of any operator.
    assert int(gone.sum()) == (2 * ROUNDS * tape.steps if place == "aten::index" else 0)
