"""Counting the calls of one function by replacing its code."""

from __future__ import annotations

import pytest

from traceanalyzer.collect.steps.step_function import FunctionCalls

pytest.importorskip("torch")


def _closure(scale):
    def scaled(x, *, offset=1):
        return x * scale + offset

    return scaled


class Base:
    def value(self):
        return 1


class Derived(Base):
    def value(self):
        return super().value() + 1


@pytest.mark.parametrize(
    ("pattern", "call", "answer"),
    [
        (r"_closure\.<locals>\.scaled", _closure(3), 7),
        (r"Derived\.value$", lambda x: Derived().value(), 2),
    ],
)
def test_the_function_answers_as_before_and_its_calls_are_counted(pattern, call, answer):
    ended = []
    calls = FunctionCalls(pattern, lambda: ended.append(1))
    calls.install()
    try:
        assert [call(2) for _ in range(4)] == [answer] * 4
    finally:
        calls.remove()
    assert len(ended) == 3, "the call in which the function is found is not counted"
    assert call(2) == answer
    assert len(ended) == 3
