"""From waits to culprits. Blame follows groups: a rank that waits for another is its victim.

A culprit is a rank that others wait for and that waits for nobody; or whose GPU has not completed what its peers have;
or that issued another operation than its peers. What no culprit explains is decided by what most ranks did, or not at
all.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from traceanalyzer.base import dataclass
from traceanalyzer.fleet.hang.waits import Wait
from traceanalyzer.trace.flight import Flight, Op, RankDump

SAME_SIZES = frozenset((
    "all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast", "barrier", "allreduce_coalesced",
    "all_gather_single", "reduce_scatter_single", "all_reduce_barrier", "send",
))  # fmt: skip
"""Kinds whose sizes have to be the same on all ranks; those of the others may differ."""
COMPARED = 16
"""Ranks that are compared with their peers one by one."""
MOST_SHARE = 0.25
"""Of the ranks of a job: if more stopped at once, something that they share did it."""


@dataclass(frozen=True)
class Blame:
    """A culprit: `kind` is cpu, gpu, gone, mismatch or order; `sure` whether nothing else explains it."""

    rank: int
    kind: str
    wait: Wait
    sure: bool


def culprits_of(flight: Flight, waits: Sequence[Wait]) -> tuple[list[Blame], list[Wait]]:
    """The culprits, and the waits that none of them explains."""
    found: list[Blame] = []
    for wait in waits:
        odd = odd_ones(flight, waits, wait)
        found += _of_wait(flight, wait) if odd is None else [Blame(rank, "mismatch", wait, True) for rank in odd]
    found += _stopped_in_flight(flight, waits, {blame.rank for blame in found})
    found = _without_victims(flight, _best(found))
    left = unexplained(waits, {blame.rank for blame in found})
    if left and not found:
        standing = [wait for wait in left if not wait.blockers and not wait.passed and len(wait.waiting) > 1]
        found = _of_ras(flight, left) or (_of_standing(flight, standing) if standing else _of_minority(flight, left))
        left = unexplained(waits, {blame.rank for blame in found})
    return found, left


def _of_wait(flight: Flight, wait: Wait) -> Iterable[Blame]:
    """Culprits that one wait shows by itself."""
    if wait.passed and not wait.unseen and (wait.both_sided or not wait.blockers):
        yield from (Blame(rank, "gpu", wait, wait.both_sided) for rank in wait.waiting)
    for rank in wait.absent:
        if rank in flight.dumps and not pending_of(flight.dumps[rank]):
            yield Blame(rank, "cpu", wait, True)
    yield from (Blame(rank, "gone", wait, True) for rank in wait.unknown)


def _best(found: Iterable[Blame]) -> list[Blame]:
    """One blame a rank: of a mismatch, a GPU or a CPU before that of a missing dump; of the first operation."""
    order = ("mismatch", "gpu", "cpu", "order", "gone")
    best: dict[int, Blame] = {}
    for blame in sorted(
        found, key=lambda b: (order.index(b.kind), not b.sure, b.wait.op.record < 0, _early(b.wait.op))
    ):
        best.setdefault(blame.rank, blame)
    return sorted(best.values(), key=lambda blame: blame.rank)


def _early(op: Op) -> tuple[bool, int, int]:
    """Collectives first: the other end of a pair runs another part of the program, at another time."""
    return op.peer >= 0, op.created_ns, op.seq


def _without_victims(flight: Flight, found: list[Blame]) -> list[Blame]:
    """Without ranks whose last operation may have failed because a rank is gone, and without those whose file is
    damaged (they lived to write it), where others explain it. No rank is sure that has no dump where there are others.
    """
    failed = [blame for blame in found if _failed(flight, blame)]
    gone = [Blame(rank, "gone", blame.wait, False) for blame in failed for rank in flight.lost]
    found = _best([*(blame for blame in found if blame not in failed), *gone])
    kept = [blame for blame in found if blame.kind != "gone" or blame.rank in flight.lost] or found
    many = len(kept) > max(2.0, MOST_SHARE * len(flight.expected))

    def doubtful(blame: Blame) -> bool:
        known = blame.rank in flight.clues.dead_ranks
        alone = len(kept) == 1 and blame.rank in flight.lost
        return (blame.kind == "gone" and not known and not alone) or (many and blame.kind in ("cpu", "gone"))

    return [Blame(b.rank, b.kind, b.wait, b.sure and not doubtful(b)) for b in kept]


def _failed(flight: Flight, blame: Blame) -> bool:
    """Whether a rank without anything in flight may have stopped at an error, which a rank that is gone caused."""
    dump = flight.dumps.get(blame.rank)
    if blame.kind != "cpu" or dump is None or dump.last_group < 0 or not flight.lost:
        return False
    ranks = flight.groups[dump.last_group].ranks
    return dump.groups[dump.last_group].ended_unseen and not (ranks and set(ranks).isdisjoint(flight.lost))


def pending_of(dump: RankDump) -> list[tuple[int, Op]]:
    """The first operations that a rank has not completed, with their groups."""
    return [(index, op) for index, state in dump.groups.items() for op in state.pending]


def _stopped_in_flight(flight: Flight, waits: Sequence[Wait], known: Collection[int]) -> Iterable[Blame]:
    """CPUs that stopped with operations in flight, which peers of the same program have in flight too and still went
    on: so it is not those that hold the CPU."""
    for wait in waits:
        few = wait.op.peer < 0 and len(wait.absent) <= max(1.0, min(COMPARED, MOST_SHARE * len(wait.waiting)))
        for rank in set(wait.absent if few else ()) - set(known):
            if rank not in flight.dumps or not (mine := pending_of(flight.dumps[rank])):
                continue
            peers = (flight.dumps[peer] for peer in wait.waiting if peer not in known)
            same = (peer for peer in peers if all(_stands_at(flight, peer, index, op) for index, op in mine))
            if len(list(islice(same, 2))) > (not known):  # alone, two have to say it
                yield Blame(rank, "cpu", wait, not known)


def _stands_at(flight: Flight, peer: RankDump, index: int, op: Op) -> bool:
    """Whether the peer stands at this operation too, in the same group or in its own of the same purpose."""
    desc = flight.groups[index].desc
    alike = [index] if index in peer.groups else [
        i for i in peer.groups if desc not in ("", "undefined") and flight.groups[i].desc == desc
    ]  # fmt: skip
    return any((o.kind, o.peer, o.seq) == (op.kind, op.peer, op.seq) for i in alike for o in peer.groups[i].pending)


def unexplained(waits: Sequence[Wait], culprits: set[int]) -> list[Wait]:
    """The waits from which no chain of waiting leads to a culprit."""
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
    kind, _, _, type_ = signature
    return signature if kind in SAME_SIZES else (kind, type_)


def _of_ras(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """The few ranks that NCCL's RAS or Inspector saw behind all others."""
    few = len(flight.clues.behind) <= MOST_SHARE * len(flight.expected)
    return [Blame(rank, "cpu", left[0], False) for rank in flight.clues.behind if few]


def _of_standing(flight: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """Operations to which all CPUs have come, and that still stand. Of the GPUs that have not begun one, where others
    have; or of the one rank that all of them share."""
    for wait in standing:
        begun = [rank for rank in wait.waiting if any(op.started for op in _ops_at(flight, rank, wait))]
        late = [rank for rank in wait.waiting if rank not in begun]
        if begun and 0 < len(late) <= max(1.0, MOST_SHARE * len(wait.waiting)):
            return [Blame(rank, "gpu", wait, True) for rank in late]
    if flight.lost and not flight.groups[standing[0].group].ranks:  # any of them may be a member
        return [Blame(rank, "gone", standing[0], False) for rank in flight.lost]
    shared = set.intersection(*(set(wait.waiting) for wait in standing))
    return [Blame(shared.pop(), "gpu", standing[0], False)] if len(standing) > 1 and len(shared) == 1 else []


def _ops_at(flight: Flight, rank: int, wait: Wait) -> list[Op]:
    """The operations of the group that a rank has not completed, of the kind of this one."""
    pending = flight.dumps[rank].groups[wait.group].pending
    return [op for op in pending if (op.peer < 0) == (wait.op.peer < 0)]


def _of_minority(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """Ranks that wait for each other. Who came to an operation after fewer of them than most left one out; else it is
    the few that most others wait for."""
    for wait in left:
        records = {rank: _record(flight, rank, wait) for rank in wait.waiting}
        usual, count = Counter(records.values()).most_common(1)[0]
        odd = {rank for rank, record in records.items() if record < usual} if count > len(records) / 2 else set()
        out = [Blame(rank, "order", w, False) for w in left for rank in sorted(odd.intersection(w.absent))]
        if out:
            return _best(out)
    held = [wait for wait in left if wait.blockers and len(wait.blockers) < len(wait.waiting)]
    if not held:
        return []
    best = min(held, key=lambda wait: len(wait.blockers) / len(wait.waiting))
    return [Blame(rank, "order", best, False) for rank in best.blockers]


def _record(flight: Flight, rank: int, wait: Wait) -> int:
    """The place of the operation in the program of the rank."""
    head = flight.dumps[rank].groups[wait.group].head
    return -1 if head is None else head.record
