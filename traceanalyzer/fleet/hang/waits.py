"""Who stands at which operation, and which ranks hold it up.

Operations of one group run in order, so a rank stands in each group at the first that is not completed. It is held up
by ranks that have not issued it, and by ranks whose GPU has not come to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from traceanalyzer.base import dataclass
from traceanalyzer.trace.flight import Flight, InGroup, Op, Signature
from traceanalyzer.trace.table import MOST_IDS

OPPOSITE = {"send": "recv", "recv": "send"}
ONE_SIDED = frozenset(("broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather", "send", "recv"))
"""Kinds that a rank can complete before its peers came to them."""
NOT_THERE = InGroup(enqueued=-MOST_IDS - 1, pairs_enqueued=-MOST_IDS - 1)
"""Where a rank stands in a group that its dump does not name: before all that others issued."""


@dataclass(frozen=True)
class Wait:
    """An operation at which ranks stand. All ranks are global; `op` is that of the first of `waiting`.

    `absent` have not issued it, `unknown` left no dump, `earlier` have issued it and stand at an earlier operation of
    the group, `elsewhere` stand at it and at an operation of another group that they issued before. `passed` have
    completed it.
    """

    group: int
    op: Op
    waiting: tuple[int, ...]
    absent: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    earlier: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    passed: tuple[int, ...] = ()
    signatures: tuple[tuple[int, Signature], ...] = ()  # of the ranks that are known to have issued it
    unseen: bool = False  # whether it may have failed where it is passed

    @property
    def blockers(self) -> tuple[int, ...]:
        """The ranks that hold it up."""
        return (*self.absent, *self.unknown, *self.earlier, *self.elsewhere)

    @property
    def both_sided(self) -> bool:
        """Whether no rank can complete it before all came to it."""
        return bool(self.op.kind) and self.op.kind not in ONE_SIDED and not self.unseen


def waits_of(flight: Flight) -> list[Wait]:
    """All operations at which ranks stand."""
    first = {rank: min((op.record for _, op in dump.pending), default=0) for rank, dump in flight.dumps.items()}
    groups: dict[int, dict[int, InGroup]] = defaultdict(dict)
    for rank in sorted(flight.dumps):
        for index, state in flight.dumps[rank].groups.items():
            groups[index][rank] = state
    found: list[Wait] = []
    for index, here in groups.items():
        whole = flight.groups[index].ranks or tuple(here)
        both = any(state.pairs_enqueued >= 0 and not state.from_status for state in here.values())
        # The counters of a status count sends and receives, too.
        collectives = {rank: state for rank, state in here.items() if not (both and state.from_status)}
        found += [*_collectives(index, whole, collectives, first), *_pairs(index, whole, here, first)]
    return found


def _collectives(index: int, ranks: tuple[int, ...], here: dict[int, InGroup], first: dict[int, int]) -> Iterator[Wait]:
    heads = {rank: head for rank in ranks if (head := here.get(rank, NOT_THERE).head)}
    for seq in sorted({head.seq for head in heads.values()}):
        places: dict[str, list[int]] = {name: [] for name in ("waiting", "absent", "unknown", "earlier", "passed")}
        for rank in ranks:
            places[_place(here.get(rank, NOT_THERE), seq) if rank in first else "unknown"].append(rank)
        standing = [(rank, heads[rank]) for rank in places["waiting"]]
        known = {rank: state.tail[seq] for rank, state in here.items() if seq in state.tail}
        yield Wait(
            index, _known(seq, standing, known.values()), elsewhere=_elsewhere(standing, first),
            signatures=tuple(known.items()), unseen=any(here[rank].ended_unseen for rank in places["passed"]),
            **{name: tuple(found) for name, found in places.items()},
        )  # fmt: skip


def _place(state: InGroup, seq: int) -> str:
    """Where a member of the group that left a dump stands towards the collective `seq`."""
    if state.stands_at > seq:
        return "passed"
    if state.enqueued < seq:
        return "absent"
    return "earlier" if state.stands_at < seq else "waiting"


def _known(seq: int, standing: Iterable[tuple[int, Op]], signatures: Iterable[Signature]) -> Op:
    """The operation, by a rank that has it still recorded."""
    signature = next(iter(signatures), ("", 0, 0, ""))
    return next((op for _, op in standing if op.kind), Op(seq, signature[0], signature=signature, record=-1))


def _elsewhere(standing: Iterable[tuple[int, Op]], first: dict[int, int]) -> tuple[int, ...]:
    """The ranks that stand at an operation that they issued before, too."""
    return tuple(rank for rank, op in standing if first[rank] < op.record)


def _pairs(index: int, ranks: tuple[int, ...], here: dict[int, InGroup], first: dict[int, int]) -> Iterator[Wait]:
    """Sends and receives: the two ends are matched by direction and peer."""
    place = {rank: i for i, rank in enumerate(ranks)}
    ops = {(rank, op.peer, op.kind): op for rank, state in here.items() for op in state.pairs}
    done = set()
    for end, op in ops.items():
        rank, peers = end[0], ranks[op.peer : op.peer + 1]
        peer = next(iter(peers), -1)
        other_end = (peer, place.get(rank, -1), OPPOSITE.get(op.kind, ""))
        if other_end not in ops:  # nothing in flight would match; only two ranks count alike
            gone = len(ranks) == 2 and here.get(peer, NOT_THERE).pairs_enqueued >= op.seq
            state = ("passed" if gone else "absent") if peer in first else "unknown"
            yield Wait(index, op, (rank,), signatures=(), unseen=False, **{state: peers})
        elif other_end not in done:
            done.add(end)
            ends = ((rank, op), (peer, ops[other_end]))
            signatures = tuple((r, ("send", *o.signature[1:])) for r, o in ends)
            yield Wait(index, op, (rank, peer), elsewhere=_elsewhere(ends, first), signatures=signatures)
