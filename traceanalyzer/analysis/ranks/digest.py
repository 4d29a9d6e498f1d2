"""What the comparison of ranks asks of a rank, as a value: a few kilobytes, however long the
recording is."""

from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analysis.names.collectives import KINDS, POINT_TO_POINT
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Table, column
from traceanalyzer.trace.table import MOST_IDS, MOST_RANKS

SENDS = tuple(KINDS.index(kind) for kind in POINT_TO_POINT)  # kinds of what two ranks exchange
Long = Annotated[int, msgspec.Meta(ge=-MOST_IDS, le=MOST_IDS)]
Count = Annotated[
    int, msgspec.Meta(ge=-1, le=MOST_RANKS)
]  # of ranks, devices or steps: what a digest may be read with


class RunClaim(NamedTuple):
    """What a recording says of itself, by which ranks of one run are told from those of several."""

    rank: Count | None
    world_size: Count | None
    start_ns: Long  # from its first event to its last one's end, on the clock of its epoch
    end_ns: Long


class ProcessGroup(NamedTuple):
    """Who communicates: a name, the ranks as recorded, and the communicator's id where its
    operations are numbered."""

    name: str
    ranks: str
    communicator: str
    size: Count  # -1 if not known

    @property
    def key(self) -> tuple[str, str, str]:
        """What it goes by, equal on all its ranks."""
        return self[:3]


NO_GROUP = ProcessGroup("", "", "", -1)


@dataclass(frozen=True, eq=False)
class DigestedCalls(Table):
    """Collectives, sends and receives on the device of a rank's steps, in order of start; ns on its
    own clock."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    launched: I64 = column(np.int64)  # when the host launched its first kernel
    row: I64 = column(np.int64)  # its first kernel's row in `Trace.device_ops`
    step: I32 = column(np.int32)
    kind: I32 = column(np.int32)  # index in `KINDS`
    bytes: I64 = column(np.int64)
    group: I32 = column(np.int32)  # index in `RankDigest.groups`
    sequence: I64 = column(np.int64)  # number of the operation in its communicator
    peer: I32 = column(np.int32)
    queued: I64 = column(np.int64, fill=0)
    """What it starts later than it could have: it was launched, and what was launched before it had
    ended, ns."""
    slowed: I64 = column(np.int64, fill=0)
    """How much longer compute took for communication beside it, since the call before was launched,
    ns."""
    held: I32 = column(np.int32, fill=1)
    """Whether compute waited for its end; as it does not for gradients that are reduced during the
    backward pass."""
    after: I32 = column(np.int32, fill=0)
    """How many of the rank's pieces were launched before it; 0 of what is not sent or received."""


@dataclass(frozen=True, eq=False)
class Pieces(Table):
    """Compute of one role between two calls that send or receive, in order of start, ns; none
    without such calls."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    busy: I64 = column(np.int64)  # time of it in which the device computed
    step: I32 = column(np.int32)
    role: I32 = column(np.int32)  # a `Role`: forward, backward or optimizer


@dataclass(frozen=True, eq=False)
class RankDigest:
    """One rank of a run."""

    path: str
    claim: RunClaim
    host: str | None
    epoch_ns: int
    device: int | None  # device of its steps; None without device work
    only_step_times: bool  # whether the recording is a log of step times
    steps: Steps  # without the step of each op
    compute: I64  # time of each step with compute on the device, ns; ...
    communication: I64  # ... with communication; ...
    busy: I64  # ... with any work
    collectives: int  # collectives of the recording, on any device, in or between steps
    calls: DigestedCalls
    groups: tuple[ProcessGroup, ...]
    pieces: Pieces

    @property
    def rank(self) -> int | None:
        """Its rank, None if the recording does not say."""
        return self.claim.rank

    @property
    def mean_step_ns(self) -> float:
        """Mean time of a steady step."""
        return float(self.steps.duration[self.steps.steady].mean())

    def per_step(self, spent: I64) -> float:
        """The mean of a time of each step over the steady ones, ns."""
        return float(spent[self.steps.steady].sum() / self.steps.steady_count)


class Family(NamedTuple):
    """Kernels of one name in the steady steps; sums over them."""

    name: str
    launches: Long
    time_ns: Long
    threads: Long  # that they were launched with; -1 where those of one are not known


@dataclass(frozen=True, eq=False)
class Why:
    """What a rank did; ns. `idle` has a row for each `IdleCause`, and a column for each step."""

    exposed_communication: I64
    exposed_copy: I64
    idle: I64
    compute_before: I64
    """Compute in the stretch before each call: since the rank's communication before had ended, or
    its step began."""
    idle_before: I64  # idle time in it, a row for each `IdleCause`
    families: tuple[Family, ...]
    clock_mhz: float | None  # mean clock of its device's SMs, where it was sampled
