"""What the job would gain: without a rank, its host, all as the middle one, with the stages evened
out."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.job import PipelineJob
from traceanalyzer.base import NS_PER_MS, ms
from traceanalyzer.fleet.hang.model import ranks_text
from traceanalyzer.fleet.job.model import JobChange, JobCulprit, Slowdown, range_ms
from traceanalyzer.fleet.job.ranks import JobRanks
from traceanalyzer.fleet.job.simulate import (
    JobPlan,
    middle_of_alike,
    recorded_times,
    replayed_steps,
)
from traceanalyzer.trace import F64, I64

WORST_SHARE = 0.03  # of the ranks: those called the worst (arXiv 2505.05713)
FAITHFUL = 0.05
"""The steps reckoned from the recorded stretches differ by less from the recorded ones, or nothing
is promised."""
LEAST_SHARE = 0.01  # of a step: gains below are not worth a row
MEDIAN = "all ranks as fast as the median"
ALIKE = "all ranks and stages alike"
STAGES = "stages evened out"
WORST = "without the worst 3 % of the ranks"


def changes_of(
    job: JobRanks, culprits: Sequence[JobCulprit], *, shared: bool = False
) -> list[JobChange]:
    """The changes, the widest last; empty without matched collectives or a pipeline. `shared`:
    whether the cost of each culprit is that of all."""
    if job.compared.pipeline is not None:
        return _of_pipeline(job, job.compared.pipeline)
    plan = job.plan
    if plan is None or not len(job.steady_steps):
        return []
    rows = [
        JobChange(
            f"without {ranks_text(_known(one.rank for one in culprits)) if shared else _links_of(one)}",
            one.gain_ms,
            one.low_ms,
            one.high_ms,
            None,
        )
        for one in culprits[:1]
        if not any(late.together for late in job.compared.late)
    ]
    base = replayed_steps(plan, plan.matches.stretch)[job.steady_steps]
    recorded = recorded_times(plan)[job.steady_steps]
    if abs(base.sum() - recorded.sum()) > FAITHFUL * max(recorded.sum(), 1.0):
        return rows
    rows += _of_plan(job, plan, base)
    return _explaining(rows, float(base.mean()) / NS_PER_MS)


def _of_plan(job: JobRanks, plan: JobPlan, base: F64) -> Iterator[JobChange]:
    stretch = plan.matches.stretch
    usual = np.minimum(stretch, middle_of_alike(plan))

    def row(what: str, changed: I64 | F64) -> JobChange:
        gain = base - replayed_steps(plan, changed)[job.steady_steps]
        return JobChange(what, float(gain.mean()) / NS_PER_MS, *range_ms(gain), None)

    def without(ranks: Sequence[int]) -> I64:
        return np.where(np.isin(plan.matches.rank, ranks), usual, stretch)

    late = [one.position for one in job.compared.late]
    if len(late) > 1:
        yield row(f"without {_ranks_at(job, late)}", without(late))
    yield from (row(what, without(ranks)) for what, ranks in _worst_places(job))
    worst = np.argsort([-(one.gain_ms or 0.0) for one in job.compared.rows], kind="stable")
    yield row(WORST, without(worst[: math.ceil(WORST_SHARE * len(worst))].tolist()))
    yield row(MEDIAN, usual)


def _of_pipeline(job: JobRanks, pipeline: PipelineJob) -> list[JobChange]:
    if not pipeline.is_faithful:
        return []

    def row(what: str, gain_ms: F64) -> JobChange:
        gain_ms = np.maximum(gain_ms, 0.0)
        return JobChange(what, float(gain_ms.mean()), *range_ms(gain_ms * NS_PER_MS), None)

    late = [one.position for one in job.compared.late if one.stage is None]
    rows = []
    if late:
        rows.append(row(f"without {_ranks_at(job, late)}", pipeline.without_ms(late)))
    rows += [row(what, pipeline.without_ms(ranks)) for what, ranks in _worst_places(job)]
    rows += [row(STAGES, pipeline.evened_ms), row(ALIKE, pipeline.alike_ms)]
    return _explaining(rows, float(pipeline.base_ms.mean()))


def _known(ranks: Iterable[int | None]) -> list[int]:
    return [rank for rank in ranks if rank is not None]


def _ranks_at(job: JobRanks, positions: Sequence[int]) -> str:
    return ranks_text(_known(job.digests[i].rank for i in positions))


def _links_of(culprit: JobCulprit) -> str:
    """What is taken away of a rank that is late, or of links that are slow."""
    if culprit.cause != "slow_link":
        return f"rank {culprit.rank}"
    return (
        "the excess of the links of "
        f"{f'host {culprit.host}' if culprit.host else f'the group of rank {culprit.rank}'}"
    )


def _worst_places(job: JobRanks) -> Iterator[tuple[str, list[int]]]:
    """The host, and the rack, whose ranks come last by most together, of several with more than a
    rank; and these. A host that is assumed is no place to go to."""
    gain_ms = [row.gain_ms or 0.0 for row in job.compared.rows]
    hosts, assumed = job.hosts
    for what, of_rank in (("host", [] if assumed else hosts), ("rack", job.racks)):
        ranks = _by_name(of_rank)
        if len(ranks) > 1 and max(map(len, ranks.values())) > 1:
            worst = max(ranks, key=lambda name: sum(gain_ms[i] for i in ranks[name]))
            yield f"without {what} {worst}", ranks[worst]


def _by_name(name_of_rank: Sequence[str | None]) -> dict[str, list[int]]:
    """The ranks of each host or rack; those of which it is not known are left out."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, name in enumerate(name_of_rank):
        if name is not None:
            ranks[name].append(rank)
    return ranks


def _explaining(rows: list[JobChange], step_ms: float) -> list[JobChange]:
    full_gain_ms = rows[-1].gain_ms
    found = []
    for row in rows:
        explains = (
            min(row.gain_ms / full_gain_ms, 1.0) if full_gain_ms >= LEAST_SHARE * step_ms else None
        )
        if row.gain_ms >= LEAST_SHARE * step_ms or row.what in (MEDIAN, ALIKE):
            found.append(JobChange(row.what, row.gain_ms, row.low_ms, row.high_ms, explains))
    return found


def recorded_step_ms(job: JobRanks) -> float:
    """The recorded step of the job: that of the middle rank."""
    return ms(float(np.median([one.mean_step_ns for one in job.digests])))


def slowdown_of(job: JobRanks, changes: Sequence[JobChange]) -> Slowdown:
    """How far the job is from one with all ranks as the middle one."""
    by_name = {one.what: one for one in changes}
    widest = by_name.get(MEDIAN) or by_name.get(ALIKE)
    worst = by_name.get(WORST)
    if widest is None:
        return Slowdown(None, None)
    step = recorded_step_ms(job)
    ideal = step - widest.gain_ms
    return Slowdown(step / ideal if ideal > 0 else None, None if worst is None else worst.explains)
