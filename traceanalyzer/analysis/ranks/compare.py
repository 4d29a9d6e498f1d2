"""The ranks of one run side by side: who is slow, who waits for whom, and what collectives really
cost.

A collective's kernel runs from the rank's arrival to the end. From the last rank's arrival on it
transfers; what a rank spent in it before that is waiting for the others (arrival skew), not
communication."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import measure, union
from traceanalyzer.analysis.ranks.digest import Claim, RankDigest
from traceanalyzer.analysis.ranks.late import LateRank, gains_ms, late_ranks
from traceanalyzer.analysis.ranks.matches import Matches, match_collectives
from traceanalyzer.analysis.ranks.pipeline.job import PipelineJob, pipeline_job
from traceanalyzer.analysis.ranks.skew import CollectiveSkew, arrivals, skew_rows
from traceanalyzer.base import NS_PER_US, Aside, dataclass, metric, ms
from traceanalyzer.trace import I64

STEP_NOISE_SHARE = 0.02
"""Mean step times of equal ranks differ by about 1 % (clock, temperature): less than this tells
nothing."""
NOISE_ERRORS = 3.0  # nor does a difference within this many standard errors of the means
WAITING_SHARE = 0.03
"""The others must wait this share of a step longer than a rank for it to hold them up: GPUs given
the same work differ by 2 %."""
MORE_COMPUTE_SHARE = 0.1
"""Who computes for this share of the step longer than the others is whom they wait for, where
nothing else tells."""
ALIKE_SHARE = 0.7
"""Ranks that wait for each other have steps of one length, however different the moments of their
recordings."""
EACH_STEP_SHARE = 0.5
"""A rank that waits for another waits in each step; once, it may wait for the other's profiler to
start or stop."""
LISTED_RANKS = 8  # missing ranks named one by one


@dataclass(frozen=True)
class RankRow:
    """One rank of the run in a mean steady step, on the device that did most of its work."""

    rank: int | None = metric(
        "rank of the process; where no rank was recorded its position among the inputs"
    )
    device: int | None = metric("CUDA ordinal of the device; null without device work")
    gain_ms: float | None = metric(
        "what the run would gain a step if the rank came to no collective later than the "
        "last but one, at most the step without what each rank computes; null where none "
        "were matched",
        default=None,
        kw_only=True,
    )
    step_mean_ms: float | None = metric("mean step time; null without steps")
    step_median_ms: float | None = metric("median step time; null without steps")
    compute_ms: float = metric("time with compute on the device a step (0 without device work)")
    communication_ms: float = metric(
        "time with a collective on the device a step, waiting included"
    )
    waiting_ms: float | None = metric(
        "time a step in collectives of which another rank had not arrived yet; where "
        "ranks recorded different steps what the same collectives take longer than on "
        "the quickest rank; null where none are alike"
    )
    transfer_ms: float | None = metric(
        "time a step in collectives at which all ranks had arrived; null where none were matched"
    )
    idle_ms: float | None = metric(
        "time a step without work on the device; null without device work"
    )
    straggler: bool = metric(
        "whether it holds up the run: without what it is late by, repeatedly, the run would gain "
        "5 % of the step or more; where ranks share no collectives its step is the "
        "longest"
    )


CLOCK_TOLERANCE_NS = 10 * 10**9  # hosts' clocks differ by less than this


@dataclass(frozen=True)
class RankComparison:
    """The ranks of a run compared. `rows` has one entry a recording, in the order they were given
    in."""

    rows: tuple[RankRow, ...]
    critical: int  # index of the rank that the report speaks of
    collectives: tuple[CollectiveSkew, ...]
    notes: tuple[str, ...]
    offset_ns: tuple[int, ...] | None = None
    """What to subtract from each recording's times to have them on the first one's clock; None: not
    known."""
    late: tuple[LateRank, ...] = ()
    """The ranks that hold up the run at matched collectives, by what it would gain; several by
    turns or together."""
    waited_ns: tuple[tuple[int, ...] | None, ...] = ()
    """What each recording waited in each of its steps, in matched collectives; None where none were
    matched."""
    pipeline: PipelineJob | None = None  # the pipeline that they make

    @property
    def worst_first(self) -> list[int]:
        """Positions of the recordings: the critical one, then by what the run would gain, then by
        what they wait."""
        keys = [
            (i != self.critical, -(one.gain_ms or 0.0), one.waiting_ms or 0.0)
            for i, one in enumerate(self.rows)
        ]
        return sorted(range(len(keys)), key=keys.__getitem__)


def compare_ranks(
    recordings: Sequence[RankDigest], unread: Sequence[int] = (), matches: Matches | None = None
) -> RankComparison:
    """Compare the ranks of one run (at least one recording); `unread` are ranks whose files could
    not be read, `matches` their collectives where they are matched already.

    The critical rank is the one without which the run would gain most, else the one that waits
    least for the others in matched collectives, where they wait markedly longer; where none are
    matched the one with the longest mean step, where it differs from the shortest by more than
    noise, or else the one that computes markedly longer than the others (stages of a pipeline have
    equal steps); else the first with work on a device."""
    # The first recording with work on a device; the first of all where none has any.
    first = next((i for i, digest in enumerate(recordings) if digest.device is not None), 0)
    if doubt := why_not_one_run([digest.claim for digest in recordings]):
        rows = [_row(digest, digest.rank, None, (None, None), False) for digest in recordings]
        note = (
            f"These recordings are not of one run ({doubt}): they are not compared as ranks, and the figures of a step "
            "are those of the recording with the longest step."
        )
        slowest = _slowest(recordings)
        return RankComparison(tuple(rows), first if slowest is None else slowest, (), (note,))
    labels = [i if digest.rank is None else digest.rank for i, digest in enumerate(recordings)]
    if matches is None and len(recordings) > 1:
        matches = match_collectives(recordings)
    found = _matched(recordings, matches, labels)
    clocks = None if matches is None else matches.clocks
    alone = (0,) if len(recordings) == 1 else None
    job, unknown = pipeline_job(recordings, clocks and clocks.offset)
    # A rank that is late delays all stages of its replica: collectives alone would name them all.
    late, gains = (
        (() if unknown else found.late, found.gains_ms) if job is None else (job.late, job.gains_ms)
    )
    spent: list[tuple[float | None, float | None]] = [
        (ms(one.per_step(times[0])), ms(one.per_step(times[1]))) if times else (None, None)
        for one, times in zip(recordings, found.by_step, strict=True)
    ]
    if not any(found.by_step):
        spent = _of_different_steps(recordings) or spent
    critical = _critical(recordings, [waiting for waiting, _ in spent], late)
    holding = (
        {one.position for one in late} if any(found.by_step) or job is not None else {critical}
    )
    rows = [
        _row(one, labels[i], gains.get(i), spent[i], i in holding)
        for i, one in enumerate(recordings)
    ]
    return RankComparison(
        tuple(rows),
        first if critical is None else critical,
        tuple(found.skew),
        (
            *filter(None, [unknown]),
            *_missing(recordings, labels, unread),
            *_clock_notes(matches, labels),
        ),
        tuple(clocks.offset.tolist()) if clocks and clocks.comparable else alone,
        late,
        tuple(one and tuple(one[0].tolist()) for one in found.by_step),
        job,
    )


class _Matched(NamedTuple):
    """What matched collectives tell; nothing where there are none."""

    by_step: Sequence[tuple[I64, I64] | None]
    """Of each recording what it waited in each step, and what was transferred, ns."""
    skew: Sequence[CollectiveSkew] = ()
    gains_ms: Mapping[int, float] = {}  # by position
    late: tuple[LateRank, ...] = ()


def _matched(
    recordings: Sequence[RankDigest], matches: Matches | None, labels: Sequence[int]
) -> _Matched:
    if matches is None or not len(matches):
        return _Matched([None] * len(recordings))
    came = arrivals(matches)
    steps = max(digest.steps.steady_count for digest in recordings)
    step_ms = max(ms(digest.mean_step_ns) for digest in recordings)
    by_step = []
    compute = []
    for i, digest in enumerate(recordings):
        here = matches.of_rank[i]
        spans = digest.steps
        offset = matches.clocks.offset[i]
        calls = digest.calls
        start = matches.start[here] + offset
        end = matches.end[here] + offset
        last = np.minimum(came.last[matches.collective[here]] + offset, end)
        moving = measure(union(last, end), spans.start, spans.end)
        by_step.append(
            (measure(union(start, end), spans.start, spans.end) - moving, moving)
            if len(here)
            else None
        )
        # compute of a steady step as long as it takes without communication beside it
        within = calls.step >= 0
        slowed = np.bincount(calls.step[within], calls.slowed[within], len(digest.compute))
        compute.append(ms(digest.per_step((digest.compute - slowed).astype(np.int64))))
    # Hosts that run ahead come later than a step is long: without their delay the run still
    # computes.
    gains = np.minimum(gains_ms(matches, came, steps), step_ms - min(compute))
    late = late_ranks(matches, came, gains, steps, step_ms)
    return _Matched(
        by_step, skew_rows(matches, came, labels, steps), dict(enumerate(gains.tolist())), late
    )


def _critical(
    recordings: Sequence[RankDigest], waiting: Sequence[float | None], late: Sequence[LateRank]
) -> int | None:
    """The rank that the report speaks of; None: nothing tells. The longest step is often that of
    who waited."""
    if late:
        return late[0].position
    if any(waiting):
        return _awaited(recordings, waiting)
    slowest = _slowest(recordings)
    return _busiest(recordings) if slowest is None else slowest


def why_not_one_run(claims: Sequence[Claim]) -> str:
    """What tells that the recordings are not ranks of one run; empty if nothing does."""
    if len(claims) < 2:
        return ""
    ranks, sizes, starts, ends = (set(values) for values in zip(*claims, strict=True))
    if None in ranks and len(ranks) > 1:
        return "only some of them have a rank"
    if None not in ranks and len(ranks) < len(claims):
        return "several say they are the same rank"
    if len(sizes - {None}) > 1:
        return "they state different numbers of ranks"
    return (
        "they were recorded at different times"
        if max(starts) > min(ends) + CLOCK_TOLERANCE_NS
        else ""
    )


def _row(
    digest: RankDigest,
    label: int | None,
    gain_ms: float | None,
    spent: tuple[float | None, float | None],
    late: bool,
) -> RankRow:
    steps = digest.steps
    duration = digest.steps.duration
    return RankRow(
        rank=label,
        device=digest.device,
        gain_ms=gain_ms,
        step_mean_ms=ms(digest.mean_step_ns) if steps.found else None,
        step_median_ms=ms(float(np.median(duration[steps.steady]))) if steps.found else None,
        compute_ms=ms(digest.per_step(digest.compute)),
        communication_ms=ms(digest.per_step(digest.communication)),
        waiting_ms=spent[0],
        transfer_ms=spent[1],
        idle_ms=ms(digest.per_step(duration - digest.busy)) if digest.device is not None else None,
        straggler=late,
    )


def _of_different_steps(
    recordings: Sequence[RankDigest],
) -> list[tuple[float | None, float | None]] | None:
    """Waiting and transfer of each rank in a mean step, ms, where ranks recorded different steps:
    all make the same collectives in each, which take as long as on the quickest rank, and what they
    take longer is waiting. None where they are not the same, where a rank does not wait in each of
    its steps, or where steps are not about as long."""
    if len(recordings) < 2 or any(
        digest.device is None or not digest.steps.found for digest in recordings
    ):
        return None
    epochs = [(digest.steps, digest.epoch_ns) for digest in recordings]
    spans = sorted(
        (int(s.host_start[0]) + epoch, int(s.host_end[-1]) + epoch) for s, epoch in epochs
    )
    if not all(epoch for _, epoch in epochs) or any(b[0] < a[1] for a, b in pairwise(spans)):
        return None
    spent = []
    kinds = set()
    steps = [digest.mean_step_ns for digest in recordings]
    for calls, of_rank in ((digest.calls, digest.steps) for digest in recordings):
        here = [calls.step == step for step in range(len(of_rank))[of_rank.steady]]
        spent.append(
            np.array([float(union(calls.start[rows], calls.end[rows]).total) for rows in here])
        )
        kinds |= {tuple(calls.kind[rows].tolist()) for rows in here}
    if len(kinds) > 1 or not any(kinds) or min(steps) < ALIKE_SHARE * max(steps):
        return None
    transfer = min(float(np.median(one)) for one in spent)
    waiting = [float(np.median(one)) - transfer for one in spent]
    longest = int(np.argmax(waiting))
    in_each = spent[longest].min() - transfer >= EACH_STEP_SHARE * waiting[longest]
    return [(ms(one), ms(transfer)) for one in waiting] if in_each else None


def _slowest(recordings: Sequence[RankDigest]) -> int | None:
    """The rank with the longest mean step, None where the ranks do not differ by more than
    noise."""
    chosen = [
        i
        for i, digest in enumerate(recordings)
        if digest.device is not None or digest.only_step_times
    ]
    times = [
        recordings[i].steps.duration[recordings[i].steps.steady]
        for i in chosen
        if recordings[i].steps.found
    ]
    if len(times) < max(len(chosen), 2):
        return None
    mean = np.array([*map(np.mean, times)])
    error = np.array([t.std(ddof=1) / np.sqrt(len(t)) if len(t) > 1 else 0.0 for t in times])
    longest = int(mean.argmax())
    shortest = int(mean.argmin())
    noise = max(
        STEP_NOISE_SHARE * mean[longest],
        NOISE_ERRORS * float(np.hypot(error[longest], error[shortest])),
    )
    return chosen[longest] if mean[longest] - mean[shortest] > noise else None


def _busiest(recordings: Sequence[RankDigest]) -> int | None:
    """The rank that computes markedly longer a step than the middle one; None without, or where
    none exchange."""
    chosen = [
        i for i, digest in enumerate(recordings) if digest.device is not None and digest.steps.found
    ]
    if len(chosen) < 2 or not all(recordings[i].collectives for i in chosen):
        return None
    compute = np.array([recordings[i].per_step(recordings[i].compute) for i in chosen])
    most = int(compute.argmax())
    steps = recordings[chosen[most]].steps
    least = MORE_COMPUTE_SHARE * float(steps.duration[steps.steady].mean())
    return (
        chosen[most] if compute[most] - float(np.median(np.delete(compute, most))) > least else None
    )


def _awaited(recordings: Sequence[RankDigest], waiting: Sequence[float | None]) -> int | None:
    """The rank that waits least in collectives, None where the others do not wait markedly
    longer."""
    known = {i: w for i, w in enumerate(waiting) if w is not None}
    if len(known) < 2:
        return None
    least = min(known, key=known.__getitem__)
    others = float(np.median([w for i, w in known.items() if i != least]))
    return (
        least
        if others - known[least] > WAITING_SHARE * ms(recordings[least].mean_step_ns)
        else None
    )


def _missing(
    recordings: Sequence[RankDigest], labels: list[int], unread: Sequence[int]
) -> Iterator[str]:
    twice = sorted(label for label, claims in Counter(labels).items() if claims > 1)
    if twice:
        yield (
            f"More than one recording says it is rank {_listed(twice, len(twice))}; they may "
            "not be of one run."
        )
    yield from _absent(recordings, labels, unread)
    without = [
        label for label, digest in zip(labels, recordings, strict=True) if digest.device is None
    ]
    if without and len(without) < len(recordings):
        yield f"No device work was recorded on rank {_listed(without, len(without))}."


def _absent(
    recordings: Sequence[RankDigest], labels: list[int], unread: Sequence[int]
) -> Iterator[str]:
    world = max(digest.claim.world_size or 0 for digest in recordings)
    known = set(labels).intersection(range(world))
    broken = sorted(set(unread).intersection(range(world)) - known)
    count = world - len(known) - len(broken)
    present = known.union(broken)
    missing = _listed((rank for rank in range(world) if rank not in present), count)
    gone = [f"{count} of {world} ranks are missing ({missing})"] if count else []
    unreadable = (
        f"the files of {len(broken)} of {world} ranks could not be read "
        f"({_listed(broken, len(broken))})"
    )
    gone += [unreadable] if broken else []
    if gone and len(recordings) > 1:
        text = (
            f"{', and '.join(gone)}: who is waited for, and for how long, is known among the "
            "others only."
        )
        yield text[0].upper() + text[1:]
    elif count:
        text = "how much of its communication is waiting for the others cannot be told."
        yield f"The run has {world} ranks and this is the recording of one: {text}"


def _listed(ranks: Iterable[int], count: int) -> str:
    """The first of so many; a run may claim to have millions."""
    first = list(islice(ranks, LISTED_RANKS))
    return ", ".join(map(str, first)) + (
        f" and {count - len(first)} more" if count > len(first) else ""
    )


def _clock_notes(matches: Matches | None, labels: list[int]) -> list[str]:
    if matches is None:
        return []
    offsets = zip(labels, matches.clocks.corrected.tolist(), strict=True)
    corrected = [
        f"rank {label} by {offset / NS_PER_US:+.1f} us" for label, offset in offsets if offset
    ]
    shown = ", ".join(corrected[:LISTED_RANKS]) + (", ..." if len(corrected) > LISTED_RANKS else "")
    aligned = Aside(f"The ranks' clocks were aligned by the ends of collectives: {shown}.")
    return [*matches.notes, *([aligned] if corrected and len(matches) else [])]
