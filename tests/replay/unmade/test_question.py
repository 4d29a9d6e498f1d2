"""What can be asked."""

from __future__ import annotations

import pytest

from traceanalyzer.replay.unmade.question import Amount, Question, question_of


def test_an_amount_is_a_factor_or_a_number() -> None:
    assert Amount.of("2x").from_size(32) == 64
    assert Amount.of("0.5X").from_size(3) == 2
    assert Amount.of("64").from_size(32) == 64
    assert Amount.of("0.01x").from_size(8) == 1


@pytest.mark.parametrize("text", ["", "x2", "-1", "0", "2.5", "1e3", "0x", "99999999", "5000x"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|between"):
        Amount.of(text)


def test_a_question_says_what_it_asks() -> None:
    asked = question_of(batch="2x", precision="bf16", gpu="H200")
    assert str(asked) == "batch 2x, precision bf16, gpu H200"
    assert asked.changes_shapes
    assert question_of() == Question()
    assert str(Question()) == "as recorded"
    assert Question().is_empty


def test_formats_and_ranks_are_checked() -> None:
    with pytest.raises(ValueError, match="none of bf16"):
        question_of(precision="int3")
    with pytest.raises(ValueError, match="between 1 and"):
        question_of(ranks=0)
