"""The rank that others wait for."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from traceanalyzer.analysis.names.collectives import POINT_TO_POINT
from traceanalyzer.analysis.ranks.compare import RankComparison, RankRow
from traceanalyzer.analysis.ranks.late import EXPLAINED, SAME_WORK, LateRank
from traceanalyzer.base import NS_PER_MS, dataclass, digits, plural
from traceanalyzer.diagnosis.finding import BottleneckClass, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import tapes_of_others
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, words
from traceanalyzer.replay.changes.data.loading import (
    loaded_by_workers,
    loading_ns,
    not_faster_than,
)
from traceanalyzer.replay.changes.syncs.syncs import is_read
from traceanalyzer.replay.host_speed import SAME_PROGRAM, host_scaled
from traceanalyzer.replay.patterns.working_ranks import ranks_that_work_longer
from traceanalyzer.replay.scenario import Scenario, lower_median
from traceanalyzer.replay.scenarios import NO_STRAGGLER
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.together import without_meetings, without_work
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import F64, distinct

MIN_SHARE = 0.05
"""Share of the step that a rank must wait for another, or have more to do, before that one holds up
the run."""
LATE_SHARE = 0.08
"""Share of the step by which the latest rank must be later than the others. Two that do the same
differ by up to six percent, in what their hosts work, or in kernels that collectives slow."""
MORE_WORK_SHARE = 0.1
"""Share of the step that its host must work longer to be why: equal ones differ by up to six
percent there, too."""
LOAD_OF_OTHERS = 0.1
"""Ranks that wait for input no longer than this share of what one loads are not held up by it."""
EQUAL_GPUS = 1.05  # the same kernels of equal GPUs differ by less


LATE_IN_REPLAY = "gain without what is late, by replay"
"""The evidence of a finding on ranks that are late in the replay alone."""
LOADS_ITSELF: tuple[str, BottleneckClass] = ("straggler", "input")
"""What advice on a rank that loads its input itself is against."""
Cause = Literal["slow_gpu", "more_work", "slow_host", "input"]
OF_ONE: Mapping[Cause, str] = {
    "slow_gpu": "its kernels take longer for the same work",
    "more_work": "it computes longer",
    "slow_host": "its host is late",
    "input": "its input is late",
}
OF_SEVERAL: Mapping[Cause, str] = {
    "slow_gpu": "slow GPUs",
    "more_work": "more work",
    "slow_host": "slow hosts",
    "input": "late input",
}
"""Why ranks are late, in words."""


class _Work(NamedTuple):
    """What each rank has to do in a step, without the profiler."""

    compute_ms: F64
    host_ms: F64
    """Work and loading of the host, dispatch left out: how long that takes differs from host to
    host by chance, and the profiler makes more of it."""
    launches: F64
    """Operators that launch, and launches outside of any: how many kernels make a product is the
    library's choice."""
    waits: F64
    loading_ms: F64  # part of `host_ms` on input data
    threads: F64  # that its kernels are launched with; less than 0 where those of one are not known


@remedy("fix_straggler", "communication")
def fix_straggler(m: Measurements) -> Offer | None:
    """Where one rank has more to do than the others: more data, more kernels, or more work of its
    host."""
    replay = m.replay
    ranks = m.ranks
    if replay is None or ranks is None or len(ranks.rows) < 2:
        return None
    if ranks.pipeline is not None:
        return _of_pipeline(ranks, replay) if ranks.late else None
    if len(replay.typical) < 2:
        return _of_its_host(m, ranks, ranks.rows[ranks.critical]) or _of_its_stage(m, ranks.rows)
    run = _run_of(m, replay)
    return next(filter(None, (way(m, run) for way in _ways())), None)


def _ways() -> tuple[Callable[[Measurements, "_Run"], Offer | None], ...]:
    """What may be wrong with ranks that are replayed together, the surest first."""
    return (
        _by_turns,
        _with_slow_gpus,
        _that_loads_itself,
        _several_work_longer,
        _whose_host_works,
        _uneven,
        _with_more_to_do,
    )


@dataclass(frozen=True)
class LateByReplay:
    """Ranks that hold up the run without the profiler, whatever came late as recorded."""

    ranks: tuple[int | None, ...]
    late_ms: float  # what the run gains without what they are late by
    computes: bool  # whether most of that is their kernels' time
    how: str  # `alone`, `together` or `by turns`
    loads: bool = False  # whether it loads its input itself, while workers bring it to the others


def late_by_replay(m: Measurements) -> LateByReplay | None:
    """The ranks that advice wants to have fixed although what comes late as recorded does not hold
    up the run; None where there are none, or the run hardly gains without what they do."""
    replay = m.replay
    several = m.ranks is not None and len(m.ranks.rows) > 1 and m.ranks.pipeline is None
    if replay is None or not several or len(replay.typical) < 2:
        return None
    run = _run_of(m, replay)
    offer = next(filter(None, (way(m, run) for way in _ways())), None)
    if offer is None or not offer.ranks:
        return None
    gain_ms = replay.gain_ms(offer.scenario)
    cautious_ms = replay.pessimistic_gain_ms(offer.scenario)
    least_ms = fix_straggler.least_gain * fix_straggler.min_pessimistic_share * replay.base_ms
    if gain_ms < MIN_SHARE * replay.base_ms or cautious_ms < least_ms:
        return None
    times = run.work.compute_ms
    named = [i for i, name in enumerate(run.names) if name in offer.ranks]
    others = np.delete(times, named)
    more_ms = float(times[named].max() - others.mean()) if len(others) else 0.0
    return LateByReplay(
        ranks=offer.ranks,
        late_ms=gain_ms,
        computes=more_ms >= MIN_SHARE * replay.base_ms,
        how=_how(offer, replay),
        loads=offer.against == LOADS_ITSELF,
    )


def _how(offer: Offer, replay: Replay) -> str:
    if len(offer.ranks) < 2:
        return "alone"
    several = ranks_that_work_longer(replay.recorded)
    return "by turns" if several is not None and not several.at_once else "together"


def _run_of(m: Measurements, replay: Replay) -> "_Run":
    tapes = replay.typical
    late = late_tapes(m)
    names = [_rank(tape) for tape in tapes]
    return _Run(replay, tapes, names, _work(tapes), late, how_late(holding_up(m)))


class _Run(NamedTuple):
    """Ranks that are replayed together."""

    replay: Replay
    tapes: Sequence[Tape]
    names: list[int | None]
    work: _Work
    late: list[int]  # positions of those that hold it up
    how: str


def how_late(late: Sequence[LateRank]) -> str:
    """Whether ranks hold up the run `alone`, `together` or `by turns`."""
    if late and late[0].together:
        return "together"
    return "by turns" if len(late) > 1 else "alone"


def _by_turns(m: Measurements, run: _Run) -> Offer | None:
    if len(run.late) < 2 or run.how == "together":
        return None
    if len(run.late) == len(run.tapes):  # without all of them there is nothing left to replay
        return _several_work_longer(m, run)
    who = [run.names[i] for i in run.late]
    how = words("fix_straggler", "by_turns", ranks=listed(who), first=who[0])
    return Offer(how, without_ranks(run.tapes, run.late), ranks=tuple(who))


def _with_slow_gpus(m: Measurements, run: _Run) -> Offer | None:
    if not run.late or why_late(m) != "slow_gpu":
        return None
    compute_ms = run.work.compute_ms
    usual_ms = np.median(np.delete(compute_ms, run.late))
    more = digits((compute_ms[run.late[0]] - usual_ms) * run.replay.scale)
    ranks = "ranks" if run.how == "together" else "rank"
    names = tuple(run.names[i] for i in run.late)
    clocks = words("fix_straggler", "clocks", who=f"{ranks} {listed(names)}", more=more)
    without = without_ranks(run.tapes, run.late, 1.0)
    return Offer(clocks, without, against=("straggler", "compute"), ranks=names)


def _is_more_than_kernels_say(m: Measurements, run: _Run, slow: int) -> bool:
    """Whether the others wait much longer for a rank than its kernels take more: beside a
    collective that waits their own take longer, too, and the mean of all says too little."""
    compute_ms = run.work.compute_ms
    more_ms = float(compute_ms[slow] - np.median(np.delete(compute_ms, slow)))
    return more_ms < EXPLAINED * holding_up(m)[0].gain_ms


def _uneven(m: Measurements, run: _Run) -> Offer | None:
    """One has more kernels' time, by more data."""
    compute_ms = run.work.compute_ms
    launches = run.work.launches
    most = int(run.work.compute_ms.argmax())
    more_ms = float(compute_ms[most] - compute_ms.mean())
    if more_ms < MIN_SHARE * run.replay.base_ms or launches.max() > SAME_PROGRAM * launches.min():
        return None
    if run.late == [most] and _is_more_than_kernels_say(m, run, most):
        return None
    how = f"kernels of rank {run.names[most]} take {digits(more_ms)} ms more than on average"
    deal = f"Deal out the work evenly: {how}: even out batches, lengths, stages or experts."
    # All ranks compute for as long as they do on average.
    each = zip(run.names, compute_ms, strict=True)
    shares = {name: float(compute_ms.mean() / own) if own else 1.0 for name, own in each}

    def change(tape: Tape) -> Tape:
        return _with_kernels(tape, shares.get(_rank(tape), 1.0))

    evened = Scenario(
        "fix_straggler", change, "every rank computes for as long as they do on average"
    )
    return Offer(same_for_all(deal), evened, ranks=(run.names[most],))


def _with_more_to_do(_m: Measurements, run: _Run) -> Offer | None:
    """One that is late does what the others do not."""
    slow, late_ms = latest_rank(run.replay)
    work = run.work
    step_ms = run.replay.base_ms
    name = run.names[slow]
    if late_ms < LATE_SHARE * step_ms:
        return None
    compute_ms, host_ms, _, waits, *_ = (
        float(one[slow] - np.delete(one, slow).mean()) for one in work
    )
    if compute_ms >= MIN_SHARE * step_ms:
        reason = same_for_all(_of_its_kernels(run, slow))
    elif run.late == [slow] and _more_launches(work, slow) >= 1:
        launches = round(_more_launches(work, slow))
        reason = same_for_all(
            f"Fix rank {name}: it launches {launches} more times a step: look for extra work there."
        )
    elif host_ms >= MORE_WORK_SHARE * step_ms:
        reason = words("fix_straggler", "host_works", more=digits(host_ms), rank=name)
    elif waits >= 1 or work.launches[slow] > SAME_PROGRAM * np.median(work.launches):
        reason = same_for_all(
            f"Fix rank {name}: its CPU is late; traceanalyzer gaps --rank {name} shows where."
        )
    else:  # its host is merely slower
        return None
    return Offer(reason, without_ranks(run.tapes, [slow]), ranks=(name,))


def _of_its_kernels(run: _Run, slow: int) -> str:
    """What to do with a rank that computes longer, in a sentence."""
    waited = digits(run.replay.gain_ms(without_ranks(run.tapes, [slow])))
    more = round(_more_launches(run.work, slow))
    look = "look for extra work there, and check its clocks"
    if more:
        look = f"it launches {more} more operators a step: look for that work"
    return (
        f"Fix rank {run.names[slow]}: the others wait {waited} ms a step for its kernels; {look}."
    )


def _whose_host_works(_m: Measurements, run: _Run) -> Offer | None:
    """One that comes late at the collectives, and whose host works longer than the others'."""
    if len(run.late) != 1:
        return None
    slow = run.late[0]
    more_ms = float(run.work.host_ms[slow] - np.median(np.delete(run.work.host_ms, slow)))
    if more_ms < MORE_WORK_SHARE * run.replay.base_ms:
        return None
    reason = words("fix_straggler", "host_works", more=digits(more_ms), rank=run.names[slow])
    return Offer(reason, without_ranks(run.tapes, [slow]), ranks=(run.names[slow],))


def rank_that_loads_itself(tapes: Sequence[Tape]) -> int | None:
    """The position of the one rank that loads its input itself, while workers bring it to all
    others, who hardly wait for it; None without one."""
    loads = [loading_ns(tape) for tape in tapes]
    most = int(np.argmax(loads))
    fed = [tape.source.trace.fed_by_workers for tape in tapes]
    others = [load for i, load in enumerate(loads) if i != most]
    alone = bool(others) and max(others) < LOAD_OF_OTHERS * loads[most]
    return most if alone and not fed[most] and sum(fed) == len(others) else None


def _that_loads_itself(_m: Measurements, run: _Run) -> Offer | None:
    slow = rank_that_loads_itself(run.tapes)
    if slow is None:
        return None
    name = run.names[slow]
    loading = run.tapes[slow].loading
    load_ms = float(np.median(loading[2 * loading >= loading.max()])) / NS_PER_MS

    def change(tape: Tape) -> Tape:
        return (loaded_by_workers(tape) or tape) if _rank(tape) == name else tape

    how = words("fix_straggler", "loads_itself", rank=name, load=digits(load_ms))
    basis = "the rank's batches are ready when it asks for them"
    itself = Scenario("fix_straggler", change, basis)
    return Offer(how, itself, against=LOADS_ITSELF, ranks=(name,))


def _several_work_longer(_m: Measurements, run: _Run) -> Offer | None:
    """Several keep the others waiting, at once or by turns."""
    found = ranks_that_work_longer(run.replay.recorded)
    if found is None or found.more_ms < LATE_SHARE * run.replay.base_ms:
        return None
    kept = dict(zip(run.names, found.kept, strict=True))
    who = sorted(rank for rank in (run.names[i] for i in found.ranks) if rank is not None)

    def change(tape: Tape) -> Tape | None:
        left = kept[_rank(tape)]
        if len(left) != len(tape.work):
            return None
        work, loading = (
            np.rint(each * left).astype(np.int64) for each in (tape.work, tape.loading)
        )
        return replace(tape, work=work, loading=loading)

    which = "work_at_once" if found.at_once else "work_by_turns"
    how = words("fix_straggler", which, ranks=listed(who), more=digits(found.most_ms))
    basis = "before each collective every host works for as long as the middle one does"
    return Offer(how, Scenario("fix_straggler", change, basis), ranks=tuple(who))


def _of_pipeline(ranks: RankComparison, replay: Replay) -> Offer:
    """Ranks that compute longer than others of their stage, or a stage too heavy, by the pipeline's
    operations."""
    first = ranks.late[0]
    names = listed([ranks.rows[one.position].rank for one in ranks.late])
    gain_ms = max(one.gain_ms for one in ranks.late)
    words = (
        f"Fix {plural('rank', len(ranks.late))} {names}: computations take longer there than "
        "in the same stage of "
    )
    words += (
        "other replicas: check clocks, temperature, what else runs, and the lengths of its "
        "sequences."
    )
    if first.stage is not None:
        words = (
            f"Cut the stages evenly: stage {first.stage} computes longer than the others: "
            "move layers from it to them."
        )
    left = (replay.recorded_ms - gain_ms) / replay.recorded_ms
    basis = "operations of the pipeline begin when what they wait for has ended"
    scenario = Scenario(
        "fix_straggler", lambda tape: tape, basis, step_of_run=lambda times: max(times) * left
    )
    return Offer(same_for_all(words), scenario)


def listed(ranks: Sequence[int | None]) -> str:
    """Ranks in a sentence."""
    names = [str(rank) for rank in ranks]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def longest_wait_ms(ranks: RankComparison) -> float | None:
    """What the rank that waits longest for the one that the report speaks of waits; None where that
    is not known."""
    slow = ranks.rows[ranks.critical]
    return max(
        (r.waiting_ms for r in ranks.rows if r is not slow and r.waiting_ms is not None),
        default=None,
    )


def holding_up(m: Measurements) -> tuple[LateRank, ...]:
    """The ranks that hold up the run. Of several that come late by turns those whose own work says
    why: hosts that launch as fast as they can come late by chance, the more the profiler slows
    them, now one and now another."""
    return m.memo(_holding_up)


def _holding_up(m: Measurements) -> tuple[LateRank, ...]:
    late = () if m.ranks is None else m.ranks.late
    if m.ranks is None or m.replay is None or how_late(late) != "by turns":
        return late
    of_rank = {_rank(tape): i for i, tape in enumerate(m.replay.recorded)}
    ranks = [m.ranks.rows[one.position].rank for one in late]
    if not of_rank.keys() >= set(ranks) or len(of_rank) <= len(late):
        return late
    work = _work(m.replay.recorded)
    least_ms = MIN_SHARE * m.mean_step_ms
    own_ms = (_more_work_ms(work, of_rank[rank]) for rank in ranks)
    return tuple(one for one, more_ms in zip(late, own_ms, strict=True) if more_ms >= least_ms)


def _more_work_ms(work: _Work, rank: int) -> float:
    """What a rank computes, works on its host or loads longer than the middle one of the others,
    whichever is most."""
    parts = (work.compute_ms, work.host_ms - work.loading_ms, work.loading_ms)
    return max(float(part[rank]) - float(np.median(np.delete(part, rank))) for part in parts)


def late_tapes(m: Measurements) -> list[int]:
    """Positions of the tapes of ranks that hold up the run, by what it would gain; none of ranks
    replayed alone."""
    if m.replay is None or m.ranks is None or len(m.replay.typical) < 2:
        return []
    of_rank = {_rank(tape): i for i, tape in enumerate(m.replay.typical)}
    ranks = (m.ranks.rows[one.position].rank for one in holding_up(m))
    return [of_rank[rank] for rank in ranks if rank in of_rank]


def gains_without_late(m: Measurements) -> bool:
    """Whether the run gains without the ranks that hold it up by the replay, too: what comes late
    as recorded may be the profiler's cost, or the lead of hosts that never wait. True where the
    replay does not tell."""
    gain_ms = gain_without_late_ms(m)
    if gain_ms is None or m.replay is None:
        return True
    return gain_ms >= LATE_SHARE * m.replay.base_ms


def gain_without_late_ms(m: Measurements) -> float | None:
    """What the run gains without the ranks that hold it up, by the replay; None of ranks that
    cannot be replayed together, and of a single step, in which a host that is slow can't be told
    from one that was."""
    named = late_tapes(m)
    if m.replay is None or m.ranks is None or not named or m.timed.steps.steady_count < 2:
        return None
    by_turns = len(named) > 1 and how_late(holding_up(m)) == "by turns"
    without = NO_STRAGGLER if by_turns else without_ranks(m.replay.typical, named)
    return m.replay.gain_ms(without)


def why_late(m: Measurements) -> Cause | None:
    """Why the rank that holds up the run is late: what it has, or takes, most more of than the
    middle one of the others that are replayed with it. None where its own work does not tell, as
    where ranks take turns."""
    named = late_tapes(m)
    if m.replay is None or m.ranks is None or not named:
        return None
    slow = named[0]
    work = _work(m.replay.recorded)
    compute_ms, host_ms, _, _, loading_ms, _ = (
        float(one[slow] - np.median(np.delete(one, slow))) for one in work
    )
    more: dict[Cause, float] = {
        "more_work": compute_ms,
        "slow_host": host_ms - loading_ms,
        "input": loading_ms,
    }
    cause = max(more, key=lambda cause: more[cause])
    if more[cause] < EXPLAINED * holding_up(m)[0].gain_ms:
        # Compute beside a collective that waits is longer: times of those who wait hide more work.
        return "more_work" if _more_launches(work, slow) >= 1 else None
    counted = (work.launches, work.threads)
    alike = all(
        abs(one[slow] / np.median(np.delete(one, slow)) - 1.0) <= SAME_WORK for one in counted
    )
    return "slow_gpu" if cause == "more_work" and alike and (work.threads > 0).all() else cause


def _more_launches(work: _Work, slow: int) -> float:
    """Launches a step that this rank has more than the middle one of the others; 0 where that is
    within what a library's choices differ by."""
    usual = float(np.median(np.delete(work.launches, slow)))
    more = float(work.launches[slow]) - usual
    return more if more > SAME_WORK * usual else 0.0


def _times_longer(late: Sequence[Tape], others: Sequence[Tape]) -> float:
    """How many times longer the same kernels take on GPUs that do not pause, at the median: what
    their clocks do. Infinite without a kernel that both run."""
    late_times = _times_of_kernels(late)
    other_times = _times_of_kernels(others)
    ratios = [
        float(np.median(late_times[kernel]) / np.median(other_times[kernel]))
        for kernel in late_times.keys() & other_times.keys()
    ]
    return float(np.median(ratios)) if ratios else math.inf


def without_ranks(
    tapes: Sequence[Tape], late: Sequence[int], slower: float | None = None
) -> Scenario:
    """Nobody waits for these ranks: collectives begin when the last of the others is there (leave
    one out). Without pauses the others' clocks make their matrix kernels at most so many times
    `slower`: as those of the late ranks, unless their GPUs are slow themselves."""
    ranks = {_rank(tapes[i]) for i in late}
    if slower is None:
        others = [tape for i, tape in enumerate(tapes) if i not in late]
        ratio = _times_longer([tapes[i] for i in late], others)
        slower = ratio if ratio > EQUAL_GPUS else 1.0

    def change(tape: Tape) -> Tape:
        return without_work(tape) if _rank(tape) in ranks else tape

    basis = "each collective begins when the last of the other ranks has arrived"
    return Scenario("fix_straggler", change, basis, most_slowed=slower)


def _times_of_kernels(tapes: Sequence[Tape]) -> dict[tuple[str | None, int], list[int]]:
    found: dict[tuple[str | None, int], list[int]] = defaultdict(list)
    for tape in tapes:
        rows = tape.source.linked.is_matrix[tape.row] & (tape.duration > 0)
        ops = tape.source.trace.device_ops.take(tape.row[rows])
        names = ops.name.tolist()
        blocks = ops.blocks.tolist()
        times = tape.duration[rows].tolist()
        for name, grid, time in zip(names, blocks, times, strict=True):
            found[tape.source.trace.text(name), grid].append(time)
    return found


def _rank(tape: Tape) -> int | None:
    return tape.source.trace.process.rank


def latest_rank(replay: Replay) -> tuple[int, float]:
    """The position of the rank whose step is longest without the profiler and without waiting for
    others, and by how much it is longer than that of the middle one, ms. How fast their hosts
    dispatch is not what tells ranks apart."""
    times = step_times_ns([without_meetings(tape) for tape in replay.typical])
    slow = int(np.argmax(times))
    return slow, (times[slow] - lower_median(times)) / NS_PER_MS * replay.scale


def _of_its_stage(m: Measurements, rows: Sequence[RankRow]) -> Offer | None:
    """Where ranks only send to each other, as stages do: the one that is reported computes longer
    than the mean."""
    replay = m.replay
    own = m.rank_row
    kinds = {row.collective for row in m.collectives}
    if (
        replay is None
        or own is None
        or not own.straggler
        or not kinds
        or not kinds <= POINT_TO_POINT
    ):
        return None
    mean_ms = sum(row.compute_ms for row in rows) / len(rows)
    if own.compute_ms - mean_ms < MIN_SHARE * replay.base_ms:
        return None
    how = (
        f"kernels of rank {own.rank} take {digits(own.compute_ms - mean_ms)} ms more than on "
        "average"
    )
    share = mean_ms / own.compute_ms
    action = f"Cut the stages evenly: {how}: move layers to other stages."

    def change(tape: Tape) -> Tape:
        return host_scaled((_with_kernels(tape, share),), share)[0]

    basis = "every stage computes for as long as they do on average"
    return Offer(same_for_all(action), Scenario("fix_straggler", change, basis))


def _with_kernels(tape: Tape, share: float) -> Tape:
    return tape.retimed(np.where(tape.compute, tape.duration * share, tape.duration))


def _of_its_host(m: Measurements, ranks: RankComparison, slow: RankRow) -> Offer | None:
    """Where ranks recorded different steps: the host of the one waited for works as long, and
    others' do not."""
    replay = m.replay
    waited_ms = longest_wait_ms(ranks) or 0.0
    if (
        replay is None
        or not slow.straggler
        or waited_ms < MIN_SHARE * m.mean_step_ms
        or slow.rank != m.trace.rank
    ):
        return None
    others = tapes_of_others(m)
    if len(others) < len(ranks.rows) - 1:
        return None
    own_ms, *theirs_ms = _work((replay.recorded[0], *others)).host_ms.tolist()
    more_ms = own_ms - sum(theirs_ms) / len(theirs_ms)
    if more_ms < MIN_SHARE * replay.base_ms or more_ms < EXPLAINED * waited_ms:
        return None
    how = words("fix_straggler", "host_works", more=digits(more_ms * replay.scale), rank=slow.rank)
    share = 1.0 - more_ms / own_ms
    busy_ns = float(_work(replay.typical).compute_ms.max()) * NS_PER_MS

    def change(tape: Tape) -> Tape:
        work, loading = (
            np.rint(times * share).astype(np.int64) for times in (tape.work, tape.loading)
        )
        tail = tape.tail._replace(
            work=round(tape.tail.work * share), loading=round(tape.tail.loading * share)
        )
        return replace(tape, work=work, loading=loading, tail=tail)

    basis = (
        "the host of the rank that others wait for works for as long as theirs (ranks recorded different steps: it is "
        "replayed alone)"
    )
    return Offer(
        how, Scenario("fix_straggler", change, basis, step_of_run=not_faster_than(busy_ns))
    )


def _work(tapes: Sequence[Tape]) -> _Work:
    def a_step(values: list[float]) -> F64:
        return np.array([value / tape.steps for value, tape in zip(values, tapes, strict=True)])

    def launching(tape: Tape) -> float:
        operator = tape.of_launches(tape.source.linked.tree.operator)
        return float(len(distinct(operator[operator >= 0])) + (operator < 0).sum())

    def threads(tape: Tape) -> float:
        ops = tape.source.trace.device_ops.take(
            tape.row[tape.compute & tape.source.linked.is_kernel[tape.row]]
        )
        known = (ops.blocks > 0) & (ops.threads > 0)
        return (
            float((ops.blocks[known].astype(np.float64) * ops.threads[known]).sum())
            if known.all()
            else -1.0
        )

    computing = [tape.source.trace.device_ops.take(tape.row[tape.compute]) for tape in tapes]
    return _Work(
        a_step([float((one.end - one.start).sum()) / NS_PER_MS for one in computing]),
        a_step([float((tape.work + tape.loading).sum()) / NS_PER_MS for tape in tapes]),
        a_step(list(map(launching, tapes))),
        a_step([float(is_read(tape).sum()) for tape in tapes]),
        a_step([float(tape.loading.sum()) / NS_PER_MS for tape in tapes]),
        a_step(list(map(threads, tapes))),
    )
