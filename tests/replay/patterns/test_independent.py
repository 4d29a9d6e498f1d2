"""Which calls of a model in a row need each other, by shapes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.replay.patterns.operators import linear, op
from traceanalyzer.replay.patterns.independent import (
    of_other_size,
    put_together,
    share_weights_only,
    takes_its_result,
)
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.patterns.repeats import Repeat

Call = list[Operator]


def run_of(*calls: Call, after: Call = ()) -> tuple[Call, Repeat]:  # type: ignore[assignment]
    operators = [one for call in calls for one in call]
    return [*operators, *after], Repeat(0, len(calls[0]), len(calls))


VIEW = [linear(8, 64, 32), op("relu", [8, 32]), linear(8, 32, 16)]
LAYER = [linear(8, 64, 32), op("relu", [8, 32]), linear(8, 32, 64)]
TIMED = [
    linear(8, 32, 64),
    linear(8, 16, 64),
    op("add", [8, 64], [8, 64]),
    linear(8, 64, 16),
]
"""A model that takes the time first, then what it gives itself."""
STEPPED = [op("sub", [8, 16], [8, 16]), *TIMED]
HEADED = [linear(8, 64, 32), linear(8, 32, 16), op("relu", [8, 16]), linear(8, 16, 16)]
"""A model whose last layer takes what its layer before gave."""
RESIDUAL = [*VIEW[:2], op("add", [8, 64], [8, 64]), linear(8, 32, 16)]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (VIEW, True),
        (LAYER, False),
        (RESIDUAL, False),
        (TIMED, False),
        (STEPPED, False),
        (HEADED, True),
    ],
)
def test_calls_that_give_another_size_do_not_need_each_other(call: Call, found: bool) -> None:
    assert of_other_size(*run_of(call, call)) == found


ROUND = [linear(8, 1, 64), linear(8, 64, 64), linear(8, 64, 16)]
"""A round of a diffusion model: the time, then what the round before gave."""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ([op("to", [8, 64]), *ROUND[:2]], True),
        ([op("to", [8, 64]), *ROUND[:2], op("full")], True),
        (VIEW, False),
        ([op("to", [1]), linear(8, 64, 32), op("sum", [8, 32])], False),
    ],
    ids=["a round", "what begins the next round is behind it", "another size", "an answer"],
)
def test_a_round_takes_what_the_round_before_gave(call: Call, found: bool) -> None:
    assert takes_its_result(call) == found


@pytest.mark.parametrize(
    ("call", "after", "found"),
    [
        (LAYER, op("lerp", [8, 64], [8, 64]), True),
        (LAYER, op("lerp", [8, 64], [1]), False),
        ([*LAYER, op("add", [8, 64], [8, 64])], op("lerp", [8, 64], [8, 64]), False),
        (TIMED, op("sub", [8, 16], [8, 16]), True),
        (STEPPED, op("sub", [8, 16], [8, 16]), False),
        (TIMED, op("sub", [8, 32], [8, 32]), False),
    ],
    ids=[
        "put together",
        "one of them",
        "worked on within",
        "the time comes first",
        "the second takes what the first gave",
        "no result",
    ],
)
def test_calls_whose_results_are_put_together(call: Call, after: Operator, found: bool) -> None:
    assert put_together(*run_of(call, call, after=[after])) == found


def crop(rows: int = 8, weights: int = 32) -> Call:
    return [linear(rows, 64, weights), op("relu", [rows, weights]), linear(rows, weights, 16)]


def collected(*rows: int) -> Operator:
    return op("stack", [[one, 16] for one in rows], [])


EVEN = [crop() for _ in range(5)]
MAPS = [[*crop(), op("upsample_bilinear2d", [8, 16])] for _ in range(5)]
"""What the last operator gives is not known by its name."""
CELLS = [[linear(8, 24, 32), linear(8, 32, 32), op("tanh", [8, 32])] for _ in range(5)]
STATE = [
    [linear(8, 24, 32), op("cat", [[8, 32], [8, 40]], []), linear(8, 72, 16)] for _ in range(5)
]


IDS = [8, 20]
WORDS = [
    op("gather", IDS, [], IDS),
    op("embedding", [1000, 64], IDS),
    op("embedding", [40, 64], IDS),
    linear(8, 64, 16),
]
NEXT_WORD = [*WORDS, op("argmax", [8, 16])]
"""A model that begins with words reads a document chunk by chunk, or writes the next word."""


@pytest.mark.parametrize(
    ("calls", "after", "found"),
    [
        ([WORDS] * 5, collected(*[8] * 5), True),
        ([NEXT_WORD] * 5, collected(*[8] * 5), False),
        (EVEN, collected(*[8] * 5), True),
        (EVEN, collected(*[8] * 4), False),
        (EVEN[:3], collected(*[8] * 3), False),
        (MAPS, op("cat", [[8, 48]] * 5, []), True),
        (MAPS, op("cat", [[8, 64]] * 5, []), False),
        ([crop(weights=32 + i) for i in range(5)], collected(*[8] * 5), False),
        ([crop(rows) for rows in (3, 9, 4, 7)], collected(3, 9, 4, 7), True),
        ([crop(rows) for rows in (3, 4, 7, 9)], collected(3, 4, 7, 9), False),
        ([[linear(8, 64, 64)] for _ in range(5)], collected(*[8] * 5), False),
        (CELLS, collected(*[8] * 5), True),
        (
            [[cell[0], op("cat", [[8, 32], [8, 40]], []), linear(8, 72, 16)] for cell in CELLS],
            collected(*[8] * 5),
            False,
        ),
    ],
    ids=[
        "chunks of words",
        "words that are written",
        "crops",
        "four of five",
        "too few",
        "maps, told by what joins them",
        "maps of the size that a call takes",
        "own weights",
        "molecules",
        "a pyramid",
        "layers",
        "cells",
        "a state",
    ],
)
def test_calls_that_share_their_weights_only(
    calls: list[Call], after: Operator, found: bool
) -> None:
    operators, run = run_of(*calls, after=[after])
    steps = np.zeros(len(operators), np.int32)
    assert share_weights_only(operators, steps, run) == found
    steps[-1] = 1
    assert not share_weights_only(operators, steps, run), (
        "another step's operator collects nothing of this one"
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ((3, 9, 4, 7, 2, 8), True),
        ((8, 4, 2, 4, 8, 4, 2, 4), False),
        ((9, 7, 4, 2, 3, 5, 8), False),
        ((3, 9, 4), False),
    ],
    ids=["items", "cycles through a pyramid", "down and up", "too few"],
)
def test_items_of_other_sizes_are_told_without_what_collects_them(
    rows: tuple[int, ...], found: bool
) -> None:
    operators, run = run_of(*map(crop, rows))
    assert share_weights_only(operators, np.zeros(len(operators), np.int32), run) == found


def added_up(*middle: Operator) -> list[Call]:
    """Calls that each add their probabilities to those of the calls before."""
    return [
        [*crop(), *middle, op("softmax", [8, 16]), op("add", [8, 16], [8, 16])] for _ in range(5)
    ]


LOSS = op("mse_loss", [8, 16], [8, 16], [], values=["", "", "1"])
NO_LOSS = op("mse_loss", [8, 16], [8, 16], [], values=["", "", "0"])
SUM = op("add", [], [], [], values=["", "", "1"])


@pytest.mark.parametrize(
    ("calls", "after", "found"),
    [
        ([[*crop(), op("softmax", [8, 16])] for _ in range(5)], collected(*[8] * 5), True),
        (added_up(), op("div", [8, 16]), True),
        (added_up()[:3], op("div", [8, 16]), False),
        ([[*crop(), LOSS, SUM] for _ in range(5)], op("ones_like", []), True),
        ([[*crop(), NO_LOSS] for _ in range(5)], op("ones_like", []), False),
        ([[*crop(), op("lerp", [8, 24], [8, 24]), *added_up()[0][-2:]]] * 5, SUM, False),
        ([[op("to", [8, 64]), *ROUND[:2], op("add", [8, 64], [8, 64])]] * 5, SUM, False),
        (
            [[*crop(), linear(8, 16, 64), op("add", [8, 64], [8, 64])] for _ in range(5)],
            SUM,
            False,
        ),
    ],
    ids=[
        "probabilities",
        "added up",
        "three of them",
        "losses",
        "losses of each",
        "a state",
        "rounds",
        "layers",
    ],
)
def test_results_that_are_added_up_are_collected(
    calls: list[Call], after: Operator, found: bool
) -> None:
    operators, run = run_of(*calls, after=[after])
    steps = np.zeros(len(operators), np.int32)
    assert share_weights_only(operators, steps, run) == found
