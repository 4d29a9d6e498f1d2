"""What a rank waits for, followed to who works; and the run without a rank."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.replay.ranks import Rank, run
from traceanalyzer.analysis.algebra.intervals import IntervalSet
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.tables.step_figures import Idle, Waiting
from traceanalyzer.diagnosis.measurements import measure, measure_ranks
from traceanalyzer.diagnosis.remedies.straggler import without_ranks
from traceanalyzer.diagnosis.shares import waits_by_cause
from traceanalyzer.replay.idle_pieces import without_gaps
from traceanalyzer.replay.unprofiled import _own_part
from traceanalyzer.replay.waiting import _waits, in_last_repetition

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements, Step


def test_ranks_set_out_together_from_the_last_collective_that_they_share() -> None:
    """Two collectives a step of 1,000; rank 1 comes last to both, the first of them begins 100
    after the last step's second one has ended."""
    never = np.iinfo(np.int64).min
    came = np.array([[1100, 1200, never], [1300, 1500, 1250]])
    ended = np.array([[1210, 1210, never], [1510, 1510, 1510]])
    last = came.argmax(axis=1)
    found = _waits(came, ended, last, 0, 1000)
    assert [column.tolist() for column in found] == [
        [510, 1210],
        [1100, 1300],
        [1200, 1500],
        [1, 1],
    ]
    assert _waits(came, ended, last, 2, 1000).since.tolist() == [510]


def test_what_a_rank_did_before_its_last_repetition_is_what_it_does_a_period_later() -> None:
    moved = in_last_repetition(IntervalSet(np.array([100]), np.array([200])), 150, 1000)
    assert (moved.start.tolist(), moved.end.tolist()) == ([150, 1100], [200, 1150])


def test_a_rank_idles_itself_for_what_it_idled_for_when_recorded_and_else_waits() -> None:
    """Input that others wait 10 ms for, of which it idled 1 when recorded, 0.4 of that still; and
    5 of other work, for which it idled 9."""
    waited = {IdleCause.INPUT: 10.0, IdleCause.HOST: 5.0, "compute": 2.0}
    now = without_gaps({IdleCause.INPUT: 0.4})
    own = _own_part(
        waited, now, Idle(**{one.label: 0.0 for one in IdleCause} | {"input": 1.0, "host": 9.0})
    )
    assert own[IdleCause.INPUT] == pytest.approx(0.6)
    assert own[IdleCause.HOST] == pytest.approx(5.0)
    assert waited == pytest.approx({IdleCause.INPUT: 9.4, IdleCause.HOST: 0.0, "compute": 2.0})


def test_what_a_rank_waits_is_the_others_cause_only_in_a_report_on_all() -> None:
    alone = of_run(Rank(), Rank(host=900.0))[0]
    waits = waits_by_cause(alone)
    assert waits.host == 0.0
    assert waits.transfer == pytest.approx(alone.step.waited.total)
    assert alone.step.waited.total > 0


def of_run(*ranks: Rank) -> list[Measurements]:
    return measure_ranks([one.trace for one in run(*ranks)])


def waiting(*ranks: Rank) -> Waiting:
    found = of_run(*ranks)[0].step.waiting
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("late", "part"),
    [(Rank(compute=900.0), "compute"), (Rank(host=900.0), "host"), (Rank(work=900.0), "host")],
)
def test_waiting_is_what_the_late_rank_does(late: Rank, part: str) -> None:
    found = waiting(Rank(), late, Rank())
    assert found.total > 0.3
    assert getattr(found, part) > 0.8 * sum(astuple(found))


def test_ranks_of_one_pace_wait_for_nothing() -> None:
    assert waiting(Rank(), Rank()).total == pytest.approx(0.0, abs=1e-3)


def test_a_run_without_its_slowest_rank_is_as_slow_as_the_second() -> None:
    each = of_run(Rank(compute=900.0), Rank(compute=400.0), Rank())
    replay = each[0].replay
    assert replay is not None
    gain = replay.gain_ms(without_ranks(replay.typical, [0]))
    assert gain == pytest.approx(0.5, rel=0.02)
    (late,) = compare_ranks([one.timed.memo(digest_of) for one in each]).late
    assert (late.position, late.gain_ms) == (0, pytest.approx(0.5, rel=0.02))


def test_communication_that_unlaunched_work_hides_is_no_idle_time() -> None:
    """Beside each collective of 200 us runs a kernel of 80 us, whose launch may be unknown."""

    def step_of(*, is_launched: bool) -> Step:
        built = Ranked()
        for step in range(6):
            begin = 400.0 * step
            built.annotation(f"ProfilerStep#{step}", begin, begin + 400)
            built.launched(GEMM, begin + 10, begin + 110, begin + 2)
            built.collective(begin + 111, begin + 311, begin + 20, thread=0)
            beside = (GEMM, begin + 150, begin + 230)
            if is_launched:
                built.launched(*beside, begin + 140, stream=9)
            else:
                built.kernel(*beside, stream=9)
            built.call("cudaDeviceSynchronize", begin + 160, begin + 315)
        return measure(built.trace()).step

    known, unknown = step_of(is_launched=True), step_of(is_launched=False)
    assert astuple(unknown.budget) == pytest.approx(astuple(known.budget), abs=0.002)
    assert unknown.idle.communication == 0.0
