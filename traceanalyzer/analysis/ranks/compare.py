"""The ranks of one run side by side: who is slow, who waits for whom, and what collectives really
cost.

A collective's kernel runs from the rank's arrival to the end. From the last rank's arrival on it
transfers; what a rank spent in it before that is waiting for the others (arrival skew), not
communication."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import islice, pairwise

import numpy as np

from traceanalyzer.analysis.algebra import measure, union
from traceanalyzer.analysis.ranks.digest import RankDigest, RunClaim
from traceanalyzer.analysis.ranks.late import LateRank, gains_ms, late_ranks
from traceanalyzer.analysis.ranks.matches import Matches, match_collectives
from traceanalyzer.analysis.ranks.pipeline.job import PipelineJob, pipeline_job
from traceanalyzer.analysis.ranks.skew import Arrivals, CollectiveSkew, arrivals, skew_rows
from traceanalyzer.base import NS_PER_US, MinorNote, dataclass, metric, ms
from traceanalyzer.trace import F64, I64, Bool

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
CLOCK_TOLERANCE_NS = 10 * 10**9  # hosts' clocks differ by less than this
OF_ONE_RANK = "how much of its communication is waiting for the others cannot be told."
"""How the note on a single recording of several ranks ends."""


@dataclass(frozen=True)
class RankRow:
    """One rank of the run in a mean steady step, on the device that did most of its work."""

    rank: int | None = metric(
        "rank of the process; where no rank was recorded its position among the inputs"
    )
    device: int | None = metric("CUDA ordinal of the device; null without device work")
    gain_ms: float | None = metric(
        "what the run would gain a step if the rank came to no collective later than the "
        "last but one, at most the step without what each rank computes; of one that holds it up "
        "what the advice gains without the profiler; null where none were matched",
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

        def order(position: int) -> tuple[bool, float, float]:
            row = self.rows[position]
            return position != self.critical, -(row.gain_ms or 0.0), row.waiting_ms or 0.0

        return sorted(range(len(self.rows)), key=order)


def compare_ranks(
    recordings: Sequence[RankDigest], unread: Sequence[int] = (), matches: Matches | None = None
) -> RankComparison:
    """Compare the ranks of one run (at least one recording); `unread` are ranks whose files could
    not be read, `matches` their collectives where they are matched already."""
    doubt = why_not_one_run([digest.claim for digest in recordings])
    if doubt:
        return _of_several_runs(recordings, doubt)
    if matches is None and len(recordings) > 1:
        matches = match_collectives(recordings)
    ranks = _Ranks(recordings, unread, matches)
    return RankComparison(
        rows=_rows(ranks),
        critical=_first_with_work(recordings) if ranks.critical is None else ranks.critical,
        collectives=tuple(ranks.matched.skew),
        notes=tuple(_notes(ranks)),
        offset_ns=_offsets(ranks),
        late=ranks.late,
        waited_ns=tuple(_waited(times) for times in ranks.matched.by_step),
        pipeline=ranks.pipeline,
    )


def _of_several_runs(recordings: Sequence[RankDigest], doubt: str) -> RankComparison:
    """Recordings that are not ranks of one run, without a comparison."""
    slowest = _longest_step(recordings)
    note = (
        f"These recordings are not of one run ({doubt}): they are not compared as ranks, and the figures of a step "
        "are those of the recording with the longest step."
    )
    return RankComparison(
        rows=tuple(_row(digest, digest.rank, None, Spent(), False) for digest in recordings),
        critical=_first_with_work(recordings) if slowest is None else slowest,
        collectives=(),
        notes=(note,),
    )


def _first_with_work(recordings: Sequence[RankDigest]) -> int:
    """The first recording with work on a device; the first of all where none has any."""
    for position, digest in enumerate(recordings):
        if digest.device is not None:
            return position
    return 0


@dataclass(frozen=True)
class Spent:
    """What a rank spent in communication in a mean step; None where that is not known."""

    waiting_ms: float | None = None
    transfer_ms: float | None = None


@dataclass(frozen=True, eq=False)
class StepTimes:
    """What a recording waited and transferred in each of its steps, ns."""

    waited: I64
    transferred: I64


@dataclass(frozen=True, eq=False)
class _Matched:
    """What matched collectives tell; nothing where there are none."""

    by_step: Sequence[StepTimes | None]  # of each recording; None of one without matched ones
    skew: Sequence[CollectiveSkew] = ()
    gains_ms: Mapping[int, float] = field(default_factory=dict)  # by position
    late: tuple[LateRank, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether any recording has matched collectives."""
        return any(times is not None for times in self.by_step)


@dataclass(frozen=True, eq=False)
class _Ranks:
    """The ranks of one run with what is worked out from them, each once."""

    recordings: Sequence[RankDigest]
    unread: Sequence[int]
    matches: Matches | None

    @cached_property
    def labels(self) -> list[int]:
        """The rank of each recording, its position where none was recorded."""
        return [
            position if digest.rank is None else digest.rank
            for position, digest in enumerate(self.recordings)
        ]

    @cached_property
    def matched(self) -> _Matched:
        """What their matched collectives tell."""
        return _matched(self.recordings, self.matches, self.labels)

    @cached_property
    def _pipeline(self) -> tuple[PipelineJob | None, str]:
        clocks = None if self.matches is None else self.matches.clocks
        return pipeline_job(self.recordings, None if clocks is None else clocks.offset)

    @property
    def pipeline(self) -> PipelineJob | None:
        """The pipeline that they make."""
        return self._pipeline[0]

    @property
    def pipeline_note(self) -> str:
        """Why the slowdown of their pipeline is not known; empty where it is, or there is none."""
        return self._pipeline[1]

    @property
    def late(self) -> tuple[LateRank, ...]:
        """Who holds up the run. A rank that is late delays all stages of its replica: of a pipeline
        collectives alone would name them all."""
        if self.pipeline is not None:
            return self.pipeline.late
        return () if self.pipeline_note else self.matched.late

    @property
    def gains_ms(self) -> Mapping[int, float]:
        """By position, what a step gains without what a rank is late by."""
        return self.matched.gains_ms if self.pipeline is None else self.pipeline.gains_ms

    @cached_property
    def spent(self) -> list[Spent]:
        """What each spent in communication: by matched collectives, else by those that are alike
        in different steps."""
        if not self.matched.is_known:
            alike = _of_different_steps(self.recordings)
            if alike is not None:
                return alike
        return [
            _spent(digest, times)
            for digest, times in zip(self.recordings, self.matched.by_step, strict=True)
        ]

    @cached_property
    def critical(self) -> int | None:
        """The rank that the report speaks of; None: nothing tells. By the first of these rules
        that names one. The longest step is often that of who waited."""
        for rule in (_latest, _awaited, _slowest, _busiest):
            position = rule(self)
            if position is not None:
                return position
        return None

    @property
    def holding(self) -> set[int]:
        """Positions of those that hold up the run."""
        if self.matched.is_known or self.pipeline is not None:
            return {late.position for late in self.late}
        return set() if self.critical is None else {self.critical}

    @property
    def is_waiting_known(self) -> bool:
        """Whether any is known to have waited."""
        return any(spent.waiting_ms for spent in self.spent)


def _rows(ranks: _Ranks) -> tuple[RankRow, ...]:
    holding = ranks.holding
    return tuple(
        _row(
            digest,
            ranks.labels[position],
            ranks.gains_ms.get(position),
            ranks.spent[position],
            position in holding,
        )
        for position, digest in enumerate(ranks.recordings)
    )


def _spent(digest: RankDigest, times: StepTimes | None) -> Spent:
    if times is None:
        return Spent()
    return Spent(
        waiting_ms=ms(digest.per_step(times.waited)),
        transfer_ms=ms(digest.per_step(times.transferred)),
    )


def _waited(times: StepTimes | None) -> tuple[int, ...] | None:
    return None if times is None else tuple(times.waited.tolist())


def _offsets(ranks: _Ranks) -> tuple[int, ...] | None:
    """What to subtract from each recording's times; None where clocks could not be compared."""
    if ranks.matches is not None and ranks.matches.clocks.comparable:
        return tuple(ranks.matches.clocks.offset.tolist())
    return (0,) if len(ranks.recordings) == 1 else None


def _notes(ranks: _Ranks) -> Iterator[str]:
    if ranks.pipeline_note:
        yield ranks.pipeline_note
    yield from _missing(ranks.recordings, ranks.labels, ranks.unread)
    yield from _clock_notes(ranks.matches, ranks.labels)


def _matched(
    recordings: Sequence[RankDigest], matches: Matches | None, labels: Sequence[int]
) -> _Matched:
    if matches is None or not len(matches):
        return _Matched([None] * len(recordings))
    came = arrivals(matches)
    steps = max(digest.steps.steady_count for digest in recordings)
    step_ms = max(ms(digest.mean_step_ns) for digest in recordings)
    least_compute_ms = min(ms(_undisturbed_compute_ns(digest)) for digest in recordings)
    # Hosts that run ahead come later than a step is long: without their delay the run still
    # computes.
    gains = np.minimum(gains_ms(matches, came, steps), step_ms - least_compute_ms)
    return _Matched(
        by_step=[
            _step_times(digest, position, matches, came)
            for position, digest in enumerate(recordings)
        ],
        skew=skew_rows(matches, came, labels, steps),
        gains_ms=dict(enumerate(gains.tolist())),
        late=late_ranks(matches, came, gains, steps, step_ms),
    )


def _step_times(
    digest: RankDigest, position: int, matches: Matches, came: Arrivals
) -> StepTimes | None:
    """Time of a rank in matched collectives, before and from the last rank's arrival on."""
    parts = matches.of_rank[position]
    if not len(parts):
        return None
    offset = matches.clocks.offset[position]
    start = matches.start[parts] + offset
    end = matches.end[parts] + offset
    last = np.minimum(came.last[matches.collective[parts]] + offset, end)
    steps = digest.steps
    transferred = measure(union(last, end), steps.start, steps.end)
    in_calls = measure(union(start, end), steps.start, steps.end)
    return StepTimes(waited=in_calls - transferred, transferred=transferred)


def _undisturbed_compute_ns(digest: RankDigest) -> float:
    """Compute of a steady step as long as it takes without communication beside it."""
    calls = digest.calls
    within = calls.step >= 0
    slowed = np.bincount(calls.step[within], calls.slowed[within], len(digest.compute))
    return digest.per_step((digest.compute - slowed).astype(np.int64))


def _latest(ranks: _Ranks) -> int | None:
    """The rank without which the run would gain most."""
    return ranks.late[0].position if ranks.late else None


def _awaited(ranks: _Ranks) -> int | None:
    """The rank that waits least in collectives, None where the others do not wait markedly
    longer."""
    if not ranks.is_waiting_known:
        return None
    known = {i: s.waiting_ms for i, s in enumerate(ranks.spent) if s.waiting_ms is not None}
    if len(known) < 2:
        return None
    least = min(known, key=known.__getitem__)
    others = float(np.median([waiting for i, waiting in known.items() if i != least]))
    step_ms = ms(ranks.recordings[least].mean_step_ns)
    return least if others - known[least] > WAITING_SHARE * step_ms else None


def _slowest(ranks: _Ranks) -> int | None:
    """Where no waiting is known, the rank with the longest mean step."""
    return None if ranks.is_waiting_known else _longest_step(ranks.recordings)


def _busiest(ranks: _Ranks) -> int | None:
    """Where no waiting is known, the rank that computes markedly longer a step than the middle one
    (stages of a pipeline have equal steps); None where none exchange."""
    recordings = ranks.recordings
    chosen = [
        i for i, digest in enumerate(recordings) if digest.device is not None and digest.steps.found
    ]
    if ranks.is_waiting_known or len(chosen) < 2:
        return None
    if not all(recordings[i].collectives for i in chosen):
        return None
    compute = np.array([recordings[i].per_step(recordings[i].compute) for i in chosen])
    most = int(compute.argmax())
    least = MORE_COMPUTE_SHARE * recordings[chosen[most]].mean_step_ns
    more = compute[most] - float(np.median(np.delete(compute, most)))
    return chosen[most] if more > least else None


def why_not_one_run(claims: Sequence[RunClaim]) -> str:
    """What tells that the recordings are not ranks of one run; empty if nothing does."""
    if len(claims) < 2:
        return ""
    ranks = {claim.rank for claim in claims}
    sizes = {claim.world_size for claim in claims if claim.world_size is not None}
    if None in ranks and len(ranks) > 1:
        return "only some of them have a rank"
    if None not in ranks and len(ranks) < len(claims):
        return "several say they are the same rank"
    if len(sizes) > 1:
        return "they state different numbers of ranks"
    last_start_ns = max(claim.start_ns for claim in claims)
    first_end_ns = min(claim.end_ns for claim in claims)
    if last_start_ns > first_end_ns + CLOCK_TOLERANCE_NS:
        return "they were recorded at different times"
    return ""


def _row(
    digest: RankDigest,
    label: int | None,
    gain_ms: float | None,
    spent: Spent,
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
        waiting_ms=spent.waiting_ms,
        transfer_ms=spent.transfer_ms,
        idle_ms=ms(digest.per_step(duration - digest.busy)) if digest.device is not None else None,
        straggler=late,
    )


def _of_different_steps(recordings: Sequence[RankDigest]) -> list[Spent] | None:
    """Waiting and transfer of each rank in a mean step where ranks recorded different steps: all
    make the same collectives in each, which take as long as on the quickest rank, and what they
    take longer is waiting. None where they are not the same, where a rank does not wait in each of
    its steps, or where steps are not about as long."""
    if len(recordings) < 2 or not _are_apart(recordings):
        return None
    steps = [digest.mean_step_ns for digest in recordings]
    kinds = {kinds for digest in recordings for kinds in _kinds_by_step(digest)}
    if len(kinds) > 1 or not any(kinds) or min(steps) < ALIKE_SHARE * max(steps):
        return None
    in_calls = [_in_calls_ns(digest) for digest in recordings]
    transfer_ns = min(float(np.median(times)) for times in in_calls)
    waiting_ns = [float(np.median(times)) - transfer_ns for times in in_calls]
    longest = int(np.argmax(waiting_ns))
    if in_calls[longest].min() - transfer_ns < EACH_STEP_SHARE * waiting_ns[longest]:
        return None
    return [Spent(ms(waited), ms(transfer_ns)) for waited in waiting_ns]


def _are_apart(recordings: Sequence[RankDigest]) -> bool:
    """Whether all have steps on a device, and known clocks, and were recorded one after the
    other."""
    spans = []
    for digest in recordings:
        if digest.device is None or not digest.steps.found or not digest.epoch_ns:
            return False
        first = int(digest.steps.host_start[0]) + digest.epoch_ns
        spans.append((first, int(digest.steps.host_end[-1]) + digest.epoch_ns))
    return all(after[0] >= before[1] for before, after in pairwise(sorted(spans)))


def _rows_by_step(digest: RankDigest) -> list[Bool]:
    """Which calls are in each steady step."""
    steady = range(len(digest.steps))[digest.steps.steady]
    return [digest.calls.step == step for step in steady]


def _kinds_by_step(digest: RankDigest) -> list[tuple[int, ...]]:
    """The kinds of the calls of each steady step, in order."""
    return [tuple(digest.calls.kind[rows].tolist()) for rows in _rows_by_step(digest)]


def _in_calls_ns(digest: RankDigest) -> F64:
    """Time in calls in each steady step."""
    calls = digest.calls
    times = [union(calls.start[rows], calls.end[rows]).total for rows in _rows_by_step(digest)]
    return np.array(times, np.float64)


def _longest_step(recordings: Sequence[RankDigest]) -> int | None:
    """The rank with the longest mean step, None where the ranks do not differ by more than
    noise."""
    chosen = [
        i
        for i, digest in enumerate(recordings)
        if digest.device is not None or digest.only_step_times
    ]
    times = [_steady_steps_ns(recordings[i]) for i in chosen if recordings[i].steps.found]
    if len(times) < max(len(chosen), 2):
        return None
    means = np.array([steps.mean() for steps in times])
    errors = np.array([_error_of_mean(steps) for steps in times])
    longest = int(means.argmax())
    shortest = int(means.argmin())
    by_steps = NOISE_ERRORS * float(np.hypot(errors[longest], errors[shortest]))
    noise = max(STEP_NOISE_SHARE * means[longest], by_steps)
    return chosen[longest] if means[longest] - means[shortest] > noise else None


def _steady_steps_ns(digest: RankDigest) -> I64:
    return digest.steps.duration[digest.steps.steady]


def _error_of_mean(values: I64) -> float:
    """Standard error; 0 of a single value."""
    return float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0


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
    gone = []
    if count:
        gone.append(f"{count} of {world} ranks are missing ({missing})")
    if broken:
        gone.append(
            f"the files of {len(broken)} of {world} ranks could not be read "
            f"({_listed(broken, len(broken))})"
        )
    if gone and len(recordings) > 1:
        text = (
            f"{', and '.join(gone)}: who is waited for, and for how long, is known among the "
            "others only."
        )
        yield text[0].upper() + text[1:]
    elif count:
        yield f"The run has {world} ranks and this is the recording of one: {OF_ONE_RANK}"


def _listed(ranks: Iterable[int], count: int) -> str:
    """The first of so many; a run may claim to have millions."""
    first = list(islice(ranks, LISTED_RANKS))
    shown = ", ".join(map(str, first))
    return f"{shown} and {count - len(first)} more" if count > len(first) else shown


def _clock_notes(matches: Matches | None, labels: list[int]) -> list[str]:
    if matches is None:
        return []
    offsets = zip(labels, matches.clocks.corrected.tolist(), strict=True)
    corrected = [
        f"rank {label} by {offset / NS_PER_US:+.1f} us" for label, offset in offsets if offset
    ]
    shown = ", ".join(corrected[:LISTED_RANKS]) + (", ..." if len(corrected) > LISTED_RANKS else "")
    aligned = MinorNote(f"The ranks' clocks were aligned by the ends of collectives: {shown}.")
    return [*matches.notes, *([aligned] if corrected and len(matches) else [])]
