"""All ranks of two runs: who became slower, how far they are apart, and what cannot be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzed import reported
from tests.comparison.build import idle, part, report
from tests.recorded import ROOT, ranks
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.document import ComparisonPage
from traceanalyzer.comparison.side_by_side.by_rank import ranks_between
from traceanalyzer.report.model import Report


def row(rank: int, step_ms: float, waiting_ms: float, late_ms: float = 0.0) -> RankRow:
    late = late_ms > 1.0
    return RankRow(rank, 0, step_ms, step_ms, 5.0, 1.0, waiting_ms, 0.5, 0.0, late, gain_ms=late_ms)


def run(*rows: RankRow, step_ms: float = 10.0, world: int | None = None) -> Report:
    """A run whose critical rank computes 5 ms and spends the rest in a collective."""
    made = report(
        part("aten::mm", "gemm", 5),
        part("c10d::allreduce_", "nccl", step_ms - 5, of="exposed_communication", cls="all_reduce"),
        idle("launch", 0.1, "aten::mm"),
    )
    world = world or len(rows)
    inputs = [replace(made.inputs[0], rank=one.rank, world_size=world) for one in rows]
    return replace(made, inputs=inputs, tables=made.tables | {"ranks": list(rows)})


EVEN = run(row(0, 6.0, 0.1), row(1, 6.0, 0.1), row(2, 6.0, 0.1), step_ms=6.0)
HELD_UP = run(row(0, 10.0, 4.1), row(1, 10.0, 0.1, 4.0), row(2, 10.0, 4.1))


def test_the_rank_that_became_slower_is_named_and_those_that_wait_for_it_are_not():
    found = compare_reports(EVEN, HELD_UP)
    assert found.ranks is not None
    assert (found.ranks.slower, found.ranks.faster) == (1, None)
    assert found.ranks.a_spread_ms == pytest.approx(0.0)
    assert found.ranks.b_spread_ms == pytest.approx(4.0)
    assert [one.late_difference_ms for one in found.ranks.rows] == pytest.approx([0.0, 4.0, 0.0])
    assert "Rank 1 became slower: it holds up each step by 0 → 4 ms." in found.headline
    assert "Ranks' waiting differs by 0 → 4 ms." in found.headline
    assert "By rank" in ComparisonPage(found).printed.markdown()


def test_ranks_that_all_became_slower_are_not_named():
    slower = run(row(0, 7.0, 0.1), row(1, 7.0, 0.1), row(2, 7.0, 0.1), step_ms=7.0)
    found = ranks_between(EVEN, slower)
    assert found is not None
    assert (found.slower, found.faster, found.sentence) == (None, None, "")


def test_of_an_unchanged_program_nobody_is_named():
    base = reported(*ranks("ablations/straggler_compute.base"))
    again = reported(*ranks("ablations/straggler_compute.base.syncevents"))
    found = compare_reports(base, again)
    assert found.verdict == "no_change"
    assert found.ranks is not None
    assert (found.ranks.slower, found.ranks.faster, found.ranks.sentence) == (None, None, "")


def test_runs_of_other_sizes_say_what_they_can_tell():
    found = compare_reports(EVEN, run(row(0, 6.0, 3.1), row(1, 9.0, 0.1)))
    assert found.ranks is not None
    assert found.verdict == "not_comparable"
    assert found.ranks.rows == []
    assert found.ranks.b_spread_ms == pytest.approx(3.0)
    assert "A ran on 3 ranks and B on 2" in found.headline


def test_ranks_that_one_side_lacks_are_named():
    some = run(row(0, 6.0, 0.1), row(1, 6.0, 0.1), step_ms=6.0, world=3)
    found = compare_reports(EVEN, some)
    assert found.ranks is not None
    assert [one.rank for one in found.ranks.rows] == [0, 1]
    assert "B has no recording of rank 2" in found.headline


@pytest.mark.parametrize("name", ["ranks2/straggler", "two_ranks/straggler_input"])
def test_of_recordings_the_straggler_became_faster(name: str):
    after = "fix" if name.startswith("ranks2") else "without"
    found = compare_reports(reported(*ranks(f"{name}.base")), reported(*ranks(f"{name}.{after}")))
    assert found.ranks is not None
    assert (found.ranks.slower, found.ranks.faster) == (None, 1)
    assert found.ranks.b_spread_ms < found.ranks.a_spread_ms / 2


def test_four_ranks_with_themselves_say_nothing():
    four = sorted((ROOT / "tests" / "data" / "ranks4").glob("*.json.gz"))
    found = ranks_between(reported(*four), reported(*four))
    assert found is not None
    assert found.sentence == ""
    assert len(found.rows) == 4
