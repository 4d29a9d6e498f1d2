"""From waits to culprits. Blame follows groups: a rank that waits for another is its victim.

A culprit is a rank that others wait for and that waits for nobody; or whose GPU has not completed what its peers have;
or that issued another operation than its peers. What no culprit explains is decided by what most ranks did, or not at
all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from traceanalyzer.base import dataclass
from traceanalyzer.fleet.hang.waits import Wait
from traceanalyzer.trace.flight import Flight, Op, RankDump

SAME_SIZES = frozenset((
    "all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "barrier", "allreduce_coalesced",
    "all_gather_single", "reduce_scatter_single", "all_reduce_barrier", "send",
))  # fmt: skip
"""Kinds whose sizes have to be the same on all ranks; those of the others may differ."""
COMPARED = 16  # ranks that are compared with their peers one by one
MOST_SHARE = 0.25  # of the ranks of a job: if more stopped at once, something that they share did it


@dataclass(frozen=True)
class Blame:
    """A culprit: `kind` is cpu_stopped, gpu_stopped, no_dump, mismatch or order; `sure`: nothing else explains it."""

    rank: int
    kind: str
    wait: Wait
    sure: bool


def culprits_of(flight: Flight, waits: Sequence[Wait]) -> tuple[list[Blame], list[Wait]]:
    """The culprits, and the waits that none of them explains."""
    found = [blame for wait in waits for blame in _of_wait(flight, waits, wait)]
    found += _stopped_in_flight(flight, waits, {blame.rank for blame in found})
    found = _without_victims(flight, _best(found))
    if (left := unexplained(waits, found)) and not found:
        # All ranks have come to what stands and none completed it; ranks wait for each other at the others.
        standing = [wait for wait in left if len(wait.waiting) > 1 and not wait.blockers and not wait.passed]
        of_standing, of_crossed = (_of_late_gpus, _of_lost_members, _of_shared_rank), (_of_order, _of_most_waited_for)
        together = (explain(flight, standing or left) for explain in (of_standing if standing else of_crossed))
        found = _of_ras(flight, left) or next(filter(None, together), [])
        left = unexplained(waits, found)
    return found, left


def _of_wait(flight: Flight, waits: Sequence[Wait], wait: Wait) -> Iterable[Blame]:
    if (odd := odd_ones(flight, waits, wait)) is not None:
        yield from (Blame(rank, "mismatch", wait, True) for rank in odd)
        return
    # Others have completed what these ranks did not, and no rank but these may hold it up.
    if wait.passed and not wait.unseen and (wait.both_sided or not wait.blockers):
        yield from (Blame(rank, "gpu_stopped", wait, wait.both_sided) for rank in wait.waiting)
    yield from (Blame(rank, "cpu_stopped", wait, True) for rank in wait.absent if not flight.dumps[rank].pending)
    yield from (Blame(rank, "no_dump", wait, True) for rank in wait.unknown)


def _best(found: Iterable[Blame]) -> list[Blame]:
    """One blame a rank: of the first operation; collectives first, as the ends of a pair run different parts."""
    order = ("mismatch", "gpu_stopped", "cpu_stopped", "order", "no_dump")

    def rank_of(b: Blame) -> tuple[object, ...]:
        op = b.wait.op
        return order.index(b.kind), not b.sure, op.record < 0, op.peer >= 0, op.created_ns, op.seq

    best: dict[int, Blame] = {}
    for blame in sorted(found, key=rank_of):
        best.setdefault(blame.rank, blame)
    return sorted(best.values(), key=lambda blame: blame.rank)


def _without_victims(flight: Flight, found: list[Blame]) -> list[Blame]:
    """Without ranks whose last operation may have failed because a rank is gone, and without those whose file is
    damaged (they lived to write it), where others explain it. No rank is sure that has no dump where there are others,
    and none that stopped where many did."""
    found = _best(cause for blame in found for cause in _causes(flight, blame))
    kept = [blame for blame in found if blame.kind != "no_dump" or blame.rank in flight.lost] or found
    known = {*flight.clues.dead_ranks, *(flight.lost if len(kept) == 1 else ())}
    doubtful = ("cpu_stopped", "no_dump") if len(kept) > max(2.0, MOST_SHARE * len(flight.expected)) else ()
    return [
        replace(one, sure=one.sure and one.kind not in doubtful and (one.kind != "no_dump" or one.rank in known))
        for one in kept
    ]


def _causes(flight: Flight, blame: Blame) -> list[Blame]:
    """The ranks that are gone, where one without anything in flight may have stopped at their error; else the blame."""
    dump = flight.dumps.get(blame.rank)
    if blame.kind == "cpu_stopped" and dump is not None and dump.last_group >= 0:
        ranks = flight.groups[dump.last_group].ranks or flight.lost
        if dump.groups[dump.last_group].ended_unseen and not set(ranks).isdisjoint(flight.lost):
            return [Blame(rank, "no_dump", blame.wait, False) for rank in flight.lost]
    return [blame]


def _stopped_in_flight(flight: Flight, waits: Sequence[Wait], known: set[int]) -> Iterable[Blame]:
    """CPUs that stopped with operations in flight on which peers of the same program went on."""
    for wait in waits:
        if wait.op.peer >= 0 or len(wait.absent) > min(COMPARED, _few(wait)):  # a collective that few have not issued
            continue
        for rank in set(wait.absent) - known:
            mine = flight.dumps[rank].pending
            peers = (flight.dumps[peer] for peer in set(wait.waiting) - known)
            same = (peer for peer in peers if all(_stands_at(flight, peer, index, op) for index, op in mine))
            if mine and len(list(islice(same, 2))) > (not known):  # alone, two have to say it
                yield Blame(rank, "cpu_stopped", wait, not known)


def _few(wait: Wait) -> float:
    """How many ranks are few towards those that wait."""
    return max(1.0, MOST_SHARE * len(wait.waiting))


def _stands_at(flight: Flight, peer: RankDump, index: int, op: Op) -> bool:
    """Whether the peer stands at this operation too, in the same group or in its own of the same purpose."""
    desc = flight.groups[index].desc
    alike = [index] if index in peer.groups else [
        i for i in peer.groups if desc not in ("", "undefined") and flight.groups[i].desc == desc
    ]  # fmt: skip
    return any((o.kind, o.peer, o.seq) == (op.kind, op.peer, op.seq) for i in alike for o in peer.groups[i].pending)


def unexplained(waits: Sequence[Wait], found: Iterable[Blame]) -> list[Wait]:
    """The waits from which no chain of waiting leads to a culprit."""
    culprits = {blame.rank for blame in found}
    reached, left = set(culprits), list(waits)
    while True:
        led = [not reached.isdisjoint((*w.blockers, *culprits.intersection(w.waiting))) for w in left]
        if not any(led):
            return left
        reached.update(rank for wait, leads in zip(left, led, strict=True) if leads for rank in wait.waiting)
        left = [wait for wait, leads in zip(left, led, strict=True) if not leads]


def odd_ones(flight: Flight, waits: Sequence[Wait], wait: Wait) -> tuple[int, ...] | None:
    """The ranks that issued another operation at this place than most; empty where it is even, None where all agree."""
    found = [(rank, _compared(signature)) for rank, signature in wait.signatures]
    counts = Counter(key for _, key in found)
    if len(counts) < 2:
        return None
    usual = _usual(counts) or _usual(_alike(flight, waits, wait))
    return () if usual is None else tuple(sorted(rank for rank, key in found if key != usual))


def _usual(counts: Counter[tuple[object, ...]]) -> tuple[object, ...] | None:
    """What most have; None where two have it as often."""
    (usual, most), (_, second) = [*counts.most_common(2), ((), 0)][:2]
    return None if most == second else usual


def _alike(flight: Flight, waits: Sequence[Wait], wait: Wait) -> Counter[tuple[object, ...]]:
    """What is at this place in all groups of the same purpose."""
    desc = flight.groups[wait.group].desc
    same = [w for w in waits if w.op.seq == wait.op.seq and flight.groups[w.group].desc == desc and desc]
    return Counter(_compared(signature) for w in same or [wait] for _, signature in w.signatures)


def _compared(signature: tuple[str, int, int, str]) -> tuple[object, ...]:
    return signature if signature[0] in SAME_SIZES else (signature[0], signature[3])


def _of_ras(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """The few ranks that NCCL's RAS or Inspector saw behind all others."""
    few = len(flight.clues.behind) <= MOST_SHARE * len(flight.expected)
    return [Blame(rank, "cpu_stopped", left[0], False) for rank in flight.clues.behind if few]


def _of_late_gpus(flight: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """Of operations to which all CPUs have come, and that still stand: the few GPUs that have not begun one."""
    for wait in standing:
        pending = ((rank, op) for rank in wait.waiting for op in flight.dumps[rank].groups[wait.group].pending)
        begun = {rank for rank, op in pending if op.started and (op.peer >= 0) == (wait.op.peer >= 0)}
        late = set(wait.waiting) - begun
        if 0 < len(late) <= _few(wait):
            return [Blame(rank, "gpu_stopped", wait, True) for rank in wait.waiting if rank in late]
    return []


def _of_lost_members(flight: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """Of a group whose ranks no dump names, any rank without a file may be a member."""
    named = flight.groups[standing[0].group].ranks
    return [] if named else [Blame(rank, "no_dump", standing[0], False) for rank in flight.lost]


def _of_shared_rank(_: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """The one rank that all of several operations share."""
    shared = set.intersection(*(set(wait.waiting) for wait in standing))
    return [Blame(shared.pop(), "gpu_stopped", standing[0], False)] if len(standing) > 1 and len(shared) == 1 else []


def _of_order(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """Ranks that wait for each other: who came to an operation after fewer of them than most left one out."""
    for wait in left:
        heads = {rank: flight.dumps[rank].groups[wait.group].head for rank in wait.waiting}
        records = {rank: -1 if head is None else head.record for rank, head in heads.items()}  # place in the program
        usual, count = Counter(records.values()).most_common(1)[0]
        odd = {rank for rank, record in records.items() if record < usual and count > len(records) / 2}
        if out := [Blame(rank, "order", w, False) for w in left for rank in sorted(odd.intersection(w.absent))]:
            return _best(out)
    return []


def _of_most_waited_for(_: Flight, left: Sequence[Wait]) -> list[Blame]:
    """Ranks that wait for each other: the few that most others wait for."""
    held = (wait for wait in left if 0 < len(wait.blockers) < len(wait.waiting))
    best = min(held, key=lambda wait: len(wait.blockers) / len(wait.waiting), default=None)
    return [Blame(rank, "order", best, False) for rank in best.blockers] if best else []
