"""How many calls make one iteration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.collect.steps.period import CallMark, CallPeriod


def _ended(text, period=None):
    """At which calls an iteration ends; a letter is a call, its case the place it is called
    from."""
    period = CallPeriod() if period is None else period
    return [period.ended(CallMark(ord(one.lower()), ord(one), one)) for one in text], period


@pytest.mark.parametrize(
    ("iteration", "calls"),
    [("a", 1), ("aA", 2), ("ddddt", 5), ("ac", 2), ("abcdefgh", 8)],
)
def test_the_period_is_found_and_its_last_call_ends_it(iteration, calls):
    _, period = _ended(iteration * 8)
    assert period.calls == calls
    ended, _ = _ended(iteration * 4, period)
    assert ended == ([False] * (calls - 1) + [True]) * 4


def test_set_up_calls_come_before():
    _, period = _ended("xyx" + "aA" * 8)
    ended, _ = _ended("aAaA", period)
    assert ended == [False, True, False, True]


def test_one_call_counts_from_wherever_it_is_made():
    _, period = _ended("a" * 8)
    assert _ended("aAaA", period)[0] == [True] * 4


def test_a_request_of_many_tokens_is_not_one_iteration():
    _, period = _ended("p" + "d" * 30)
    assert period.calls == 1
    assert _ended("pdd", period)[0] == [False, True, True]


def test_drafts_of_changing_number_end_with_their_target():
    drafts = "".join("d" * count + "t" for count in (3, 5, 2, 6, 4, 3, 5, 2, 4, 6, 3, 5))
    _, period = _ended(drafts)
    assert period.calls == 1
    assert _ended("ddddtddt", period)[0] == [False] * 4 + [True] + [False] * 2 + [True]


def test_another_loop_is_noticed():
    _, period = _ended("aA" * 8)
    ended, _ = _ended("b" * 20, period)
    assert ended[-1]
    assert period.names == ["b"]


@given(st.text("abcd", min_size=1, max_size=4), st.integers(0, 3))
def test_iterations_are_counted_exactly(iteration, repeats):
    _, period = _ended(iteration * 24)
    ended, _ = _ended(iteration * 8 * (1 + repeats), period)
    assert sum(ended) % (8 * (1 + repeats)) == 0
    assert sum(ended) >= 8 * (1 + repeats)
