"""From the operations at which ranks stand to those that hold them up, and to culprits.

Operations of one group run in order, so a rank stands in each group at the first that is not
completed. It is held up by ranks that have not issued it, and by ranks whose GPU has not come to
it.

A culprit is a rank that others wait for and that waits for nobody; or whose GPU has not completed
what its peers have; or that issued another operation than its peers. What no culprit explains is
decided by what most ranks did, or not at all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from traceanalyzer.base import dataclass
from traceanalyzer.trace.flight import Flight, GroupProgress, Op, RankDump, Signature
from traceanalyzer.trace.table import MOST_IDS

Compared = tuple[object, ...]
"""What has to be the same of an operation on all ranks."""
OPPOSITE = {"send": "recv", "recv": "send"}
ONE_SIDED = frozenset(
    ("broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather", "send", "recv")
)
"""Kinds that a rank can complete before its peers came to them."""
NOT_THERE = GroupProgress(enqueued=-MOST_IDS - 1, pairs_enqueued=-MOST_IDS - 1)
"""Where a rank stands in a group that its dump does not name: before all that others issued."""
SAME_SIZES = frozenset(
    (
        "all_reduce",
        "_all_gather_base",
        "_reduce_scatter_base",
        "broadcast",
        "barrier",
        "allreduce_coalesced",
        "all_gather_single",
        "reduce_scatter_single",
        "all_reduce_barrier",
        "send",
    )
)
"""Kinds whose sizes have to be the same on all ranks; those of the others may differ."""
COMPARED = 16  # ranks that are compared with their peers one by one
MOST_SHARE = 0.25
"""If more than this share of a job's ranks stopped at once, something that they share did it."""
_End = tuple[int, int, str]  # of a send or receive: rank, place of its peer, direction


@dataclass(frozen=True)
class Wait:
    """An operation at which ranks stand. All ranks are global; `op` is that of the first of
    `waiting`.

    `absent` have not issued it, `unknown` left no dump, `earlier` have issued it and stand at an
    earlier operation of the group, `elsewhere` stand at it and at an operation of another group
    that they issued before. `passed` have completed it."""

    group: int
    op: Op
    waiting: tuple[int, ...]
    absent: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    earlier: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    passed: tuple[int, ...] = ()
    signatures: tuple[
        tuple[int, Signature], ...
    ] = ()  # of the ranks that are known to have issued it
    unseen: bool = False  # whether it may have failed where it is passed

    @property
    def blockers(self) -> tuple[int, ...]:
        """The ranks that hold it up."""
        return (*self.absent, *self.unknown, *self.earlier, *self.elsewhere)

    @property
    def both_sided(self) -> bool:
        """Whether no rank can complete it before all came to it."""
        return bool(self.op.kind) and self.op.kind not in ONE_SIDED and not self.unseen


def waits_in(flight: Flight) -> list[Wait]:
    """All operations at which ranks stand."""
    first = {
        rank: min((op.record for _, op in dump.pending), default=0)
        for rank, dump in flight.dumps.items()
    }
    groups: dict[int, dict[int, GroupProgress]] = defaultdict(dict)
    for rank in sorted(flight.dumps):
        for index, state in flight.dumps[rank].groups.items():
            groups[index][rank] = state
    found: list[Wait] = []
    for index, stuck in groups.items():
        members = flight.groups[index].ranks or tuple(stuck)
        found += [
            *_collectives(index, members, _of_collectives(stuck), first),
            *_pairs(index, members, stuck, first),
        ]
    return found


def _of_collectives(progress: dict[int, GroupProgress]) -> dict[int, GroupProgress]:
    # The counters of a status count sends and receives, too.
    both = any(state.pairs_enqueued >= 0 and not state.from_status for state in progress.values())
    return {rank: state for rank, state in progress.items() if not (both and state.from_status)}


def _collectives(
    index: int,
    ranks: tuple[int, ...],
    progress: dict[int, GroupProgress],
    first: dict[int, int],
) -> Iterator[Wait]:
    standing_at = {rank: progress.get(rank, NOT_THERE).head for rank in ranks}
    heads = {rank: head for rank, head in standing_at.items() if head is not None}
    for seq in sorted({head.seq for head in heads.values()}):
        places = _places(ranks, progress, {*first}, seq)
        standing = [(rank, heads[rank]) for rank in places["waiting"]]
        known = {rank: state.tail[seq] for rank, state in progress.items() if seq in state.tail}
        yield Wait(
            index,
            _known(seq, standing, known.values()),
            elsewhere=_elsewhere(standing, first),
            signatures=tuple(known.items()),
            unseen=any(progress[rank].ended_unseen for rank in places.get("passed", ())),
            **places,
        )


def _places(
    ranks: Iterable[int], progress: dict[int, GroupProgress], first: set[int], seq: int
) -> dict[str, tuple[int, ...]]:
    places: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        place = _place(progress.get(rank, NOT_THERE), seq) if rank in first else "unknown"
        places[place].append(rank)
    return {name: tuple(found) for name, found in places.items()}


def _place(state: GroupProgress, seq: int) -> str:
    """Where a member of the group that left a dump stands towards the collective `seq`."""
    if state.head is not None and state.head.seq == seq:
        return "waiting"
    if state.stands_at > seq:
        return "passed"
    if state.enqueued < seq:
        return "absent"
    return "earlier" if state.stands_at < seq else "waiting"


def _elsewhere(
    standing: Iterable[tuple[int, Op]],
    first: dict[int, int],
) -> tuple[int, ...]:
    return tuple(rank for rank, op in standing if first[rank] < op.record)


def _known(seq: int, standing: Iterable[tuple[int, Op]], signatures: Iterable[Signature]) -> Op:
    """The operation, by a rank that has it still recorded."""
    signature = next(iter(signatures), ("", 0, 0, ""))
    unrecorded = Op(seq, signature[0], signature=signature, record=-1)
    return next((op for _, op in standing if op.kind), unrecorded)


def _pairs(
    index: int,
    ranks: tuple[int, ...],
    progress: dict[int, GroupProgress],
    first: dict[int, int],
) -> Iterator[Wait]:
    """Sends and receives: the two ends are matched by direction and peer."""
    place = {rank: i for i, rank in enumerate(ranks)}
    ops = _in_flight(progress)
    done: set[_End] = set()
    for end, op in ops.items():
        rank = end[0]
        peers = ranks[op.peer : op.peer + 1]
        peer = next(iter(peers), -1)
        other_end = (peer, place.get(rank, -1), OPPOSITE.get(op.kind, ""))
        if other_end not in ops:  # nothing in flight would match
            # only two ranks count alike
            is_past = len(ranks) == 2 and progress.get(peer, NOT_THERE).pairs_enqueued >= op.seq
            yield _one_sided(index, op, rank, peers, is_past, is_known=peer in first)
        elif other_end not in done:
            done.add(end)
            ends = ((rank, op), (peer, ops[other_end]))
            signatures = tuple((r, ("send", *o.signature[1:])) for r, o in ends)
            yield Wait(
                index, op, (rank, peer), elsewhere=_elsewhere(ends, first), signatures=signatures
            )


def _in_flight(progress: dict[int, GroupProgress]) -> dict[_End, Op]:
    """The sends and receives of all ranks, by their own end."""
    return {(rank, op.peer, op.kind): op for rank, state in progress.items() for op in state.pairs}


def _one_sided(
    index: int, op: Op, rank: int, peers: tuple[int, ...], is_past: bool, *, is_known: bool
) -> Wait:
    """A send or receive that has no other end in flight."""
    if not is_known:
        return Wait(index, op, (rank,), unknown=peers)
    if is_past:
        return Wait(index, op, (rank,), passed=peers)
    return Wait(index, op, (rank,), absent=peers)


@dataclass(frozen=True)
class Blame:
    """A culprit: `kind` is cpu_stopped, gpu_stopped, no_dump, mismatch or order; `sure`: nothing
    else explains it."""

    rank: int
    kind: str
    wait: Wait
    sure: bool


def culprits_of(flight: Flight, waits: Sequence[Wait]) -> tuple[list[Blame], list[Wait]]:
    """The culprits, and the waits that none of them explains."""
    found = [blame for wait in waits for blame in _of_wait(flight, waits, wait)]
    found += _stopped_in_flight(flight, waits, {blame.rank for blame in found})
    found = _without_victims(flight, _best(found))
    left = unexplained_waits(waits, found)
    if left and not found:
        found = _of_ras(flight, left) or _of_all(flight, left)
        left = unexplained_waits(waits, found)
    return found, left


def _of_all(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    # All ranks have come to what stands and none completed it; ranks wait for each other at the
    # others.
    standing = [
        wait for wait in left if len(wait.waiting) > 1 and not wait.blockers and not wait.passed
    ]
    of_standing = (_of_late_gpus, _of_lost_members, _of_shared_rank)
    of_crossed = (_of_order, _of_most_waited_for)
    found = (
        explain(flight, standing or left) for explain in (of_standing if standing else of_crossed)
    )
    return next(filter(None, found), [])


def _of_wait(flight: Flight, waits: Sequence[Wait], wait: Wait) -> Iterable[Blame]:
    odd = odd_ones(flight, waits, wait)
    if odd is not None:
        few = 2 * len(odd) < len(wait.signatures) or _usual(_alike(flight, waits, wait))
        yield from (Blame(rank, "mismatch", wait, bool(few)) for rank in odd)
        return
    # Others have completed what these ranks did not, and no rank but these may hold it up.
    if wait.passed and not wait.unseen and (wait.both_sided or not wait.blockers):
        yield from (Blame(rank, "gpu_stopped", wait, wait.both_sided) for rank in wait.waiting)
    yield from (
        Blame(rank, "cpu_stopped", wait, True)
        for rank in wait.absent
        if not flight.dumps[rank].pending
    )
    yield from (Blame(rank, "no_dump", wait, True) for rank in wait.unknown)


def _best(found: Iterable[Blame]) -> list[Blame]:
    """One blame a rank: of the first operation; collectives first, as the ends of a pair run
    different parts."""
    order = ("mismatch", "gpu_stopped", "cpu_stopped", "order", "no_dump")

    def rank_of(b: Blame) -> tuple[object, ...]:
        op = b.wait.op
        unrecorded = op.record < 0
        in_pair = op.peer >= 0
        return order.index(b.kind), not b.sure, unrecorded, in_pair, op.created_ns, op.seq

    best: dict[int, Blame] = {}
    for blame in sorted(found, key=rank_of):
        best.setdefault(blame.rank, blame)
    return sorted(best.values(), key=lambda blame: blame.rank)


def _without_victims(flight: Flight, found: list[Blame]) -> list[Blame]:
    """Without ranks whose last operation may have failed because a rank is gone, and without those
    whose file is damaged (they lived to write it), where others explain it. No rank is sure that
    has no dump where there are others, and none that stopped where many did."""
    found = _best(chain.from_iterable(_causes(flight, blame) for blame in found))
    lost = set(flight.lost)
    kept = [blame for blame in found if blame.kind != "no_dump" or blame.rank in lost] or found
    known = set(flight.clues.dead_ranks)
    if len(kept) == 1:
        known |= lost
    are_many = len(kept) > max(2.0, MOST_SHARE * len(flight.expected))
    doubtful = ("cpu_stopped", "no_dump") if are_many else ()
    return [replace(one, sure=one.sure and _is_certain(one, doubtful, known)) for one in kept]


def _is_certain(blame: Blame, doubtful: tuple[str, ...], dead: set[int]) -> bool:
    return blame.kind not in doubtful and (blame.kind != "no_dump" or blame.rank in dead)


def _causes(flight: Flight, blame: Blame) -> list[Blame]:
    """The ranks that are gone, where one without anything in flight may have stopped at their
    error; else the blame."""
    dump = flight.dumps.get(blame.rank)
    if blame.kind == "cpu_stopped" and dump is not None and dump.last_group >= 0:
        ranks = flight.groups[dump.last_group].ranks or flight.lost
        if dump.groups[dump.last_group].ended_unseen and not set(ranks).isdisjoint(flight.lost):
            return [Blame(rank, "no_dump", blame.wait, False) for rank in flight.lost]
    return [blame]


def _stopped_in_flight(flight: Flight, waits: Sequence[Wait], known: set[int]) -> Iterable[Blame]:
    """CPUs that stopped with operations in flight on which peers of the same program went on."""
    least = 1 if known else 2  # peers that have to say it
    for wait in waits:
        few = min(COMPARED, max(1.0, MOST_SHARE * len(wait.waiting)))
        if wait.op.peer >= 0 or len(wait.absent) > few:  # a collective that few have not issued
            continue
        peers = set(wait.waiting) - known
        for rank in set(wait.absent) - known:
            pending = flight.dumps[rank].pending
            same = (peer for peer in peers if _stands_at_all(flight, flight.dumps[peer], pending))
            if pending and len(list(islice(same, least))) == least:
                yield Blame(rank, "cpu_stopped", wait, not known)


def _stands_at_all(flight: Flight, peer: RankDump, pending: Iterable[tuple[int, Op]]) -> bool:
    return all(_stands_at(flight, peer, index, op) for index, op in pending)


def _stands_at(flight: Flight, peer: RankDump, index: int, op: Op) -> bool:
    """Whether the peer stands at this operation too, in the same group or in its own of the same
    purpose."""
    desc = flight.groups[index].desc
    alike = (
        [index]
        if index in peer.groups
        else [
            i
            for i in peer.groups
            if desc not in ("", "undefined") and flight.groups[i].desc == desc
        ]
    )
    return any(
        (o.kind, o.peer, o.seq) == (op.kind, op.peer, op.seq)
        for i in alike
        for o in peer.groups[i].pending
    )


def unexplained_waits(waits: Sequence[Wait], found: Iterable[Blame]) -> list[Wait]:
    """The waits from which no chain of waiting leads to a culprit."""
    culprits = {blame.rank for blame in found}
    reached = set(culprits)
    left = list(waits)
    while True:
        explained: list[Wait] = []
        unexplained: list[Wait] = []
        for wait in left:
            is_open = reached.isdisjoint(wait.blockers) and culprits.isdisjoint(wait.waiting)
            (unexplained if is_open else explained).append(wait)
        if not explained:
            return left
        reached.update(*(wait.waiting for wait in explained))
        left = unexplained


def odd_ones(flight: Flight, waits: Sequence[Wait], wait: Wait) -> tuple[int, ...] | None:
    """The ranks that issued another operation at this place than most, or than each time before
    where it is even; empty where that does not tell either, None where all agree."""
    found = [(rank, _compared(signature)) for rank, signature in wait.signatures]
    counts = Counter(key for _, key in found)
    if len(counts) < 2:
        return None
    usual = _usual(counts) or _usual(_alike(flight, waits, wait)) or _as_before(flight, wait)
    return () if usual is None else tuple(sorted(rank for rank, key in found if key != usual))


def _as_before(flight: Flight, wait: Wait) -> Compared | None:
    """What came at this place each time before, if all ranks remember the same and one of them
    issued it."""
    dumps = (flight.dumps[rank].groups[wait.group] for rank, _ in wait.signatures)
    remembered = {_compared(state.follows) for state in dumps}
    issued = {_compared(signature) for _, signature in wait.signatures}
    return remembered.pop() if len(remembered) == 1 and remembered <= issued else None


def _usual(counts: Counter[Compared]) -> Compared | None:
    """What most have; None where two have it as often."""
    first, *others = counts.most_common(2)
    usual, most = first
    return None if others and others[0][1] == most else usual


def _alike(flight: Flight, waits: Sequence[Wait], wait: Wait) -> Counter[Compared]:
    """What is at this place in all groups of the same purpose."""
    desc = flight.groups[wait.group].desc
    at_place = [w for w in waits if w.op.seq == wait.op.seq]
    same = [w for w in at_place if desc and flight.groups[w.group].desc == desc]
    return Counter(_compared(signature) for w in same or [wait] for _, signature in w.signatures)


def _compared(signature: Signature) -> Compared:
    return signature if signature[0] in SAME_SIZES else (signature[0], signature[3])


def _of_ras(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """The few ranks that NCCL's RAS or Inspector saw behind all others."""
    few = len(flight.clues.behind) <= MOST_SHARE * len(flight.expected)
    return [Blame(rank, "cpu_stopped", left[0], False) for rank in flight.clues.behind if few]


def _of_late_gpus(flight: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """The few GPUs that have not begun an operation to which all CPUs have come, and that others
    have begun."""
    for wait in standing:
        late = {rank for rank in wait.waiting if not _has_begun(flight.dumps[rank], wait)}
        if 0 < len(late) <= max(1.0, MOST_SHARE * len(wait.waiting)):
            return [Blame(rank, "gpu_stopped", wait, True) for rank in wait.waiting if rank in late]
    return []


def _has_begun(dump: RankDump, wait: Wait) -> bool:
    """Whether the rank's GPU has begun what it stands at."""
    in_pair = wait.op.peer >= 0
    pending = dump.groups[wait.group].pending
    return any(op.started for op in pending if (op.peer >= 0) == in_pair)


def _of_lost_members(flight: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """Any rank without a file may be a member of a group whose ranks no dump names."""
    named = flight.groups[standing[0].group].ranks
    return [] if named else [Blame(rank, "no_dump", standing[0], False) for rank in flight.lost]


def _of_shared_rank(_: Flight, standing: Sequence[Wait]) -> list[Blame]:
    """The one rank that all of several operations share."""
    shared = set.intersection(*(set(wait.waiting) for wait in standing))
    return (
        [Blame(shared.pop(), "gpu_stopped", standing[0], False)]
        if len(standing) > 1 and len(shared) == 1
        else []
    )


def _of_order(flight: Flight, left: Sequence[Wait]) -> list[Blame]:
    """Ranks that wait for each other: who came to an operation after fewer of them than most left
    one out, or issued it too early."""
    for wait in left:
        early = _early(flight, wait)
        found = [
            Blame(rank, "order", other, False)
            for other in left
            for rank in sorted(early.intersection((*other.absent, *other.elsewhere)))
        ]
        if found:
            return _best(found)
    return []


def _early(flight: Flight, wait: Wait) -> set[int]:
    """The ranks that came to an operation after fewer others than most did; none where there is no
    such majority."""
    record_of = {
        rank: getattr(flight.dumps[rank].groups[wait.group].head, "record", -1)
        for rank in wait.waiting
    }
    usual, count = Counter(record_of.values()).most_common(1)[0]
    if count <= len(record_of) / 2:
        return set()
    return {rank for rank, record in record_of.items() if record < usual}


def _of_most_waited_for(_: Flight, left: Sequence[Wait]) -> list[Blame]:
    """Ranks that wait for each other: the few that most others wait for."""
    held = (wait for wait in left if 0 < len(wait.blockers) < len(wait.waiting))
    best = min(held, key=lambda wait: len(wait.blockers) / len(wait.waiting), default=None)
    return [Blame(rank, "order", best, False) for rank in best.blockers] if best else []
