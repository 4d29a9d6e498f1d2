"""Ranks that keep each other waiting by turns, and those that only seem to."""

from __future__ import annotations

import pytest

from tests.analyzed import measurements
from tests.diagnosis.test_fix_straggler import offers, together
from tests.recorded import ranks
from tests.replay.ranks import Rank
from traceanalyzer.diagnosis.remedies.straggler import fix_straggler
from traceanalyzer.replay.patterns.working_ranks import ranks_that_work_longer

BY_TURNS = (Rank(work=900.0, works_in=0), Rank(work=900.0, works_in=1))


def test_hosts_that_work_by_turns_are_named_with_what_all_of_them_take() -> None:
    m = together(*BY_TURNS)[0]
    assert m.replay is not None
    turns = ranks_that_work_longer(m.replay.recorded)
    assert turns is not None
    assert sorted(turns.ranks) == [0, 1]
    # 0.608 and 0.332 ms by turns: the rest of their work is hidden behind the GPU's.
    assert turns.more_ms == pytest.approx(0.47, rel=0.02)
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert "Take Python off ranks 0 and 1, which keep the others waiting" in offer.action.pytorch
    left = [offer.scenario.change(tape) for tape in m.replay.typical]
    assert all(tape is not None and not tape.work.any() for tape in left)


def test_hosts_that_work_at_once_are_told_apart_from_turns() -> None:
    late = Rank(work=900.0)
    found = offers(late, Rank(), late, Rank())
    assert found
    assert all("Fix ranks 0 and 2: their Python takes longer" in action for action in found)


def test_a_real_run_by_turns_is_promised_what_a_stopwatch_read_without_them() -> None:
    """Four stretches a step; in each one of the two ranks spends 1.5 ms in Python."""
    m = measurements(*ranks("two_ranks/stragglers_by_turns.base")).critical
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert m.replay is not None
    assert "by turns" in offer.action.pytorch
    prediction = m.replay.predict(offer.scenario)
    timed_ms = 2.048
    assert prediction.step_ms == pytest.approx(timed_ms, rel=0.02)
    assert prediction.low_ms is not None
    assert prediction.high_ms is not None
    assert prediction.low_ms < timed_ms < prediction.high_ms


@pytest.mark.parametrize(
    "each",
    [
        (Rank(work=900.0), Rank()),
        (Rank(work=900.0), Rank(work=900.0)),
        (Rank(work=12.0, works_in=0), Rank(work=12.0, works_in=1)),
        (
            Rank(work=900.0, works_in=0, compute=3000.0),
            Rank(work=900.0, works_in=1, compute=3000.0),
        ),
    ],
    ids=["one rank", "both at once", "little", "hosts that run ahead of their GPUs"],
)
def test_others_do_not_work_by_turns(each: tuple[Rank, ...]) -> None:
    for m in together(*each):
        assert m.replay is not None
        assert ranks_that_work_longer(m.replay.recorded) is None
    assert not any("by turns" in action for action in offers(*each))
