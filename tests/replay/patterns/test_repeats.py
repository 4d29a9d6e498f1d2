"""Equal stretches right after each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.test_remedies import GEMM, Program
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.replay.patterns.repeats import (
    Launching,
    Loop,
    Repeat,
    by_distance,
    codes,
    in_a_row,
    latest,
    launching,
    period_of,
)
from traceanalyzer.trace import I64


def code(text: str) -> I64:
    return np.array([ord(one) for one in text], np.int64)


@pytest.mark.parametrize(
    ("text", "period"),
    [("ababab", 2), ("abab", 2), ("aaaa", 1), ("abaab", 5), ("a", 1), ("abcab", 5)],
)
def test_after_how_many_entries_they_repeat_themselves(text: str, period: int) -> None:
    assert period_of(code(text)) == period


@given(st.text("ab", max_size=12), st.integers(1, 4))
def test_stretches_in_a_row_are_equal_and_cannot_be_more(text: str, period: int) -> None:
    entries = code(text)
    for run in in_a_row(entries, period, np.zeros(len(entries), bool)):
        parts = [text[at : at + period] for at in range(run.first, run.stop, run.period)]
        assert len(parts) == run.times
        assert set(parts) == {parts[0]}
        assert text[run.stop : run.stop + period] != parts[0]


def test_what_is_taken_is_in_no_other_run() -> None:
    taken = np.zeros(6, bool)
    taken[2] = True
    assert [run.times for run in in_a_row(code("ababab"), 2, np.zeros(6, bool))] == [3]
    assert [run.times for run in in_a_row(code("ababab"), 2, taken)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("xabcabcabcy", [Repeat(1, 3, 3)]),
        ("xababababy", []),
        ("abcabd", []),
        ("abcdefabcdef", []),
    ],
    ids=["three calls", "short ones", "another end", "long ones"],
)
def test_the_distance_between_two_of_a_kind_is_their_length(text: str, found: list[Repeat]) -> None:
    assert by_distance(code(text), 3, 5, 10) == found


def test_of_layers_within_calls_the_calls_count() -> None:
    found = by_distance(code("eababababh" * 3), 3, 20, 10)
    assert found == [Repeat(0, 10, 3)]


def test_a_run_may_begin_later_than_it_seems_to() -> None:
    """What comes before the first ends as each of them does."""
    entries = code("zbc" + "abcabc" + "abx")
    (run,) = by_distance(entries, 3, 5, 10)
    assert (run.first, latest(entries, run)) == (1, Repeat(2, 3, 3))


STEPS = ("mm", "relu", "mm", "tanh")


def turns(p: Program) -> None:
    call(p, "sum", "[4]")
    for _ in range(3):
        for name in STEPS:
            call(p, name, "[4, 4]", "[4, 4]", kernel=GEMM)


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        (
            Loop(fewest=3, longest=4, is_turn=lambda turn: turn[-1].name == "aten::tanh"),
            [(1, 4, 3)],
        ),
        (Loop(fewest=4, longest=4, is_turn=lambda _: True), []),
        (Loop(fewest=3, longest=3, is_turn=lambda _: True), []),
        (Loop(fewest=3, longest=4, is_turn=lambda turn: turn[0].name == "aten::tanh"), []),
    ],
    ids=["found", "too few", "too long", "another turn"],
)
def test_loops_are_equal_turns_that_pass_a_test(
    loop: Loop, found: list[tuple[int, int, int]]
) -> None:
    tape = tape_of(turns)
    calls = launching(tape)
    rows = calls.forward
    runs = loop.find(tape, calls.node[rows], codes(calls.name[rows], calls.step[rows]))
    per_step = 1 + 3 * len(STEPS)
    assert [tuple(run) for run in runs[: len(found)]] == found
    assert len(runs) == len(found) * tape.steps
    assert all(run.first % per_step == 1 for run in runs)


def test_operators_outside_of_the_backward_pass_and_the_values_of_their_ops() -> None:
    """Two ops outside of operators, three of a forward one, one of a backward one, one more
    outside."""
    none = np.zeros(4, np.int32)
    entries = Launching(
        np.array([-1, 5, 6, -1]),
        np.array([0, 2, 5, 6]),
        none,
        none,
        none,
        np.array([False, False, True, True]),
    )
    assert entries.forward.tolist() == [1]
    assert entries.of_ops(np.array([7, 8, 9, 10]), 7).tolist() == [7, 7, 8, 8, 8, 9, 10]
