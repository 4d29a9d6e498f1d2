"""Operators that prepare themselves within the step, and the step without that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.replay.test_replay import replayed
from traceanalyzer.replay.changes.warmup import prepared_before
from traceanalyzer.replay.scenario import Scenario

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

READY = Scenario("ready", prepared_before("convolution"), "")


def searching(p: Program) -> None:
    """A product, and a convolution that tries two kernels for 100 us each before it runs the better
    one."""
    p.op("aten::mm", p.now, p.now + 24).spend(20).launch("gemm", 10)
    begin = p.now
    for _ in range(2):
        p.spend(20).launch("tried", 100).sync()
    p.spend(20).launch("chosen", 10)
    p.op("aten::convolution", begin, p.now)


def planning(p: Program) -> None:
    """A convolution that plans for 500 us before it launches, and a wait that is not its own."""
    begin = p.now
    p.spend(500).launch("conv", 10)
    p.op("aten::convolution", begin, p.now)
    p.spend(20).launch("gemm", 10).sync()


def test_what_is_tried_is_gone_up_to_the_last_wait() -> None:
    # two tries: 20 us before each launch, 6 us to its kernel, 100 us, 3 us to the return; and what
    # both runs share
    assert replayed(searching) == pytest.approx(2 * (20 + 6 + 100) + 48, rel=0.05)
    assert replayed(searching, READY) == pytest.approx(48, rel=0.1)


def test_long_work_in_the_operator_is_gone_and_waits_outside_stay() -> None:
    without_plan = replayed(planning) - replayed(planning, READY)
    assert without_plan == pytest.approx(500, rel=0.02)
    assert replayed(planning, READY) > 24 + 6 + 10, "the host still waits for the product"


def test_other_operators_stay_as_they_are() -> None:
    other = Scenario("other", prepared_before("attention"), "")
    assert replayed(searching, other) == replayed(searching)
