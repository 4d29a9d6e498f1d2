"""Loops that count: which of their turns may need the one before them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, Program, copy, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from tests.replay.patterns.operators import linear, op
from traceanalyzer.replay.changes.loops.items_joined import turns_joined, turns_of_weights_joined
from traceanalyzer.replay.patterns.counted_turns import may_need_each_other
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from traceanalyzer.replay.patterns.operators import Operator

TURNS = 8
LENGTHS = (7, 12, 9, 30, 8, 21, 17, 10)


def pick(number: int, dimension: int, *shape: int) -> Operator:
    return op("select", shape, [], [], values=["", str(dimension), str(number)])


def relation(k: int) -> list[Operator]:
    """Messages of the edges of one kind are added to the nodes'."""
    return [
        pick(k, 0, TURNS, 400),
        pick(k, 0, TURNS, 400),
        op("index", [2000, 64], []),
        op("matmul", [400, 64], [64, 64]),
        op("index_add", [2000, 64], [], [400], [400, 64]),
    ]


def kind_of_boxes(k: int) -> list[Operator]:
    """Boxes of a kind that are likely, of which there are other numbers each time."""
    count = LENGTHS[k]
    return [
        pick(k, 1, 1000, TURNS),
        op("gt", [1000], []),
        op("index", [1000, 4], []),
        op("nms", [count, 4], [count]),
        op("index", [count, 4], []),
    ]


def head(k: int) -> list[Operator]:
    """A network for each column of what is to be told."""
    return [
        pick(k, 1, 64, TURNS),
        linear(64, 512, 10),
        op("cross_entropy", [64, 10], [64]),
        op("add", [], []),
    ]


def scan(k: int) -> list[Operator]:
    """state = decay[:, k] * state + given[:, k]"""
    return [
        pick(k, 1, 16, TURNS, 64),
        pick(k, 1, 16, TURNS, 64),
        op("mul", [16, 64], [16, 64]),
        op("add", [16, 64], [16, 64]),
    ]


def cell(k: int) -> list[Operator]:
    """state = tanh(layer(text[:, k]) + other(state))"""
    return [
        pick(k, 1, 16, TURNS, 64),
        linear(16, 64, 64),
        linear(16, 64, 64),
        op("add", [16, 64], [16, 64]),
        op("tanh", [16, 64]),
    ]


def solver(k: int) -> list[Operator]:
    """x = x + time[k] * model(x)"""
    return [
        pick(k, 0, TURNS),
        op("conv2d", [4, 8, 32, 32], [8, 8, 3, 3]),
        op("mul", [4, 8, 32, 32], []),
        op("add", [4, 8, 32, 32], [4, 8, 32, 32]),
    ]


def words(k: int) -> list[Operator]:
    """The likeliest next word is looked up by the next turn; its shape is not known."""
    return [
        pick(k, 0, TURNS, 32),
        op("embedding", [5000, 32], [4, 1]),
        linear(4, 32, 5000),
        op("argmax", [4, 5000]),
    ]


def text(k: int) -> list[Operator]:
    """Each turn writes a word to the text that the next one reads."""
    return [
        pick(k, 0, TURNS, 35),
        op("embedding", [5000, 32], [4, k + 1]),
        op("mean", [4, k + 1, 32]),
        op("multinomial", [4, 5000]),
    ]


@pytest.mark.parametrize("turn", [relation, kind_of_boxes, head])
def test_turns_that_need_nothing_of_each_other(turn) -> None:
    assert not may_need_each_other([turn(k) for k in range(TURNS)])


@pytest.mark.parametrize("turn", [scan, cell, solver, words, text])
def test_turns_that_may_need_each_other(turn) -> None:
    assert may_need_each_other([turn(k) for k in range(TURNS)])


def counting(p: Program, *, steered: bool = False) -> None:
    """Heads for columns of a table; the program may look at what each says."""
    for k in range(TURNS):
        within(
            p,
            "aten::select",
            lambda p: p.spend(2),
            shapes=f"[[64, {TURNS}], [], []]",
            concrete=p.code(f'["", "1", "{k}"]'),
        )
        call(p, "linear", "[64, 32]", "[10, 32]", "[10]", kernel=GEMM)
        call(p, "cross_entropy", "[64, 10]", "[64]", kernel="reduce_kernel")
        if steered:
            within(p, "aten::item", lambda p: copy(p, 2, CopyKind.DEVICE_TO_HOST, 4))


def test_they_are_one() -> None:
    tape = tape_of(counting)
    joined = turns_of_weights_joined(tape)
    assert joined is not None
    assert step_time_ns(joined) < 0.4 * step_time_ns(tape)
    assert turns_joined(tape) is None


def test_they_stay_where_the_program_looks_at_what_a_turn_says() -> None:
    assert turns_of_weights_joined(tape_of(partial(counting, steered=True))) is None
