"""What the comparison of ranks asks of a rank, as a value: a few kilobytes, however long the recording is."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure
from traceanalyzer.analysis.time.step_evidence import extent
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64, Table, Trace, column
from traceanalyzer.trace.table import MOST_IDS, MOST_RANKS

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.timed import Timed


Long = Annotated[int, msgspec.Meta(ge=-MOST_IDS, le=MOST_IDS)]
Count = Annotated[int, msgspec.Meta(ge=-1, le=MOST_RANKS)]
"""Of ranks, devices or steps: what a digest may be read with."""


class Claim(NamedTuple):
    """What a recording says of itself, by which ranks of one run are told from those of several."""

    rank: Count | None
    world_size: Count | None
    start_ns: Long
    """From its first event to its last one's end, on the clock of its epoch."""
    end_ns: Long


class ProcessGroup(NamedTuple):
    """Who communicates: a name, the ranks as recorded, and the communicator's id where its operations are numbered."""

    name: str
    ranks: str
    communicator: str
    size: Count
    """-1 if not known."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The same on all its ranks."""
        return self[:3]


NO_GROUP = ProcessGroup("", "", "", -1)


@dataclass(frozen=True, eq=False)
class DigestedCalls(Table):
    """Collectives, sends and receives on the device of a rank's steps, in order of start; ns on its own clock."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    launched: I64 = column(np.int64)
    """When the host launched its first kernel."""
    row: I64 = column(np.int64)
    """Its first kernel's row in `Trace.device_ops`."""
    step: I32 = column(np.int32)
    kind: I32 = column(np.int32)
    """Index in `KINDS`."""
    bytes: I64 = column(np.int64)
    group: I32 = column(np.int32)
    """Index in `RankDigest.groups`."""
    sequence: I64 = column(np.int64)
    """Number of the operation in its communicator."""
    peer: I32 = column(np.int32)


@dataclass(frozen=True, eq=False)
class RankDigest:
    """One rank of a run."""

    path: str
    claim: Claim
    host: str | None
    epoch_ns: int
    device: int | None
    """Device of its steps; None without device work."""
    only_step_times: bool
    """Whether the recording is a log of step times."""
    steps: Steps
    """Without the step of each op."""
    compute: I64
    """Time of each step with compute on the device, ns; ..."""
    communication: I64
    """... with communication; ..."""
    busy: I64
    """... with any work."""
    collectives: int
    """Collectives of the recording, on any device, in or between steps."""
    calls: DigestedCalls
    groups: tuple[ProcessGroup, ...]

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
    threads: Long
    """That they were launched with; -1 where those of one are not known."""


@dataclass(frozen=True, eq=False)
class Why:
    """What a rank did; ns. `idle` has a row for each `IdleCause`, and a column for each step."""

    exposed_communication: I64
    exposed_copy: I64
    idle: I64
    compute_before: I64
    """Compute in the stretch before each call: since the rank's communication before had ended, or its step began."""
    idle_before: I64
    """Idle time in it, a row for each `IdleCause`."""
    families: tuple[Family, ...]
    clock_mhz: float | None
    """Mean clock of its device's SMs, where it was sampled."""


def claim_of(trace: Trace) -> Claim:
    """What the recording says of itself."""
    start, end = extent(trace.host_ranges, trace.api_calls, trace.device_ops)
    return Claim(trace.rank, trace.process.world_size, start + trace.epoch_ns, end + trace.epoch_ns)


def digest_of(timed: "Timed") -> RankDigest:
    """The digest of a recording; `timed.memo(digest_of)` makes it once."""
    trace, steps = timed.trace, timed.steps
    activity = None if timed.device is None else timed.activity[timed.device]
    nothing = np.zeros(len(steps), np.int64)
    compute, communication, busy = (
        (measure(what, steps.start, steps.end) for what in (activity.compute, activity.communication, activity.busy))
        if activity is not None
        else (nothing, nothing, nothing)
    )
    calls, groups = _calls(timed)
    return RankDigest(
        path=trace.path,
        claim=claim_of(trace),
        host=trace.process.host,
        epoch_ns=trace.epoch_ns,
        device=timed.device,
        only_step_times=trace.only_step_times,
        steps=replace(steps, of_op=np.empty(0, np.int32)),
        compute=compute,
        communication=communication,
        busy=busy,
        collectives=len(timed.collective_calls),
        calls=calls,
        groups=groups,
    )


def _calls(timed: "Timed") -> tuple[DigestedCalls, tuple[ProcessGroup, ...]]:
    found, table, trace = timed.collective_calls, timed.trace.collectives, timed.trace
    rows = np.flatnonzero((found.step >= 0) & (found.device == timed.device))
    numbered = (table.sequence >= 0) & (table.communicator >= 0)
    of_row = [
        ProcessGroup(trace.text(g) or "", trace.text(r) or "", (trace.text(c) or "") if n else "", s)
        for g, r, c, n, s in zip(
            *(c.tolist() for c in (table.group, table.ranks, table.communicator, numbered, table.group_size)),
            strict=True,
        )
    ]
    metadata = found.metadata[rows]
    code = {group: i for i, group in enumerate(dict.fromkeys([*of_row, NO_GROUP]))}
    groups = np.array([code[group] for group in (*of_row, NO_GROUP)], np.int32)
    columns = {
        name: getattr(found, name)[rows] for name in ("start", "end", "launched", "row", "step", "kind", "bytes")
    }
    calls = DigestedCalls.from_columns(
        {
            **columns,
            "group": groups[metadata],
            "sequence": np.append(np.where(numbered, table.sequence, -1), -1)[metadata],
            "peer": np.append(table.peer, np.int32(-1))[metadata],
        }
    )
    return calls, tuple(code)
