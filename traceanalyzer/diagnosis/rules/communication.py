"""Findings on communication, and on the rank that others wait for."""

from collections.abc import Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.ranks.compare import RankComparison
from traceanalyzer.analysis.ranks.late import LateRank
from traceanalyzer.analysis.ranks.pipeline.job import PipelineJob
from traceanalyzer.analysis.ranks.pipeline.operations import BACKWARD, FORWARD
from traceanalyzer.base import digits, plural, ratio
from traceanalyzer.base.figures import MS_PER_S
from traceanalyzer.diagnosis.draft import Draft, Part, Proposal, finding, share
from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.communication import bucket_size_unknown
from traceanalyzer.diagnosis.remedies.program import (
    MOSTLY_WAITING,
    by_links_ms,
    program,
    waiting_share,
)
from traceanalyzer.diagnosis.remedies.straggler import (
    LATE_IN_REPLAY,
    OF_ONE,
    OF_SEVERAL,
    LateByReplay,
    gains_without_late,
    holding_up,
    how_late,
    late_by_replay,
    listed,
    longest_wait_ms,
    why_late,
)
from traceanalyzer.trace import Bool

ROWS = 3  # kinds of collectives named in the evidence
BY_LINK = (
    "all its messages, without waiting for other ranks and without start-up; recordings of all ranks tell how much of "
    "the rest is waiting"
)
ALL_HIDDEN = "all transfers hidden"
MAY_WAIT = f"{ALL_HIDDEN}; they include waiting for slower ranks, which overlap does not remove"
FILLED = (
    "all bubbles filled and transfers hidden; of p stages and m micro-batches some bubbles stay"
)
WOULD_TELL = (
    "a recording with bucket_cap_mb=25, or with short messages (a barrier) in its steps, would tell"
)
REDUCTIONS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "reduce",
)  # how gradients, or parameters in shards, travel
UNBLOCK = (
    "Find what holds up the CPU of rank {rank}, for which the others wait: traceanalyzer gaps "
    "--rank {first} shows where it idles; what it does before the recorded steps counts, too."
)
OF_COMPUTE = ("slow_gpu", "more_work")  # causes of a late rank that are on its device
HOLD_UP = {
    "alone": "Rank {} holds up the others",
    "together": "Ranks {} hold up the others together",
    "by turns": "Ranks {} hold up the others by turns",
}
MIN_WAIT_SHARE = 0.05
"""Share of the step that another rank must wait before one rank is said to hold up the run."""


def exposed_communication(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Collectives while no compute ran on the device."""
    budget = m.step.budget
    if budget is None or m.communication is None or budget.exposed_communication <= 0:
        return
    waiting_for_ranks_ms = waiting_ms(m)
    exposed_ms = budget.exposed_communication - waiting_for_ranks_ms
    less = "waiting for other ranks" if waiting_for_ranks_ms > 0 else ""
    overlap = m.communication.overlap_share
    evidence = [
        share(m, exposed_ms, "communication that does not overlap with compute", less=less),
        Evidence(
            "overlap of communication",
            overlap,
            "share",
            "share of its time that overlaps with compute",
        ),
        *_of_pipeline(m),
        *_collectives(m),
        *_of_messages(m),
    ]
    waiting = waiting_share(m)
    words = said("exposed-communication")
    action = words if _of_gradients(m) else said("exposed-communication", "of_anything")
    # What messages need is known and what of the rest is waiting is not: then nothing tells what
    # overlap would save.
    bound = waiting is None and by_links_ms(m) is not None
    alone = bound and not program(m).training  # what no remedy on gradients is about
    basis = MAY_WAIT if waiting is None else ALL_HIDDEN
    hide = Proposal(action, basis, bound=bound, alone=alone, name="overlap_communication")
    proposals = [] if waiting is not None and waiting > MOSTLY_WAITING else [hide]
    if m.ranks is not None and m.ranks.pipeline is not None:
        proposals = [Proposal(said("exposed-communication", "in_pipeline"), FILLED, bound=True)]
    yield finding(
        "exposed-communication",
        "exposed_communication",
        exposed_ms,
        evidence,
        proposals,
        words=words,
    )


def waiting_ms(m: Measurements) -> float:
    """What of the step's exposed communication is waiting for other ranks, as far as that is known,
    ms."""
    if m.step.waiting is not None:
        return m.step.waiting.total
    return (
        (waiting_share(m) or 0.0) * m.step.budget.exposed_communication
        if m.step.budget is not None
        else 0.0
    )


def _of_pipeline(m: Measurements) -> Iterator[Evidence]:
    """What stages of a pipeline wait for each other, and what they wait at least."""
    job = None if m.ranks is None else m.ranks.pipeline
    if job is None or m.communication is None or m.communication.send_recv_ms is None:
        return
    where = "bubbles of the pipeline and transfers between its stages, on this rank"
    yield Evidence("sends and receives", m.communication.send_recv_ms, "ms", where)
    stages = job.position.shape[1]
    microbatches = int(job.pipeline.ops.microbatch.max()) + 1
    least = (stages - 1) / (microbatches + stages - 1)
    where = f"{stages} stages, {microbatches} micro-batches, if all took equally long"
    yield Evidence("least share of bubbles", least, "share", where)


def _collectives(m: Measurements) -> Iterator[Evidence]:
    for row in sorted(m.collectives, key=lambda row: -row.exposed_ms)[:ROWS]:
        size = "" if row.message_bytes is None else f" of {digits(row.message_bytes / 1e6)} MB"
        where = f"{row.collective}{size}, group {row.group or 'not recorded'}"
        yield Evidence("exposed time", row.exposed_ms, "ms", where)


def _of_messages(m: Measurements) -> Iterator[Evidence]:
    """What of it is waiting, or else what its messages need, and what would tell of larger ones."""
    waiting = waiting_share(m)
    by_link = by_links_ms(m)
    if waiting is not None:
        yield Evidence(
            "waiting for other ranks", waiting, "share", "of the communication of this rank"
        )
    elif by_link is not None:
        yield Evidence("time at the rate of the links", by_link, "ms", BY_LINK)
    if bucket_size_unknown(m):
        yield Evidence("latency of a message", "not known", "", WOULD_TELL)


def _of_gradients(m: Measurements) -> bool:
    """Whether most of it may be gradients: reductions, in a program that trains."""
    exposed = sum(row.exposed_ms for row in m.collectives)
    reduced = sum(row.exposed_ms for row in m.collectives if row.collective in REDUCTIONS)
    return program(m).training and 2 * reduced >= exposed


def straggler(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """One rank is late at the collectives, or a few by turns, as they compute longer or their
    devices idle."""
    ranks = m.ranks
    if ranks is None or len(ranks.rows) < 2:
        return
    recorded = list(_late_as_recorded(m, ranks))
    advised = m.memo(late_by_replay)
    if advised is not None and not (recorded and set(advised.ranks) == _named(m, ranks)):
        yield _late_without_profiler(m, advised)
    else:
        yield from recorded


def _named(m: Measurements, ranks: RankComparison) -> set[int | None]:
    """The ranks that the finding on the recording names."""
    positions = [one.position for one in holding_up(m)] or [ranks.critical]
    return {ranks.rows[position].rank for position in positions}


def _late_as_recorded(m: Measurements, ranks: RankComparison) -> Iterator[Draft]:
    """The finding on ranks that came late in the recording."""
    if not ranks.rows[ranks.critical].straggler:
        return
    waited = longest_wait_ms(ranks)
    if ranks.late and not holding_up(m):
        return
    if ranks.pipeline is not None:
        yield _in_pipeline(m, ranks.pipeline, ranks.late)
    elif waited is None or waited >= MIN_WAIT_SHARE * m.mean_step_ms:
        yield from _at_collectives(m, ranks, ratio(waited, m.mean_step_ms))


def _late_without_profiler(m: Measurements, late: LateByReplay) -> Draft:
    """The finding on ranks that are late in the replay alone, whose advice has their gain."""
    who = listed(late.ranks)
    title = HOLD_UP[late.how].format(who)
    reason = OF_ONE["more_work" if late.computes else "slow_host"]
    cls: BottleneckClass = "compute" if late.computes else "host"
    if late.loads:
        reason = "it loads its input itself"
        cls = "input"
    if late.how == "alone":
        title = f"{title}: {reason}"
    share_late = Evidence(
        LATE_IN_REPLAY,
        ratio(late.late_ms, m.step.step_ms),
        "share",
        f"{plural('rank', len(late.ranks))} {who}, without the profiler and without waiting for others",
    )
    return Draft("straggler", cls, title, "none", None, [share_late], [])


def _at_collectives(
    m: Measurements, ranks: RankComparison, waited: float | None
) -> Iterator[Draft]:
    why = why_late(m)
    others = _others_ms(ranks)
    mean = sum(others) / len(others)
    excess = (ranks.rows[ranks.critical].compute_ms - mean) * len(others) / len(ranks.rows)
    late = holding_up(m) or (LateRank(ranks.critical, excess),)
    who = listed([ranks.rows[one.position].rank for one in late])
    how = how_late(late)
    title = HOLD_UP[how].format(who)
    evidence = _of_late(m, ranks, waited, mean)
    computes = excess > MIN_WAIT_SHARE * m.mean_step_ms if why is None else why in OF_COMPUTE
    if computes and how != "by turns":
        balance = Proposal(
            said("straggler"), "the work spread evenly over the ranks", name="fix_straggler"
        )
        reasons = OF_ONE if how == "alone" else OF_SEVERAL
        title = f"{title}: {reasons[why or 'more_work']}"
        yield Draft("straggler", "compute", title, "compute", late[0].gain_ms, evidence, [balance])
    else:
        yield from _idles(m, title, who, evidence, alone=how == "alone", of_input=why == "input")


def _others_ms(ranks: RankComparison) -> list[float]:
    """Compute of the ranks that hold nobody up; of the slow one where there are none."""
    others = [row.compute_ms for row in ranks.rows if not row.straggler]
    return others or [ranks.rows[ranks.critical].compute_ms]


def _of_late(
    m: Measurements,
    ranks: RankComparison,
    waited: float | None,
    mean_ms: float,
) -> list[Evidence]:
    """What tells who is late; `waited`: a share of the step, `mean_ms`: compute of the others."""
    slow = ranks.rows[ranks.critical]
    per = m.timed.steps.per
    of_recorded = f"of the recorded {m.timed.steps.unit}"
    own = f"rank {slow.rank}, {per}"
    gains = [
        Evidence(
            "late at the collectives by",
            one.gain_ms,
            "ms",
            f"rank {ranks.rows[one.position].rank}, as recorded",
        )
        for one in holding_up(m)
    ]
    return [
        Evidence(
            "waiting of the rank that waits longest", waited, "share", of_recorded, MIN_WAIT_SHARE
        ),
        *gains,
        Evidence("compute", slow.compute_ms, "ms", own),
        Evidence("compute", mean_ms, "ms", f"mean of the other ranks, {per}"),
        Evidence("idle", slow.idle_ms, "ms", own),
    ]


def _idles(
    m: Measurements, title: str, who: str, evidence: list[Evidence], *, alone: bool, of_input: bool
) -> Iterator[Draft]:
    """Ranks are late because their devices idle, without the profiler, too; one alone counts where
    it idles."""
    budget = m.step.budget
    waits_ms = waiting_ms(m)
    limit = MIN_WAIT_SHARE * m.step.step_ms
    if m.step.basis == "unprofiled" and budget is not None and budget.idle < limit:
        return
    if not gains_without_late(m):
        return
    first = who.replace(",", " ").split()[0]
    find = same_for_all(UNBLOCK.format(rank=who, first=first))
    unblock = Proposal(
        find, "counted in the findings on idle time", name="fix_straggler", alone=alone
    )
    cls: BottleneckClass = "input" if of_input else "host"
    if alone:
        title = f"{title}: {OF_ONE['input' if of_input else 'slow_host']}"
    lost: tuple[Part, float | None] = ("none", None)
    if not alone and waits_ms >= limit:
        lost = ("exposed_communication", waits_ms)
    yield Draft("straggler", cls, title, *lost, evidence, [unblock])


def _in_pipeline(m: Measurements, job: PipelineJob, late: Sequence[LateRank]) -> Draft:
    """A stage that is too heavy in all replicas, or ranks that compute longer than others of their
    stage."""
    ranks = (
        listed([m.ranks.rows[one.position].rank for one in late[:ROWS]])
        if m.ranks is not None
        else ""
    )
    gain_ms = max(one.gain_ms for one in late)
    per = m.timed.steps.per
    ops = job.pipeline.ops
    computing_s = job.usual * ops.of(FORWARD, BACKWARD)
    usual = MS_PER_S * np.bincount(ops.stage, computing_s)
    evidence = [
        Evidence(
            "gain", gain_ms, "ms", "worked out from the operations of the pipeline, as recorded"
        )
    ]
    evidence += [
        Evidence("compute", ms, "ms", f"stage {i}, its middle replica, {per}")
        for i, ms in enumerate(usual)
    ]
    if late[0].stage is None:
        excess = float(job.excess_ms[job.position == late[0].position].mean())
        who = f"Ranks {ranks} compute" if len(late) > 1 else f"Rank {ranks} computes"
        title = f"{who} longer than others of the same stage"
        evidence.insert(
            1, Evidence("longer", excess, "ms", f"rank {ranks.split(',')[0].split(' ')[0]}, {per}")
        )
    else:
        title = f"Stage {late[0].stage} of the pipeline is too heavy"
    return Draft("straggler", "compute", title, "compute", gain_ms, evidence, [])
