"""What is known about a hang, as values: the verdict, the signals it rests on, and where each group
stands."""

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path, PurePath
from statistics import mode

from traceanalyzer.base import NS_PER_S, OWN, dataclass, metric
from traceanalyzer.fleet.hang.blame import MOST_SHARE, Blame, Wait, culprits_of, odd_ones, waits_in
from traceanalyzer.trace.flight import (
    EMPTY_FILE,
    Flight,
    FlightGroup,
    GroupProgress,
    Op,
    Repeated,
    Signature,
    Unreadable,
)

SHORTEST_HANG_S = 2.0
"""What waited less when the dumps were written need not have hung: a step of any job has such
waits."""
_TEXTS = Path(__file__).with_name("situations.toml")
SITUATIONS: dict[str, dict[str, str]] = tomllib.loads(_TEXTS.read_text(encoding="utf-8"))
NO_DUMP = "no dump"
EMPTY_DUMP = "empty dump"
UNREADABLE_DUMP = "dump not readable"
LEFT = {
    NO_DUMP: "no dump",
    EMPTY_DUMP: "an empty dump",
    UNREADABLE_DUMP: "a dump that cannot be read",
}
"""Signals of ranks that told nothing, and what they left, in a sentence."""
NO_WAIT = Wait(-1, Op(-1, ""), ())
LISTED = 8  # ranks that a sentence lists


STOPPED_GPU = ("gpu_stopped", "gpu_not_begun")
"""Kinds of culprits whose CPU waits for their own GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class HangCulprit:
    """A rank that the others wait for. A job may have 100,000 without a dump."""

    rank: int = metric("rank of the job")
    host: str | None = metric("host, as NCCL's RAS or Inspector has it")
    kind: str = metric("cpu_stopped, gpu_stopped, no_dump, mismatch or order", text="own")
    operation: str = metric("operation that it holds up")
    group: str = metric("process group of the operation")
    issued_last: str | None = metric("what its CPU issued last, and the line of the program")
    sure: bool = metric("whether nothing else explains it")


@dataclass(frozen=True)
class GroupState:
    """Where a process group stands."""

    group: str = metric("process group")
    ranks: int = metric("ranks of the group")
    stands_at: str | None = metric("first operation that is not complete on all of its ranks")
    waiting: int = metric("ranks that have issued it and not completed it")
    held_up_by: str | None = metric(
        "ranks that have not issued it, left no dump, have not come to it, or have not completed what a peer has"
    )
    completed: int | None = metric(
        "last collective that all ranks with a dump completed (sequence number)"
    )
    issued: int | None = metric("last collective that any rank issued (sequence number)")


@dataclass(frozen=True)
class Mismatch:
    """Ranks that issued different operations at one place of a group."""

    group: str = metric("process group")
    sequence: int = metric("sequence number in the group")
    ranks: tuple[int, ...] = metric("ranks that differ from most; empty where it is even")
    issued: str = metric("what they issued; where it is even, what the first of the ranks issued")
    others: str = metric("what the others issued")
    issued_by: tuple[int, ...] = metric("ranks that issued it")
    others_by: tuple[int, ...] = metric("ranks that issued the other operation")


@dataclass(frozen=True)
class HangVerdict:
    """The answer. `confidence` is sure, likely or undecided. A text is empty where nothing is
    known."""

    culprits: tuple[int, ...]
    kind: str = field(metadata=OWN)
    collective: str = ""
    sequence: int | None = None
    sizes: str = ""
    group: str = ""
    confidence: str = field(metadata=OWN, default="undecided")
    # the line of the program that issued the operation on the ranks that wait for it
    frame: str = ""
    victims: int = 0
    suspects: tuple[int, ...] = ()
    """Where it is undecided, the ranks among which the culprit is, or that the operation
    connects."""

    @property
    def operation(self) -> str:
        """The operation that is waited for, in words."""
        number = "" if self.sequence is None else f" #{self.sequence:,}"
        return f"{self.collective or 'the operation'}{number} of {self.group}"


@dataclass(frozen=True)
class Inputs:
    """The dumps."""

    path: str
    expected: int
    read: int
    missing: tuple[int, ...]
    unreadable: list[Unreadable]
    repeated: list[Repeated]
    logs: list[str]
    overwritten: bool
    frames: bool
    timed: bool


@dataclass(frozen=True)
class Hang:
    """A hang."""

    situation: str = field(metadata=OWN)  # one of `SITUATIONS`
    verdict: HangVerdict
    culprits: list[HangCulprit]
    silent: tuple[int, ...]
    cpu_behind: tuple[int, ...]
    gpu_behind: tuple[int, ...]
    mismatches: list[Mismatch]
    groups: list[GroupState]
    inputs: Inputs
    dead: list[str] = field(default_factory=list)  # processes that RAS no longer reaches
    cells: dict[str, dict[int, str]] = field(default_factory=dict, metadata=OWN)
    """By the purpose of groups and rank: complete, waits, cpu, gpu or silent."""
    waited_s: float = math.inf
    """How long the oldest operation had waited at most when the dumps were written; infinite where
    it is unknown."""

    @property
    def without_entries(self) -> dict[str, tuple[int, ...]]:
        """The ranks that told nothing, by why: no file, an empty one, one that cannot be read."""
        files = {one.rank: one.why for one in self.inputs.unreadable if one.rank is not None}
        missing = set(self.inputs.missing)
        empty = {rank for rank in self.silent if rank not in missing}
        empty |= {rank for rank in missing if files.get(rank) == EMPTY_FILE}
        damaged = {rank for rank in missing if rank in files} - empty
        found = {
            NO_DUMP: missing - empty - damaged,
            EMPTY_DUMP: empty,
            UNREADABLE_DUMP: damaged,
        }
        return {name: tuple(sorted(ranks)) for name, ranks in found.items() if ranks}

    def left(self, ranks: Iterable[int]) -> str:
        """What these ranks left that told nothing, in words."""
        whose = set(ranks)
        for name, theirs in self.without_entries.items():
            if whose <= set(theirs):
                return LEFT[name]
        return LEFT[NO_DUMP] if whose.isdisjoint(self.silent) else "no dump that tells"


def hang_of(flight: Flight) -> Hang:
    """The answer to what the dumps of a job ask."""
    waits = waits_in(flight)
    mismatches = list(_mismatches(flight, waits))
    waited = _waited_s(flight, waits)
    culprits: list[Blame] = []
    left: list[Wait] = []
    if waited >= SHORTEST_HANG_S or mismatches:
        culprits, left = culprits_of(flight, waits)
    situation, confidence = _situation(flight, waits, culprits, left, bool(mismatches))
    named = list(_culprits(flight, culprits))
    # What their CPU has not issued waits for their GPU.
    stopped = {one.rank for one in named if one.kind in STOPPED_GPU}
    # Their GPU has not completed what its peers could not without it.
    gpu_behind = _every(wait.waiting for wait in waits if wait.passed and wait.both_sided)
    empty = [rank for rank, dump in flight.dumps.items() if not dump.entries]
    return Hang(
        situation=situation,
        verdict=_verdict(flight, waits, culprits, left, situation, confidence),
        culprits=named,
        silent=_every((flight.missing, empty)),
        cpu_behind=_every(set(wait.absent) - stopped for wait in waits if wait.op.peer < 0),
        gpu_behind=gpu_behind,
        mismatches=mismatches,
        groups=list(_groups(flight, waits, culprits)),
        inputs=_inputs(flight),
        dead=list(flight.clues.dead),
        cells=_cells(flight, waits, gpu_behind, stopped),
        waited_s=waited,
    )


def _waited_s(flight: Flight, waits: Iterable[Wait]) -> float:
    """A file's time of change is that of the dump or later: what it says is an upper bound."""
    written = max((dump.dumped_ns for dump in flight.dumps.values()), default=0)
    begun = min((wait.op.created_ns for wait in waits if wait.op.created_ns), default=0)
    return (written - begun) / NS_PER_S if written > begun > 0 else math.inf


def _every(ranks: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted(set[int]().union(*ranks)))


def operation_text(wait: Wait) -> str:
    """An operation in words."""
    number = f" #{wait.op.seq:,}" if wait.op.peer < 0 else f" with {wait.op.peer}"
    return f"{wait.op.kind or 'an operation'}{number}"


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 9`, `ranks 9 and 14`, `ranks 0 to 7`, the first of many; empty for none."""
    every = sorted(ranks)
    if not every:
        return ""
    if len(every) > 2 and every[-1] - every[0] == len(every) - 1:
        return f"ranks {every[0]} to {every[-1]}"
    shown = [str(rank) for rank in every[:LISTED]]
    if len(every) > LISTED:
        return f"ranks {', '.join(shown)} and {len(every) - LISTED:,} more"
    if len(shown) == 1:
        return f"rank {shown[0]}"
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"


def _situation(
    flight: Flight,
    waits: Sequence[Wait],
    found: Sequence[Blame],
    left: Sequence[Wait],
    mismatched: bool,
) -> tuple[str, str]:
    """What happened (a key of SITUATIONS), and how sure that is."""
    if found:
        sure = not left and all(blame.sure for blame in found)
        return _situation_of(found), "sure" if sure else "likely"
    if not waits and 0 < len(flight.lost) <= MOST_SHARE * len(flight.expected):
        return "ended", "likely"
    if mismatched:
        return "even", "undecided"
    if any(not wait.blockers for wait in left):
        return "stalled", "undecided"
    if left:
        return "undecided", "undecided"
    if waits:
        return "early", "likely"
    return "nothing_wrong", "likely" if flight.missing else "sure"


def _situation_of(found: Sequence[Blame]) -> str:
    """What most culprits are blamed for."""
    kind = mode(blame.kind for blame in found)
    was_passed = any(blame.wait.passed for blame in found)
    return "gpu_not_begun" if kind == "gpu_stopped" and not was_passed else kind


def _verdict(
    flight: Flight,
    waits: Sequence[Wait],
    found: Sequence[Blame],
    left: Sequence[Wait],
    situation: str,
    confidence: str,
) -> HangVerdict:
    kind = SITUATIONS[situation].get("kind", situation)
    culprits = flight.lost if situation == "ended" else tuple(blame.rank for blame in found)
    victims = len(set(_every(wait.waiting for wait in waits)) - set(culprits))
    held = [blame.wait for blame in found if blame.kind == kind] or sorted(
        left, key=lambda wait: bool(wait.blockers)
    )
    if not held:
        return HangVerdict(culprits, kind, confidence=confidence, victims=victims)
    at = held[0]
    op = held[0].op
    return HangVerdict(
        culprits=culprits,
        kind=kind,
        collective=op.kind,
        sequence=op.seq,
        sizes=op.sizes,
        group=flight.groups[at.group].label,
        confidence=confidence,
        frame=op.frame,
        victims=victims,
        suspects=() if found else _every((at.waiting, at.passed)),
    )


def _culprits(flight: Flight, found: Iterable[Blame]) -> Iterator[HangCulprit]:
    for blame in found:
        dump = flight.dumps.get(blame.rank)
        yield HangCulprit(
            rank=blame.rank,
            host=flight.clues.hosts.get(blame.rank),
            kind=blame.kind,
            operation=operation_text(blame.wait),
            group=flight.groups[blame.wait.group].label,
            issued_last=None if dump is None or dump.last is None else _last_issued(dump.last),
            sure=blame.sure,
        )


def _last_issued(op: Op) -> str:
    """An operation with the line of the program that issued it."""
    number = f" #{op.seq:,}" if op.peer < 0 else ""
    path, _, line = op.frame.partition(":")
    at = f" at {PurePath(path).name}:{line}" if op.frame else ""
    return f"{op.kind}{number}{at}"


def _mismatches(flight: Flight, waits: Sequence[Wait]) -> Iterator[Mismatch]:
    for wait in waits:
        odd = odd_ones(flight, waits, wait)
        if odd is None:
            continue
        chosen = odd or _like_the_first(wait)
        ours = [one for one in wait.signatures if one[0] in chosen]
        theirs = [one for one in wait.signatures if one[0] not in chosen]
        yield Mismatch(
            group=flight.groups[wait.group].label,
            sequence=wait.op.seq,
            ranks=odd,
            issued="; ".join(sorted({_issued(signature) for _, signature in ours})),
            others="; ".join(sorted({_issued(signature) for _, signature in theirs})),
            issued_by=tuple(rank for rank, _ in ours),
            others_by=tuple(rank for rank, _ in theirs),
        )


def _like_the_first(wait: Wait) -> tuple[int, ...]:
    """The ranks that issued what the first of them did."""
    first = wait.signatures[0][1]
    return tuple(rank for rank, signature in wait.signatures if signature == first)


def _issued(signature: Signature) -> str:
    kind, size_in, size_out, type_ = signature
    return f"{kind} of {size_in:,} {type_}" + (f" to {size_out:,}" if size_out != size_in else "")


def _groups(flight: Flight, waits: Sequence[Wait], found: Iterable[Blame]) -> Iterator[GroupState]:
    """Those that wait for a culprit first, then those that wait."""
    culprits = {blame.rank for blame in found}
    first = {wait.group: wait for wait in reversed(waits)}
    states: dict[int, list[GroupProgress]] = {group: [] for group in first}
    for dump in flight.dumps.values():
        for index, state in dump.groups.items():
            if state.enqueued >= 0:
                states.setdefault(index, []).append(state)

    def importance(index: int) -> tuple[bool, bool, int]:
        at = first.get(index, NO_WAIT)
        return not at.waiting, culprits.isdisjoint((*at.blockers, *at.waiting)), index

    for index in sorted(states, key=importance):
        yield _group(flight.groups[index], first.get(index, NO_WAIT), states[index])


def _group(group: FlightGroup, at: Wait, progress: Sequence[GroupProgress]) -> GroupState:
    behind = at.waiting if at.passed and at.both_sided else ()
    blockers = (*at.absent, *at.unknown) or at.earlier or at.elsewhere or behind
    return GroupState(
        group=group.label,
        ranks=len(group.ranks) or len(progress),
        stands_at=operation_text(at) if at.waiting else None,
        waiting=len(at.waiting),
        held_up_by=ranks_text(blockers) or None,
        completed=min((state.completed for state in progress), default=None),
        issued=max((state.enqueued for state in progress), default=None),
    )


def _cells(
    flight: Flight,
    waits: Sequence[Wait],
    gpu: Sequence[int],
    stopped: set[int],
) -> dict[str, dict[int, str]]:
    """The worst state of each rank in the groups of each purpose; `stopped`: ranks whose GPU stopped
    and holds up their CPU, too."""
    order = ("complete", "waits", "gpu", "cpu", "silent")
    cells: dict[str, dict[int, str]] = {}

    def mark(index: int, ranks: Iterable[int], state: str) -> None:
        row = cells.setdefault(flight.groups[index].desc or flight.groups[index].name, {})
        for rank in ranks:
            row[rank] = max(row.get(rank, state), state, key=order.index)

    for rank, dump in flight.dumps.items():
        for index, state in dump.groups.items():
            if state.enqueued >= 0 or state.pairs_enqueued >= 0:
                mark(index, [rank], "complete")
    for wait in waits:
        mark(wait.group, wait.waiting, "waits")
        mark(wait.group, set(gpu).intersection(wait.waiting) if wait.passed else (), "gpu")
        mark(wait.group, stopped.intersection(wait.absent), "gpu")
        mark(wait.group, set(wait.absent) - stopped, "cpu")
        mark(wait.group, wait.unknown, "silent")
    return cells


def _inputs(flight: Flight) -> Inputs:
    ops = [
        op
        for dump in flight.dumps.values()
        for s in dump.groups.values()
        for op in (s.head, s.last)
        if op
    ]
    return Inputs(
        path=flight.path,
        expected=len(flight.expected),
        read=len(flight.dumps),
        missing=flight.missing,
        unreadable=flight.unreadable,
        repeated=flight.repeated,
        logs=list(flight.clues.sources),
        overwritten=any(op.record < 0 for op in ops),
        frames=any(op.frame for op in ops),
        timed=any(op.started for op in ops),
    )
