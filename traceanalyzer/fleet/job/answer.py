"""From the ranks of a job to the answer: who holds it up, why, what it would gain without, and that
in a sentence."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.ranks.digest import Why
from traceanalyzer.analysis.ranks.last_to_arrive import last_to_arrive
from traceanalyzer.analysis.ranks.late import EXPLAINED, SAME_WORK
from traceanalyzer.base import NS_PER_MS, EmptyRecordingError, ms, span
from traceanalyzer.diagnosis.finding import (
    BASE_CONFIDENCE,
    MAX_CONFIDENCE,
    BottleneckClass,
    Summary,
)
from traceanalyzer.fleet.digests.files import DigestedRank
from traceanalyzer.fleet.job.changes import changes_of, recorded_step_ms, slowdown_of
from traceanalyzer.fleet.job.heat import heat_of
from traceanalyzer.fleet.job.links import slow_links
from traceanalyzer.fleet.job.model import (
    WORDS,
    Analyzed,
    Cause,
    Job,
    JobChange,
    JobCulprit,
    JobStep,
    Ranks,
    ends_of,
    range_ms,
)
from traceanalyzer.fleet.job.ranks import JobRanks
from traceanalyzer.fleet.job.select import Chosen
from traceanalyzer.trace import F64, I64

WORST = 5
PEERS = 64  # ranks that a late one is compared with: the nearest by number
MOSTLY = 0.5  # share of the steps in which a rank comes last from which it is late in most
SAME_STEP = 0.02  # steps that differ by less are one, whatever the profiler cost
BEFORE = 0.25  # of what a rank is late by later on: less was before


Explain = Callable[
    [Sequence[DigestedRank]], Sequence[DigestedRank]
]  # gives ranks with what says why they are late
Analyze = Callable[[Sequence[DigestedRank]], Analyzed | None]
_OF_HOST = [IdleCause.LAUNCH, IdleCause.SYNC, IdleCause.HOST, IdleCause.OTHER]
MOST_RANKS = 16
"""Recordings that are analyzed together: more cost more than they tell beyond the late ranks and
their neighbours."""
NOBODY = "No rank holds up the job"
NO_ONE_RANK = "No single rank holds up the job"
BY_TURNS = (
    0.1  # share of the step that is waiting for other ranks, from which some are late by turns
)
SHOWN = 4  # ranks named in a sentence
UNNAMED = ("profiler", "other", "unexplained")  # parts of the step that are no bottleneck
_NAMES = {
    "compute": "compute",
    "communication": "transfer",
    "transfer": "copies",
    "launch": "launch overhead",
    "sync": "syncs",
    "input": "waiting for input",
    "host": "host work",
}


def job_answer(
    chosen: Chosen,
    explained: Explain | None = None,
    racks: Mapping[str, str] | None = None,
    seen: Analyze | None = None,
) -> Job:
    """The answer about these ranks; `explained` reads what says why of a few of them, where they
    come without; `racks` has the racks of hosts; `seen` analyzes the recordings of a few. Raises
    EmptyRecordingError where there is none."""
    job = JobRanks(chosen, racks or {})
    if not job.digests:
        raise EmptyRecordingError(_nothing_read(chosen))
    analysis = None if seen is None else seen(_telling(job))
    costs = None if analysis is None else analysis.costs
    culprits = _culprits(job, explained, costs) if costs is None or costs else []
    if not culprits and job.matches is not None:
        step_ms = max(ms(one.mean_step_ns) for one in job.digests)
        culprits = slow_links(job.matches, job.ranks, job.hosts[0], step_ms)
    culprits = _by_their_work(culprits, analysis)
    changes = _changes(job, culprits, analysis)
    return Job(
        ranks=_ranks(job),
        summary=summary_of(job, culprits, analysis),
        culprits=culprits,
        changes=changes,
        slowdown=slowdown_of(job, changes),
        steps=_steps(job),
        worst=_worst(job, culprits),
        heat=heat_of(job),
        pipeline=None if job.compared.pipeline is None else job.compared.pipeline.slowdown,
        notes=[*(() if analysis is None else analysis.damaged), *_notes(job)],
        recorded_ms=_other_recorded_ms(job, analysis),
        budget=[] if analysis is None else analysis.budget,
        recommendations=[] if analysis is None else analysis.advice,
    )


def _other_recorded_ms(job: JobRanks, analysis: Analyzed | None) -> float | None:
    """The recorded step, ms, where the answer speaks of another one; None where they are alike."""
    step_ms = None if analysis is None else analysis.summary.step_ms
    recorded_ms = recorded_step_ms(job)
    if not step_ms or abs(recorded_ms / step_ms - 1.0) < SAME_STEP:
        return None
    return recorded_ms


def _changes(
    job: JobRanks, culprits: list[JobCulprit], analysis: Analyzed | None
) -> list[JobChange]:
    """What the job would gain. Where the replay says that nobody is late but by the profiler,
    nothing is gained by evening out what was recorded."""
    if analysis is None:
        return changes_of(job, culprits)
    is_held_up = bool(analysis.costs or culprits)
    return changes_of(job, culprits, shared=analysis.shared) if is_held_up else []


def _by_their_work(culprits: list[JobCulprit], analysis: Analyzed | None) -> list[JobCulprit]:
    """Ranks that are late for what the analysis of the recordings names."""
    if analysis is None or analysis.cause is None:
        return culprits
    return [
        one if one.cause in ("slow_link", "heavy_stage") else replace(one, cause=analysis.cause)
        for one in culprits
    ]


def _nothing_read(chosen: Chosen) -> str:
    for left in (*chosen.unreadable, *chosen.left_out):
        return f"no rank could be read: {left.path}: {left.why}"
    return (
        "no rank could be read: there is no recording and no digest; name the folder that holds "
        "them"
    )


def _notes(job: JobRanks) -> list[str]:
    notes = [*job.chosen.notes, *job.compared.notes]
    hosts, assumed = job.hosts
    if assumed:
        size = max(Counter(hosts).values())
        notes.append(
            f"No recording says its host: ranks are taken {size} a host, as many as GPUs "
            "were listed."
        )
    return notes


def _telling(job: JobRanks) -> list[DigestedRank]:
    """The ranks whose recordings are analyzed: all of a small job; of a large one those that
    `analyze` of all replays, those that are late, and their neighbours."""
    if len(job.ranks) <= MOST_RANKS:
        return list(job.ranks)
    late = [one.position for one in job.compared.late]
    replayed = last_to_arrive(job.digests, job.compared.critical)
    positions = dict.fromkeys((*replayed, *late[:SHOWN]))
    for neighbour in _beside(job, job.compared.critical, late)[: MOST_RANKS - len(positions)]:
        positions[neighbour] = None
    return [job.ranks[i] for i in sorted(positions)]


def _culprits(
    job: JobRanks, explained: Explain | None, costs: Mapping[int | None, float] | None
) -> list[JobCulprit]:
    """Who holds up the job; `costs`: what those cost that the analysis of their recordings names,
    None without one."""
    found = []
    for late_rank in job.compared.late:
        culprit = _culprit(job, late_rank.position, late_rank.gain_ms)
        if late_rank.stage is not None:
            return [_costing(replace(culprit, cause="heavy_stage"), costs)]
        culprit = _with_cause(job, late_rank.position, culprit, explained)
        if _is_named(culprit, costs):
            found.append(_costing(culprit, costs))
    return found + _by_analysis_alone(job, found, explained, costs or {})


def _is_named(culprit: JobCulprit, costs: Mapping[int | None, float] | None) -> bool:
    """Whether the analysis names the culprit; without one, whether the job gains without it."""
    if costs is None:
        return culprit.low_ms is None or culprit.low_ms > 0.0
    return culprit.rank in costs


def _by_analysis_alone(
    job: JobRanks,
    named: Sequence[JobCulprit],
    explained: Explain | None,
    costs: Mapping[int | None, float],
) -> list[JobCulprit]:
    """Culprits by the analysis of their recordings that came late by no collective."""
    known = {culprit.rank for culprit in named}
    return [
        _by_analysis(job, position, costs[digest.rank], explained)
        for position, digest in enumerate(job.digests)
        if digest.rank in costs and digest.rank not in known
    ]


def _by_analysis(
    job: JobRanks, position: int, cost_ms: float, explained: Explain | None
) -> JobCulprit:
    """A culprit that came late by no collective as recorded: the analysis alone names it."""
    culprit = _with_cause(job, position, _culprit(job, position, cost_ms), explained)
    return replace(culprit, low_ms=None, high_ms=None, since=None)


def _with_cause(
    job: JobRanks, position: int, culprit: JobCulprit, explained: Explain | None
) -> JobCulprit:
    """The culprit with what makes it late, by what its neighbours do that are not late."""
    late = [one.position for one in job.compared.late]
    some = [job.ranks[i] for i in (position, *_beside(job, position, late))]
    own, *others = some if explained is None else explained(some)
    cause = cause_of(own, others, culprit.gain_ms * NS_PER_MS) if others else None
    return replace(culprit, cause=cause)


def _costing(culprit: JobCulprit, costs: Mapping[int | None, float] | None) -> JobCulprit:
    """A culprit with what the analysis of its recording says that the job gains without it; as
    recorded where it does not say."""
    cost_ms = None if costs is None else costs.get(culprit.rank)
    if not cost_ms or not culprit.gain_ms:
        return culprit
    share = cost_ms / culprit.gain_ms
    low = None if culprit.low_ms is None else culprit.low_ms * share
    high = None if culprit.high_ms is None else culprit.high_ms * share
    return replace(culprit, gain_ms=cost_ms, low_ms=low, high_ms=high)


def _beside(job: JobRanks, rank: int, late: Sequence[int]) -> list[int]:
    """The nearest ranks of the same stage that are not late."""
    stages = job.stages
    others = [
        i for i, stage in enumerate(stages) if i not in late and i != rank and stage == stages[rank]
    ]
    return sorted(others, key=lambda i: abs(i - rank))[:PEERS]


def _culprit(job: JobRanks, rank: int, gain_ms: float) -> JobCulprit:
    gain = job.gain_ns(rank)
    own = job.own_ns[job.steady_steps]
    # What a rank is late by may be more than the run can gain without it.
    attainable = min(gain_ms * NS_PER_MS / max(gain.mean(), 1.0), 1.0)
    low, high = range_ms(gain * attainable, gain_ms)
    late = gain if job.compared.pipeline is None else own[:, rank]
    share = 0.0
    if len(own):
        is_latest = late >= np.maximum(own.max(axis=1), 1)
        share = float(is_latest.mean())
    digest = job.digests[rank]
    pattern = "roaming"
    if share >= MOSTLY and len(own) > 1:
        pattern = "recurring"
    elif int((late > late.sum() / 4).sum()) <= 1:
        pattern = "once"
    hosts, assumed = job.hosts
    return JobCulprit(
        rank=digest.rank if digest.rank is not None else rank,
        host=None if assumed else hosts[rank],
        stage=job.stages[rank],
        cause=None,
        gain_ms=gain_ms,
        low_ms=low,
        high_ms=high,
        since=_since(job, gain),
        pattern=pattern,
        steps_share=share,
        path=digest.path,
    )


def _since(job: JobRanks, own: F64) -> str | None:
    """The step from which on a rank is late: the cut with the largest difference of means, where
    little was before."""
    if len(own) < 4:
        return None

    def rise_at(cut: int) -> float:
        return float(own[cut:].mean() - own[:cut].mean())

    best = max(range(2, len(own) - 1), key=rise_at)
    if own[:best].mean() > BEFORE * own[best:].mean():
        return None
    return job.steps[int(job.steady_steps[best])]


def _worst(job: JobRanks, culprits: list[JobCulprit]) -> list[JobCulprit]:
    gains = [row.gain_ms or 0.0 for row in job.compared.rows]
    for late_rank in job.compared.late:
        gains[late_rank.position] = late_rank.gain_ms
    order = sorted(range(len(gains)), key=lambda i: -gains[i])[:WORST]
    if culprits and culprits[0].cause == "heavy_stage":
        return culprits
    named = {one.rank: one for one in culprits}
    by_gain = [_culprit(job, i, gains[i]) for i in order if gains[i] > 0]
    return [named.get(one.rank, one) for one in by_gain]


def _ranks(job: JobRanks) -> Ranks:
    chosen = job.chosen
    known = {one.rank for one in job.digests if one.rank is not None}
    world = max((one.claim.world_size or 0 for one in job.digests), default=0)
    expected = max(world, len(job.digests))
    missing = [rank for rank in range(world) if rank not in known]
    return Ranks(
        expected, len(job.digests), list(chosen.unreadable), missing, list(chosen.left_out)
    )


def _steps(job: JobRanks) -> list[JobStep]:
    own = job.own_ns
    waited = job.compared.waited_ns
    times: dict[str, list[float]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    for digest, wait in zip(job.digests, waited or [None] * len(job.digests), strict=True):
        for i, (name, time) in enumerate(
            zip(digest.steps.names, digest.steps.duration.tolist(), strict=True)
        ):
            times[name].append(time)
            if wait is not None:
                waits[name].append(wait[i])
    steady = set(job.steady_steps.tolist())
    rows = []
    for i, name in enumerate(job.steps):
        worst = int(own[i].argmax())
        excess_ns = own[i][worst]
        rank = job.digests[worst].rank if excess_ns > 0 else None
        rows.append(
            JobStep(
                name,
                i in steady,
                _median_ms(times[name]),
                _median_ms(waits[name]) if waits[name] else 0.0,
                rank,
                ms(float(excess_ns)),
            )
        )
    return rows


def _median_ms(times_ns: Sequence[float]) -> float:
    return ms(float(np.median(times_ns)))


def cause_of(late: DigestedRank, others: Sequence[DigestedRank], gain_ns: float) -> Cause | None:
    """Why `late` costs so much of a step; None where stretches between collectives and steps tell
    less than half."""
    least_ns = EXPLAINED * gain_ns
    for times_of in (_before_calls, _in_steps):
        theirs = np.median([times_of(other) for other in others], axis=0)
        compute_ns, host_ns, input_ns = (times_of(late) - theirs).tolist()
        # A device that idles that much longer has no more to do: compute is only counted next,
        # because it takes longer beside a collective that waits.
        if max(host_ns, input_ns) >= least_ns:
            return "input" if input_ns > host_ns else "slow_host"
        if compute_ns >= least_ns:
            return "slow_gpu" if _same_work(late, others) else "more_work"
    return None


def _parts(compute: I64, idle: I64) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    by_host = idle[_OF_HOST].sum()
    by_input = idle[IdleCause.INPUT].sum()
    return np.array([compute.sum(), by_host, by_input], np.float64)


def _before_calls(rank: DigestedRank) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Compute, idle time by the host and by input before the collectives of a mean steady step,
    ns."""
    digest = rank.digest
    why = rank.why
    if why is None or not len(why.compute_before):
        return np.zeros(3)
    steady = digest.calls.step >= digest.steps.warmup
    return (
        _parts(why.compute_before[steady], why.idle_before[:, steady]) / digest.steps.steady_count
    )


def _in_steps(rank: DigestedRank) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Compute, idle time by the host and by input in all of a mean steady step, ns."""
    digest = rank.digest
    why = rank.why
    if why is None:
        return np.zeros(3)
    return (
        _parts(digest.compute[digest.steps.steady], why.idle[:, digest.steps.steady])
        / digest.steps.steady_count
    )


def _same_work(late: DigestedRank, others: Sequence[DigestedRank]) -> bool:
    """Whether it launches as many kernels, with as many threads, as the middle one of the
    others."""
    own = _work(late)
    theirs = [_work(one) for one in others]
    if own is None or any(one is None for one in theirs):
        return False
    middle = np.median([one for one in theirs if one is not None], axis=0)
    return bool((np.abs(own / np.maximum(middle, 1e-9) - 1.0) <= SAME_WORK).all())


def _work(rank: DigestedRank) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    if rank.why is None or any(family.threads < 0 for family in rank.why.families):
        return None
    sums = [
        sum(family.launches for family in rank.why.families),
        sum(family.threads for family in rank.why.families),
    ]
    return np.array(sums, np.float64) / rank.digest.steps.steady_count


def summary_of(
    job: JobRanks, culprits: Sequence[JobCulprit], analysis: Analyzed | None = None
) -> Summary:
    """Class, confidence and headline: those of `analyze` where its recordings are there, else by
    the largest part of the recorded step of the rank that is not waited on."""
    if analysis is not None and analysis.summary.step_ms is not None:
        headline = " ".join(filter(None, (_nobody(job), analysis.summary.headline)))
        if culprits:
            headline = _headline(job, culprits, _cost(job, culprits, analysis), analysis)
        return replace(analysis.summary, headline=headline)
    digest = job.digests[job.compared.critical]
    why = job.ranks[job.compared.critical].why
    step_ms = ms(digest.mean_step_ns) if digest.steps.known else None
    if not step_ms or why is None:
        none = "Inconclusive: no rank has steps with work on a GPU."
        return Summary("inconclusive", 0.0, none, "recorded", step_ms)
    parts = _recorded_parts(job, why)
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    margin = (parts[first] - parts[second]) / step_ms
    named = first not in UNNAMED
    cls = cast("BottleneckClass", first) if named else "inconclusive"
    confidence = round(min(MAX_CONFIDENCE, BASE_CONFIDENCE + margin), 2) if named else 0.0
    headline = _all_alike(job, first, parts[first], step_ms)
    if culprits:
        headline = _headline(job, culprits, _cost(job, culprits, None))
    return Summary(cls, confidence, headline, "recorded", step_ms)


def _nobody(job: JobRanks) -> str:
    """That no one rank is to blame, in words that go with ranks that wait for each other by turns;
    empty of a single rank, of which nothing tells."""
    if len(job.digests) < 2:
        return ""
    waiting_ms = job.compared.rows[job.compared.critical].waiting_ms or 0.0
    step_ms = ms(job.digests[job.compared.critical].mean_step_ns)
    return f"{NO_ONE_RANK if waiting_ms >= BY_TURNS * step_ms else NOBODY}."


def _recorded_parts(job: JobRanks, why: Why) -> dict[str, float]:
    """The recorded step of the critical rank, ms: communication and copies as far as nothing
    overlaps with them, idle time by cause, without what it waits for other ranks."""
    digest = job.digests[job.compared.critical]
    idle = {cause.label: why.idle[cause] for cause in IdleCause}
    communication = why.exposed_communication + idle.pop("communication")
    spent = {
        "compute": digest.compute,
        "communication": communication,
        "transfer": why.exposed_copy,
        **idle,
    }
    parts = {name: ms(digest.per_step(times)) for name, times in spent.items()}
    waiting = job.compared.rows[job.compared.critical].waiting_ms or 0.0
    parts["communication"] = max(parts["communication"] - waiting, 0.0)
    return parts


def _all_alike(job: JobRanks, part: str, part_ms: float, step_ms: float) -> str:
    what = _NAMES.get(part, "what the digests do not tell")
    share = f"{span(part_ms)} ({part_ms / step_ms:.0%})"
    takes = f"{what} takes {share} of each {span(step_ms)} step"
    if len(job.digests) < 2:
        return f"{takes[0].upper()}{takes[1:]}, on the one rank that was read."
    return f"{NOBODY}: {takes}, on all ranks alike."


def _headline(
    job: JobRanks, culprits: Sequence[JobCulprit], cost: str, analysis: Analyzed | None = None
) -> str:
    worst = culprits[0]
    if worst.cause == "heavy_stage":
        return (
            f"Stage {worst.stage} ({_ranks_of_stage(job, worst.stage)}) is too heavy. "
            f"Evening out the stages gains {cost}."
        )
    if worst.cause == "slow_link":
        where = f"host {worst.host}" if worst.host else f"the group of rank {worst.rank}"
        step_ms = ms(job.digests[job.compared.critical].mean_step_ns)
        gain = f"{span(worst.gain_ms)} of each {span(step_ms)} step"
        return f"The links of {where} are slow: its transfers take {gain} longer."
    if len(culprits) > 1:
        return _of_several(culprits, cost, _held_up(job, analysis))
    host = f" (host {worst.host})" if worst.host else ""
    return f"Rank {worst.rank}{host} holds up the job: {WORDS[worst.cause]}. It costs {cost}."


def _ranks_of_stage(job: JobRanks, stage: int | None) -> str:
    ranks = [
        str(digest.rank)
        for digest, its in zip(job.digests, job.stages, strict=True)
        if its == stage
    ]
    shown = ", ".join(ranks[:SHOWN])
    more = ", ..." if len(ranks) > SHOWN else ""
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {shown}{more}"


class _How(NamedTuple):
    """How several ranks hold up a job."""

    together: bool  # at the same collectives, not by turns
    shared: bool  # whether the cost of each is that of all


def _held_up(job: JobRanks, analysis: Analyzed | None) -> _How:
    if analysis is not None:
        return _How(analysis.how == "together", analysis.shared)
    together = bool(job.compared.late) and job.compared.late[0].together
    return _How(together, shared=together)


def _of_several(culprits: Sequence[JobCulprit], cost: str, how: _How) -> str:
    worst = culprits[0]
    hosts = {one.host for one in culprits}
    ranks = ", ".join(str(one.rank) for one in culprits[:SHOWN])
    if len(culprits) > SHOWN:
        ranks += ", ..."
    on = f" (all on host {worst.host})" if len(hosts) == 1 and None not in hosts else ""
    if how.together:
        why = f" ({worst.cause.replace('_', ' ')})" if worst.cause else ""
        return f"Ranks {ranks}{on} hold up the job together{why}. They cost {cost}."
    if how.shared:
        return f"Ranks {ranks}{on} hold up the job by turns. They cost {cost}."
    return f"Ranks {ranks}{on} hold up the job by turns; rank {worst.rank} most: {cost}."


def _cost(job: JobRanks, culprits: Sequence[JobCulprit], analysis: Analyzed | None) -> str:
    """What the first of them costs: of the step without the profiler where that is known, else of
    the recorded one, whose range over the steps is known."""
    worst = culprits[0]
    since = ""
    if worst.since:
        since = f", since {worst.since}"
    elif worst.pattern == "recurring":
        since = ", in all steps"
    alone = len(culprits) == 1 or _held_up(job, analysis).shared
    if analysis is not None and alone and worst.rank in analysis.costs and analysis.summary.step_ms:
        share = f"{worst.gain_ms / analysis.summary.step_ms:.0%}"
        step = f"{span(analysis.summary.step_ms)} step"
        return f"{span(worst.gain_ms)} ({share}) of each {step}{since}"
    step_ms = ms(job.digests[job.compared.critical].mean_step_ns)
    share = "; ".join(filter(None, (f"{worst.gain_ms / step_ms:.0%}", ends_of(worst))))
    recorded = "recorded " if analysis is not None else ""
    step = f"{span(step_ms)} {recorded}step"
    return f"{span(worst.gain_ms)} ({share}) of each {step}{since}"
