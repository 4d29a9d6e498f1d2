"""A text that is read again for each word that is written: with keys and values kept each word is read
alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, copy, program, step_us, within
from traceanalyzer.replay.changes.read_again import longest_again, turns_again
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind, MemoryKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

ITEMS = 4
WORDS = 1000
WIDTH = 512
PRODUCT_US = 900
ATTENTION_US = 300
LAST_US = 40
ATTENTION = "flash_fwd_kernel"


def read(p: Program, words: int, rows: int, *, learns: bool = False) -> None:
    """A call of a model with ids of so many words, whose layers work on so many."""
    ids = f"[[5000, {WIDTH}], [{ITEMS}, {words}], [], [], []]"
    data = f"[[{ITEMS}, {rows}, {WIDTH}], [{WIDTH}, {WIDTH}], [{WIDTH}]]"
    heads = ", ".join([f"[{ITEMS}, 8, {rows}, 64]"] * 3)
    types = {"dtypes": p.code('["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]')}
    within(p, "aten::embedding", lambda p: p.spend(5).launch("gather", 10), shapes=ids)
    within(
        p,
        "aten::linear",
        lambda p: p.spend(5).launch(GEMM, PRODUCT_US),
        shapes=data,
        **types,
    )
    within(
        p,
        "aten::scaled_dot_product_attention",
        lambda p: p.spend(5).launch(ATTENTION, ATTENTION_US),
        shapes=f"[{heads}]",
        **types,
    )
    last = f"[[{ITEMS}, {WIDTH}], [5000, {WIDTH}], []]"
    within(p, "aten::linear", lambda p: p.spend(5).launch(GEMM, LAST_US), shapes=last, **types)
    if learns:
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        within(p, name, lambda p: p.spend(5).launch(GEMM, PRODUCT_US))


def written(
    lengths: Sequence[int], rows: int | None = None, *, learns: bool = False
) -> Measurements:
    def step(p: Program) -> None:
        for words in lengths:
            read(p, words, rows or words, learns=learns)

    return program(step)


def again(m: Measurements) -> int:
    tape = make_tape(m.rated)
    assert tape is not None
    return len(turns_again(tape))


def test_all_but_the_first_call_read_one_word() -> None:
    m = written([WORDS, WORDS + 1, WORDS + 2])
    assert again(m) == 6 * 2
    tape = make_tape(m.rated)
    assert tape is not None
    assert longest_again(tape) == WORDS + 2
    left = step_us(m, "no_recompute")
    first = PRODUCT_US + ATTENTION_US
    assert left == pytest.approx(first + 3 * LAST_US, rel=0.1)


@pytest.mark.parametrize(
    "m",
    [
        written([WORDS, WORDS, WORDS]),
        written([WORDS, WORDS + 7, WORDS + 30]),
        written([4, 5, 6]),
        written([WORDS, WORDS + 1, WORDS + 2], learns=True),
    ],
    ids=["one length", "other texts", "few words", "training"],
)
def test_other_texts_are_not_read_again(m: Measurements) -> None:
    assert again(m) == 0


@pytest.mark.parametrize("words", [1, None], ids=["the new word alone", "all ids"])
def test_texts_that_the_host_copies_whole_are_other_data(words: int | None) -> None:
    """Data sorted by their length."""

    def step(p: Program) -> None:
        for length in range(WORDS, WORDS + 3):
            copied = 8 * ITEMS * (words or length)
            memory = (CopyKind.HOST_TO_DEVICE, copied, MemoryKind.PAGEABLE)
            within(p, "aten::to", lambda p, memory=memory: copy(p.spend(5), 3, *memory))
            read(p, length, length)

    assert again(program(step)) == (6 * 2 if words else 0)


def test_layers_that_get_one_word_stay_as_they_are() -> None:
    """The cache is there already: ids are kept, and looked up, whole."""
    m = written([WORDS, WORDS + 1, WORDS + 2], rows=1)
    left = step_us(m, "no_recompute")
    assert left is not None
    assert left == pytest.approx(3 * (PRODUCT_US + ATTENTION_US + LAST_US), rel=0.1)
