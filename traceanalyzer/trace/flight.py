"""What the ranks of a distributed job recorded of their collectives when it stopped: PyTorch's
Flight Recorder.

Of each rank only what a verdict needs is kept: where it stands in each process group, and a few
operations."""

from dataclasses import field
from functools import cached_property

from traceanalyzer.base import dataclass

Signature = tuple[str, int, int, str]  # of an operation: its kind, elements in and out, and type
NO_SIGNATURE: Signature = ("", 0, 0, "")


@dataclass(frozen=True)
class FlightGroup:
    """A process group. `ranks` in the group's own order; empty where the dumps do not say."""

    name: str
    desc: str
    ranks: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its name and what it is for."""
        return (
            f"{self.desc} ({self.name})"
            if self.desc not in ("", "undefined")
            else f"group {self.name}"
        )


@dataclass(frozen=True)
class Op:
    """An operation of a group as one of its ranks recorded it. `peer` is the place of the other end
    in the group, -1 for a collective; `record` counts the operations of the rank in the order of
    its program."""

    seq: int
    kind: str
    peer: int = -1
    record: int = 0
    created_ns: int = 0
    sizes: str = ""
    signature: Signature = NO_SIGNATURE
    started: bool = False
    frame: str = ""


@dataclass(frozen=True)
class GroupProgress:
    """Where a rank stands in a group. `enqueued` and `completed` are sequence numbers of
    collectives: the last that its CPU issued, and the last before `head`, the first that is not
    completed. `pairs` are the first operation not completed with each peer in each direction.
    `tail` has the last signatures by sequence number; `follows` is what came each time before after
    the same operations as now, in a group of few ranks."""

    enqueued: int = -1
    completed: int = -1
    head: Op | None = None
    last: Op | None = None
    pairs: tuple[Op, ...] = ()
    pairs_enqueued: int = -1
    tail: dict[int, Signature] = field(default_factory=dict)
    follows: Signature = NO_SIGNATURE
    from_status: bool = False
    """Whether it comes from the counters of the group alone: both kinds of operations are
    `enqueued`."""
    ended_unseen: bool = False
    """Whether operations have only ended, be it in an error: gloo's recorder never calls one
    completed."""

    @property
    def stands_at(self) -> int:
        """The sequence number of the first collective that is not completed, issued or not."""
        return self.enqueued + 1 if self.head is None else self.head.seq

    @property
    def pending(self) -> tuple[Op, ...]:
        """The first operations not completed, collectives and others."""
        return self.pairs if self.head is None else (self.head, *self.pairs)


@dataclass(frozen=True)
class RankDump:
    """What one rank recorded. `groups` by the index of the group; `last` is what its CPU issued
    last."""

    rank: int
    path: str
    groups: dict[int, GroupProgress]
    entries: int
    last: Op | None = None
    last_group: int = -1
    newest_ns: int = 0
    dumped_ns: int = 0  # when the file was written, as far as its time of change says; 0 unknown
    version: str = ""

    @property
    def pending(self) -> list[tuple[int, Op]]:
        """The first operations that the rank has not completed, with their groups."""
        return [(index, op) for index, state in self.groups.items() for op in state.pending]


@dataclass(frozen=True)
class Clues:
    """What NCCL's RAS and Inspector add: where ranks run, processes that RAS cannot reach, ranks
    that it saw behind."""

    hosts: dict[int, str] = field(default_factory=dict)
    dead: tuple[str, ...] = ()
    dead_ranks: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()


EMPTY_FILE = "an empty file"
"""Why a dump could not be read that has no byte."""


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be read, and the rank that its name says."""

    path: str
    why: str
    rank: int | None


@dataclass(frozen=True)
class Repeated:
    """A dump of a rank that has a newer one."""

    path: str
    rank: int


@dataclass(frozen=True)
class Flight:
    """The dumps of a job. `expected` are all ranks that any group names."""

    path: str
    groups: tuple[FlightGroup, ...]
    dumps: dict[int, RankDump]
    expected: frozenset[int]
    unreadable: list[Unreadable] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)
    clues: Clues = field(default_factory=Clues)

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """Ranks without a dump that could be read."""
        return tuple(sorted(self.expected - self.dumps.keys()))

    @cached_property
    def lost(self) -> tuple[int, ...]:
        """Ranks without a file: those whose file is damaged lived to write it."""
        damaged = {one.rank for one in self.unreadable}
        return tuple(rank for rank in self.missing if rank not in damaged)
