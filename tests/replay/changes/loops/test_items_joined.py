"""Turns over items: what tells them from layers and time steps, and what they take as one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, Program, program
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.diagnosis.remedies.loops import batch_calls, batched_matmul
from traceanalyzer.replay.changes.loops.items_joined import turns_joined, turns_of_weights_joined
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Step = Callable[[Program], object]

ITEMS = 12


def taken_apart(p: Program, *shapes: str) -> None:
    for shape in shapes:
        call(p, "unbind", shape, "[]", concrete=p.code('["", "0"]'))


def turns(p: Program, turn: Sequence[tuple[str, ...]], count: int = ITEMS) -> None:
    for _ in range(count):
        for name, *shapes in turn:
            call(p, name, *shapes, kernel=GEMM)


def stacked(p: Program, shape: str, count: int = ITEMS) -> None:
    call(p, "stack", f"[{', '.join([shape] * count)}]", "[]")


def questions(p: Program, *, kept: bool = True) -> None:
    """Each is looked up in the same vectors."""
    taken_apart(p, f"[{ITEMS}, 128]")
    turns(p, [("matmul", "[2000, 128]", "[128]"), ("topk", "[2000]", "[]")])
    if kept:
        stacked(p, "[8]")


EXPERT = [
    ("matmul", "[128, 512]", "[512, 1024]"),
    ("relu", "[128, 1024]"),
    ("matmul", "[128, 1024]", "[1024, 512]"),
]


def experts(p: Program, *, taken: int = 3) -> None:
    """Each has an input and weights of its own; as layers alone, weights."""
    all_ = [f"[{ITEMS}, 128, 512]", f"[{ITEMS}, 512, 1024]", f"[{ITEMS}, 1024, 512]"]
    taken_apart(p, *all_[3 - taken :])
    turns(p, EXPERT)
    stacked(p, "[128, 512]")


def carried(p: Program, turn: Sequence[tuple[str, ...]]) -> None:
    taken_apart(p, f"[{ITEMS}, 16, 64]")
    turns(p, turn)
    stacked(p, "[16, 64]")


ADDED = (("linear", "[16, 64]", "[64, 64]"), ("add", "[16, 64]", "[16, 64]"), ("tanh", "[16, 64]"))
MULTIPLIED = (("mul", "[16, 64]", "[16, 64]"), ("tanh", "[16, 64]"))
UNKNOWN = (("gru", "[16, 64]", "[16, 64]"), ("tanh", "[16, 64]"))
SCALED = (("linear", "[16, 64]", "[64, 64]"), ("mul", "[16, 64]", "[]"), ("max", "[16, 64]"))


@pytest.mark.parametrize(
    ("step", "change"), [(questions, turns_joined), (experts, turns_of_weights_joined)]
)
def test_turns_on_items_of_their_own_are_one(step: Step, change: Callable[..., object]) -> None:
    tape = tape_of(step)
    one = change(tape)
    assert one is not None
    assert step_time_ns(one) < 0.35 * step_time_ns(tape)
    other = turns_joined if change is turns_of_weights_joined else turns_of_weights_joined
    assert other(tape) is None


def test_they_are_offered_by_what_is_taken_apart() -> None:
    loop = batch_calls.offer(program(questions))
    network = batched_matmul.offer(program(experts))
    assert loop is not None
    assert network is not None
    assert "Do without the loop over items" in loop.action.pytorch
    assert "Make the networks of one shape one" in network.action.pytorch


@pytest.mark.parametrize(
    "step",
    [
        partial(questions, kept=False),
        partial(experts, taken=2),
        partial(carried, turn=ADDED),
        partial(carried, turn=MULTIPLIED),
        partial(carried, turn=UNKNOWN),
        partial(carried, turn=SCALED),
    ],
    ids=[
        "results are not put together",
        "layers whose weights are taken apart",
        "a state is added",
        "a state is multiplied by",
        "an operator that may give anything",
        "a number that may be the largest before",
    ],
)
def test_turns_that_may_need_each_other_stay(step: Step) -> None:
    tape = tape_of(step)
    assert turns_joined(tape) is None
    assert turns_of_weights_joined(tape) is None
