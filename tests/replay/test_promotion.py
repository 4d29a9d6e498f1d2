"""What autocast leaves in fp32: what is multiplied by a parameter, and what follows until the next
product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.replay.changes.precision import CAST_BYTES, kept_in_fp32
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

MAPS = "[8, 64, 56, 56]"
NUMBERS = 8 * 64 * 56 * 56
CHANNEL = "[1, 64, 1, 1]"
GATE = "[8, 64, 1, 1]"
KERNEL = "[64, 64, 3, 3]"


def left(*operators: tuple[str, ...]) -> tuple[list[bool], list[float]]:
    def step(p: Program) -> None:
        for name, *shapes in operators:
            call(p, name, *shapes, kernel=GEMM if name in ("conv2d", "linear") else ADD)

    tape: Tape | None = make_tape(program(step).rated)
    assert tape is not None
    stays, cast = kept_in_fp32(tape)
    return stays[-len(operators) :].tolist(), cast[-len(operators) :].tolist()


def test_a_frozen_norm_and_what_follows_it_stay_until_the_next_product_casts() -> None:
    stays, cast = left(
        ("conv2d", MAPS, KERNEL),
        ("mul", MAPS, CHANNEL),
        ("add", MAPS, CHANNEL),
        ("add_", MAPS, MAPS),
        ("relu_", MAPS),
        ("conv2d", MAPS, KERNEL),
        ("relu_", MAPS),
    )
    assert stays == [False, True, True, True, True, False, False]
    assert cast == [0, 0, 0, 0, 0, NUMBERS * CAST_BYTES, 0]


def test_each_product_casts_what_several_take() -> None:
    rows = "[8, 196, 384]"
    stays, cast = left(
        ("mul", rows, "[384]"),
        *[("linear", rows, "[384, 384]")] * 3,
        ("gelu", rows),
        ("linear", rows, "[384, 384]"),
    )
    assert stays == [True, False, False, False, False, False]
    assert [bool(one) for one in cast] == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    "operator",
    [
        ("mul", MAPS, GATE),
        ("mul_", MAPS, CHANNEL),
        ("mul", MAPS, "[]"),
        ("mul", "[1, 64, 56, 56]", CHANNEL),
        ("add", MAPS, MAPS),
    ],
)
def test_what_products_give_and_numbers_widen_nothing(operator: tuple[str, ...]) -> None:
    stays, _ = left(("conv2d", MAPS, KERNEL), operator, ("relu", operator[1]))
    assert stays == [False, False, False]
