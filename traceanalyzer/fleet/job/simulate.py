"""The job's collectives in the order of what they wait for: what a step takes where ranks work for
other times.

Between two collectives that hold its compute a rank works for a stretch; a collective begins when
its last rank is ready and what it follows has ended, and then transfers for as long as it did. All
collectives that wait for the same number of others are reckoned together."""

from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.ranks.matches import Matches
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64


@dataclass(frozen=True, eq=False)
class JobPlan:
    """The order in which collectives are reckoned."""

    matches: Matches
    wave: I32  # of each collective how many others it waits for, one after the other
    parts: I64  # the parts of all collectives by wave
    bounds: I64  # where each wave begins in them, and their number
    transfer: I64  # of each collective from when it could begin, ns
    begun: I64  # when the first rank came to each rank's first collective


def job_plan(matches: Matches) -> JobPlan:
    """The plan of collectives; at least one."""
    wave = _waves(matches)
    parts = np.argsort(wave[matches.collective], kind="stable")
    came = np.where(
        matches.follows, np.maximum(matches.ready, matches.end[matches.before]), matches.ready
    )
    transfer = np.maximum(matches.most(matches.end) - matches.most(came), 0)
    begun = np.zeros(len(matches.clocks.offset), np.int64)
    came = matches.least(matches.start)
    for rank, parts_of_rank in enumerate(matches.of_rank):
        if len(parts_of_rank):
            begun[rank] = came[matches.collective[parts_of_rank[0]]]
    waves = np.arange(int(wave.max()) + 2)
    bounds = np.searchsorted(wave[matches.collective][parts], waves)
    return JobPlan(matches, wave, parts, bounds, transfer, begun)


def _waves(matches: Matches) -> I32:
    """Level by level: a collective is next where it is for all of its ranks; as they are in one
    order one always is."""
    order = np.concatenate(matches.of_rank)
    length = np.array([len(mine) for mine in matches.of_rank])
    at = np.cumsum(length) - length
    stop = np.cumsum(length)
    size = np.diff(matches.first)
    wave = np.zeros(len(matches), np.int32)
    level = 0
    while (active := np.flatnonzero(at < stop)).size:
        following = matches.collective[order[at[active]]]
        ready, index, count = np.unique(following, return_inverse=True, return_counts=True)
        is_full = count == size[ready]
        wave[ready[is_full]] = level
        at[active[is_full[index]]] += 1
        level += 1
    return wave


def replayed_steps(plan: JobPlan, stretch: I64 | F64) -> F64:
    """How long each step takes, from the end of the one before it, with these times of the parts
    between collectives; ns, one for each of `Matches.steps`."""
    matches = plan.matches
    clock = plan.begun.astype(np.float64)
    end = np.zeros(len(matches))
    before = np.full(len(clock), -np.inf)
    size = np.diff(matches.first)
    for a, b in pairwise(plan.bounds.tolist()):
        parts = plan.parts[a:b]
        rank = matches.rank[parts]
        collective = matches.collective[parts]
        begins = np.flatnonzero(np.append(True, collective[1:] != collective[:-1]))
        ended_now = collective[begins]
        came = np.where(matches.follows[parts], before[rank], -np.inf)
        ended = (
            np.maximum.reduceat(np.maximum(clock[rank] + stretch[parts], came), begins)
            + plan.transfer[ended_now]
        )
        end[ended_now] = ended
        before[rank] = np.repeat(ended, size[ended_now])
        clock[rank] = np.where(matches.holds[parts], before[rank], clock[rank])
    return _between(matches, end, float(plan.begun.min()))


def recorded_times(plan: JobPlan) -> F64:
    """How long each step took as recorded, ns, one for each of `Matches.steps`."""
    return _between(
        plan.matches,
        plan.matches.most(plan.matches.end).astype(np.float64),
        float(plan.begun.min()),
    )


def _between(matches: Matches, end: F64, begin: float) -> F64:
    last = np.full(len(matches.steps), -np.inf)
    np.maximum.at(last, matches.step, end)
    order = np.argsort(last, kind="stable")
    known = order[np.isfinite(last[order])]
    times = np.zeros(len(last))
    times[known] = np.diff(np.maximum.accumulate(last[known]), prepend=begin)
    return times


def middle_of_alike(plan: JobPlan) -> I64:
    """[part]: the middle stretch of those at its place of the program: of collectives of one kind
    and wave."""
    matches = plan.matches
    place = plan.wave.astype(np.int64) * 64 + matches.kind
    alike = Groups.of(place[matches.collective])
    order = np.lexsort((matches.stretch, alike.index))
    begin = np.cumsum(alike.count) - alike.count
    middle: I64 = matches.stretch[order][begin + (alike.count - 1) // 2]
    return middle[alike.index]
