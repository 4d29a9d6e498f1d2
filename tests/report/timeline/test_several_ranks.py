"""Many ranks in charts, tables and timelines: the worst first, the others together."""

from __future__ import annotations

from dataclasses import replace

from tests.replay.ranks import Rank, run
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.diagnosis.measurements import measure_ranks
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.build import report_of
from traceanalyzer.report.html import step_charts
from traceanalyzer.report.html.made_details import details_of
from traceanalyzer.report.timeline.distributions import MAX_RANKS, WORST, steps_of_ranks
from traceanalyzer.trace import Run

LATE = 37


def many() -> MeasuredRanks:
    """Forty ranks, one of which computes for longer."""
    traces = tuple(
        m.trace for m in run(*(Rank(compute=900.0 if i == LATE else 300.0) for i in range(40)))
    )
    each = measure_ranks(traces)
    ranks = compare_ranks([m.timed.memo(digest_of) for m in each])
    return MeasuredRanks(Run(traces), [replace(m, ranks=ranks) for m in each], ranks)


def test_the_late_rank_is_first_in_every_table_and_chart() -> None:
    of = many()
    rows = steps_of_ranks(of)
    assert rows[0].rank == LATE
    assert len(rows) <= MAX_RANKS
    assert sum(1 + row.others for row in rows) == 40
    assert not any(row.others for row in rows[:WORST])
    report = report_of(of)
    assert report.tables["ranks"][0].rank == LATE
    assert report.tables["ranks"][0].straggler
    chart = step_charts.rank_bars(report, details_of(of))
    assert chart is not None
    assert f"rank {LATE} ⚠" in chart.plot.x.names[0]
