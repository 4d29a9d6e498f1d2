"""Steps told by stacks that come back in turn."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.analysis.memory.phases import _is_period

STEP = (0, 1, 2, 2, 1)
"""Stacks of a step: the first comes once, the others twice."""


@pytest.mark.parametrize(("rest", "holds"), [((), True), ((3,), True), ((3, 3, 3, 3), False)])
def test_a_period_has_the_same_stacks_each_time(rest: tuple[int, ...], holds: bool) -> None:
    """One allocation that only a step in the middle has is let pass, a step of many is not."""
    stacks = np.array([*STEP * 5, *STEP, *rest * 2, *STEP * 6])
    assert _is_period(stacks, np.bincount(stacks), 12) == holds


def test_what_comes_more_often_in_some_steps_is_no_period() -> None:
    stacks = np.array([kind for step in range(12) for kind in (0, *(1,) * (2 + step % 2))])
    assert not _is_period(stacks, np.bincount(stacks), 12)
