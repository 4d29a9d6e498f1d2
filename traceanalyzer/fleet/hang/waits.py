"""Who stands at which operation, and which ranks hold it up.

Operations of one group run in order, so a rank stands in each group at the first that is not completed. It is held up
by ranks that have not issued it, and by ranks whose GPU has not come to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from traceanalyzer.base import dataclass
from traceanalyzer.trace.flight import Flight, Group, InGroup, Op, Signature

OPPOSITE = {"send": "recv", "recv": "send"}
ONE_SIDED = frozenset(("broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather", "send", "recv"))
"""Kinds that a rank can complete before its peers came to them."""


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
    signatures: tuple[tuple[int, Signature], ...] = ()
    """Of the ranks that are known to have issued it."""
    unseen: bool = False
    """Whether it may have failed where it is passed."""

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
    first = {rank: min((op.record for s in d.groups.values() for op in s.pending), default=0)
             for rank, d in flight.dumps.items()}  # fmt: skip
    members = _members(flight)
    found: list[Wait] = []
    for index, ranks in members.items():
        here = {rank: state for rank in ranks if (state := flight.dumps[rank].groups.get(index))}
        whole = flight.groups[index].ranks or tuple(ranks)
        found += _collectives(index, whole, here, first)
        found += _pairs(index, flight.groups[index], whole, here, first)
    return found


def _members(flight: Flight) -> dict[int, list[int]]:
    """By group the ranks whose dumps name it."""
    found: dict[int, list[int]] = defaultdict(list)
    for rank in sorted(flight.dumps):
        for index in flight.dumps[rank].groups:
            found[index].append(rank)
    return found


def _collectives(index: int, ranks: tuple[int, ...], here: dict[int, InGroup], first: dict[int, int]) -> Iterator[Wait]:
    by_seq: dict[int, list[int]] = defaultdict(list)
    mixed = any(state.pairs_enqueued >= 0 for state in here.values())
    for rank in ranks:
        if rank in here and (head := here[rank].head) is not None and not (mixed and here[rank].from_status):
            by_seq[head.seq].append(rank)
    for seq, waiting in sorted(by_seq.items()):
        parted: dict[str, list[int]] = defaultdict(list)
        for rank in ranks:
            parted[_place(here.get(rank), rank in first, seq, mixed, first.get(rank, 0))].append(rank)
        yield Wait(
            index, _known(seq, [here[rank] for rank in waiting], here.values()), tuple(waiting),
            **{name: tuple(parted[name]) for name in ("absent", "unknown", "earlier", "elsewhere", "passed")},
            signatures=tuple((rank, state.tail[seq]) for rank, state in here.items() if seq in state.tail),
            unseen=any(here[rank].ended_unseen for rank in parted["passed"]),
        )  # fmt: skip


def _known(seq: int, waiting: Iterable[InGroup], here: Iterable[InGroup]) -> Op:
    """The operation, by a rank that has it still recorded."""
    heads = (state.head for state in waiting if state.head is not None and state.head.kind)
    signature = next((state.tail[seq] for state in here if seq in state.tail), ("", 0, 0, ""))
    return next(heads, Op(seq, signature[0], signature=signature, record=-1))


def _place(state: InGroup | None, has_dump: bool, seq: int, mixed: bool, first: int) -> str:
    """Where a member of the group stands towards the collective `seq`; `first`: its first operation not completed."""
    if not has_dump:
        return "unknown"
    if state is None or (state.from_status and mixed):  # the counters count sends and receives too
        return "absent"
    if state.head is None:
        return "passed" if state.enqueued >= seq else "absent"
    if state.head.seq > seq:
        return "passed"
    if state.enqueued < seq:
        return "absent"
    if state.head.seq < seq:
        return "earlier"
    return "elsewhere" if first < state.head.record else "here"


def _pairs(
    index: int, group: Group, ranks: tuple[int, ...], here: dict[int, InGroup], first: dict[int, int]
) -> Iterator[Wait]:
    """Sends and receives: the two ends are matched by direction and peer."""
    place = {rank: i for i, rank in enumerate(ranks)}
    seen = set()
    for rank, state in here.items():
        for op in state.pairs:
            peer = ranks[op.peer] if 0 <= op.peer < len(ranks) else -1
            if (rank, peer, op.kind) in seen:
                continue
            other = here.get(peer)
            match = None if other is None else next(
                (o for o in other.pairs if o.kind == OPPOSITE.get(op.kind) and o.peer == place[rank]), None
            )  # fmt: skip
            if match is not None:
                seen.add((peer, rank, match.kind))
                ends = ((rank, op), (peer, match))
                yield Wait(
                    index, op, (rank, peer), elsewhere=tuple(r for r, o in ends if first[r] < o.record),
                    signatures=tuple((r, ("send", *o.signature[1:])) for r, o in ends),
                )  # fmt: skip
            elif peer not in first:
                yield Wait(index, op, (rank,), unknown=(peer,) if peer >= 0 else ())
            elif len(ranks) == 2 and other is not None and _pairs_issued(other) >= op.seq:
                yield Wait(index, op, (rank,), passed=(peer,))
            else:
                yield Wait(index, op, (rank,), absent=(peer,))


def _pairs_issued(state: InGroup) -> int:
    """Sends and receives of a group of two, where both ends count alike."""
    return state.enqueued if state.from_status else state.pairs_enqueued
