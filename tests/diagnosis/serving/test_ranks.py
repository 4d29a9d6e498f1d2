"""A model in parts on two ranks: how long they wait for each other in an iteration is known."""

from __future__ import annotations

import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.server_builder import MARK
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.report.build import report_of
from traceanalyzer.trace import Run, Trace

EPOCH = 1_700_000_000_000_000_000


def decodes(rank: int, late: float) -> Trace:
    """Iterations of 1 ms: 200 us of work, on a late rank so many more, then an all-reduce until 900
    us."""
    b = Ranked()
    for i in range(12):
        at = 1000 * i
        b.annotation(MARK.format(8, 0, 0, 8, 800 + 8 * i), at, at + 100)
        b.launched(GEMM, at + 20, at + 220 + late, at + 5)
        b.collective(at + 220 + late, at + 900, at + 10, name="allreduce", ranks=2)
    return b.trace(rank, 2, epoch_ns=EPOCH)


def served(*late: float) -> MeasuredRanks:
    return measured(Run(tuple(decodes(rank, by) for rank, by in enumerate(late))))


@pytest.mark.parametrize(("late", "who"), [((0, 300), 1), ((150, 0), 0)])
def test_the_rank_that_the_other_waits_for_is_named_with_the_time(
    late: tuple[float, float], who: int
) -> None:
    of = served(*late)
    text = (
        f"In a mean iteration ranks wait 0 us to {max(late)} us for each other, rank {who} least."
    )
    assert text in list(sentences(of.critical))
    assert text in report_of(of).notes
    assert of.ranks.rows[of.ranks.critical].rank == who
    assert [row.waiting_ms for row in of.ranks.rows] == pytest.approx(
        [by / 1e3 for by in reversed(late)]
    )
    assert len(of.critical.iterations) == 12


def test_ranks_that_arrive_together_wait_for_nothing() -> None:
    of = served(0, 0)
    assert [row.waiting_ms for row in of.ranks.rows] == [0, 0]
    assert not any(row.straggler for row in of.ranks.rows)
