"""Loops that take the items of a batch, told from those that go through time or parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.diagnosis.test_remedies import GEMM, Program, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.replay.patterns.items import (
    FEWEST_ITEMS,
    item_starts,
    single_tokens,
    takes_items,
)

ITEMS = 6


def pick(p: Program, number: int, dimension: int = 0) -> None:
    values = p.code(f'["", "{dimension}", "{number}"]')
    within(
        p,
        "aten::select",
        lambda p: p.spend(2),
        shapes=f"[[{ITEMS}, 8, 16], [], []]",
        concrete=values,
    )


def iterated(p: Program, items: int = ITEMS) -> None:
    """for item in batch: model(item[None])"""
    within(
        p,
        "aten::unbind",
        lambda p: p.spend(2),
        shapes=f"[[{ITEMS}, 8, 16], []]",
        concrete=p.code('["", "0"]'),
    )
    for _ in range(items):
        within(
            p,
            "aten::unsqueeze",
            lambda p: p.spend(2),
            shapes="[[8, 16], []]",
            concrete=p.code('["", "0"]'),
        )
        call(p, "mm", "[8, 16]", "[16, 16]", kernel=GEMM)


def numbered(p: Program, numbers: list[int], dimension: int = 0) -> None:
    """for i in numbers: model(batch[i])"""
    for number in numbers:
        pick(p, number, dimension)
        call(p, "mm", "[8, 16]", "[16, 16]", kernel=GEMM)


@pytest.mark.parametrize(
    ("step", "starts", "takes"),
    [
        (iterated, ITEMS, True),
        (lambda p: iterated(p, ITEMS - 1), 0, True),
        (lambda p: numbered(p, list(range(ITEMS))), ITEMS, True),
        (lambda p: numbered(p, list(range(FEWEST_ITEMS - 1))), 0, False),
        (lambda p: numbered(p, list(range(ITEMS)), dimension=1), 0, False),
        (lambda p: numbered(p, [3, 1, 4, 0, 5], dimension=1), 0, True),
        (lambda p: call(p, "mm", "[8, 16]", "[16, 16]", kernel=GEMM), 0, False),
    ],
    ids=["iterated", "all but one", "numbered", "a few", "time", "in no order", "none"],
)
def test_which_ops_begin_an_item(step: Callable[[Program], None], starts: int, takes: bool) -> None:
    tape = tape_of(step)
    assert item_starts(tape).sum() == starts * tape.steps
    assert takes_items(tape, np.ones(len(tape.row), bool)) == takes


@pytest.mark.parametrize(("texts", "single"), [("[4, 1]", True), ("[4, 7]", False), ("[4]", False)])
def test_a_decoder_looks_up_one_token_of_each_text(texts: str, single: bool) -> None:
    def step(p: Program) -> None:
        call(p, "embedding", "[1000, 64]", texts)
        call(p, "mm", "[4, 64]", "[64, 64]", kernel=GEMM)

    tape = tape_of(step)
    assert single_tokens(tape).sum() == single * tape.steps
