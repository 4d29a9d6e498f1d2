"""`fleet` says of the ranks of a job what `analyze` says: class, step, who holds it up, why, and
what that costs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.fleet.jobs import Job, write
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.rank_costs import held_up
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.fleet.job.model import WORDS
from traceanalyzer.ingest import load
from traceanalyzer.report.build import report_of

if TYPE_CHECKING:
    from pathlib import Path

JOBS = {
    "by turns": (
        Job(
            ranks=2,
            layers=4,
            gathers=True,
            host_us=lambda rank, _, layer: 400.0 * (layer % 2 == rank),
        ),
        {0, 1},
        "slow_host",
    ),
    "a slow host under FSDP": (
        Job(ranks=2, layers=3, gathers=True, host_us=lambda rank, *_: 120.0 if rank else 10.0),
        {1},
        "slow_host",
    ),
    "a slow GPU": (
        Job(ranks=2, layers=3, slower=lambda rank: 1.0 + 0.4 * rank),
        {1},
        "slow_gpu",
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_of_a_job(name: str, tmp_path: Path, run) -> None:
    made, ranks, cause = JOBS[name]
    paths = write(made, tmp_path)
    _, out, _ = run("fleet", str(tmp_path), "--format", "json")
    job = json.loads(out)
    m = measured(load(paths))
    report = report_of(m)
    assert job["summary"]["bottleneck"] == report.summary.bottleneck
    assert job["summary"]["step_ms"] == pytest.approx(report.summary.step_ms, rel=1e-5)
    costs = {one["rank"]: one["gain_ms"] for one in job["culprits"]}
    assert costs.keys() == ranks
    assert costs == pytest.approx(held_up(m.critical, diagnose(m.critical)).costs, rel=1e-4)
    assert {one["cause"] for one in job["culprits"]} == {cause}
    assert any(one.id == "straggler" for one in report.findings) is bool(ranks)
    named = {row.rank for row in report.tables["ranks"] if row.straggler}
    assert named == ranks
    if len(ranks) == 1:
        # One sentence each: the same rank, cause and cost.
        (rank,) = ranks
        cost = held_up(m.critical, diagnose(m.critical)).cost(report.summary.step_ms)
        why = WORDS[cause]
        assert f"Rank {rank} holds up the others: {why} ({cost})." in report.summary.headline
        figure, share = cost.split(", ")
        wanted = f"Rank {rank} holds up the job: {why}. It costs {figure} ({share}) of each"
        assert job["summary"]["headline"].startswith(wanted)


def test_of_more_ranks_than_are_analyzed_both_say_the_same(tmp_path: Path, run) -> None:
    """20 ranks, the GPU of one is slow, and others differ a little: the same ranks are replayed
    together, so one figure says how much longer its kernels take."""
    job = Job(
        ranks=20, layers=3, steps=4, slower=lambda rank: 1.5 if rank == 3 else 1.0 + 0.004 * rank
    )
    write(job, tmp_path)
    screen, fleet = (
        " ".join(run(command, str(tmp_path))[1].split()) for command in ("analyze", "fleet")
    )
    told = re.compile(r"Fix rank 3: kernels take \S+ ms a step longer")
    (longer,) = told.findall(screen)
    assert longer in fleet
    after = re.compile(r"→ \S+ us \([^)]*\) per step, [\d.]+x")
    assert after.findall(screen)[0] == after.findall(fleet)[0]
