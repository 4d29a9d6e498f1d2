"""What each turn of a loop over cells does besides, and what autograd keeps for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from traceanalyzer.replay.changes.loops.unfused_rnn import recurrent_fused
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

TURNS = 16
DISPATCH_US = 20
EACH_US = 24
"""The same with the call that launches."""
SEQUENCE = f"[64, {TURNS}, 12]"
CELL = ("[64, 12]", "[[64, 32], [64, 32]]", "[128, 12]", "[128, 32]")
CELL_LAUNCH_US = 12
LEFT_US = 60
"""Time for one head, and what a step begins and ends with."""


def call(p: Program, name: str, *shapes: str, launches: int = 1) -> None:
    def launch(p: Program) -> None:
        for _ in range(launches):
            p.spend(DISPATCH_US).launch(GEMM if "linear" in name else ADD, 2)

    within(p, f"aten::{name}", launch, shapes=f"[{', '.join(shapes)}]")


def head(p: Program) -> None:
    call(p, "linear", "[64, 32]", "[2, 32]", "[2]")


def attention(p: Program) -> None:
    call(p, "bmm", "[64, 1, 32]", "[64, 32, 9]")


def fed_back(p: Program) -> None:
    call(p, "cat", "[[64, 6], [64, 6]]", "[]")


@pytest.mark.parametrize(
    ("besides", "apart", "each_us"),
    [
        (head, True, 0),
        (head, False, EACH_US),
        (attention, True, EACH_US),
        (fed_back, True, EACH_US),
    ],
)
def test_a_head_for_each_time_step_is_one_for_all(
    besides: object, apart: bool, each_us: int
) -> None:
    """Where parts of a sequence come in, and nothing looks at other rows or goes on from what came
    out."""

    def step(p: Program) -> None:
        if apart:
            within(p, "aten::unbind", lambda p: p.spend(1), shapes=f"[{SEQUENCE}, []]")
        for _ in range(TURNS):
            call(p, "lstm_cell", *CELL, launches=4)
            besides(p)  # type: ignore[operator]
        call(p, "stack", "[]", "[]")

    left = recurrent_fused(tape_of(step))
    assert left is not None
    expected_us = TURNS * (CELL_LAUNCH_US + each_us)
    assert step_time_ns(left) / 1e3 == pytest.approx(expected_us, abs=LEFT_US)
