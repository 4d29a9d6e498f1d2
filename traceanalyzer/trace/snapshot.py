"""The one model of a CUDA memory snapshot: what PyTorch's caching allocator held, and what it did
before.

https://docs.pytorch.org/docs/stable/torch_cuda_memory.html#snapshot-api-reference"""

import dataclasses
from collections.abc import Sequence
from dataclasses import field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass
from traceanalyzer.trace.table import I16 as I16
from traceanalyzer.trace.table import I32 as I32
from traceanalyzer.trace.table import I64 as I64

I8 = NDArray[np.int8]
ACTIONS = (
    "other",
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "user_defined",
    "snapshot",
)
"""What the allocator writes down, by code; the first is any action that is not known here."""
CODE = {name: code for code, name in enumerate(ACTIONS)}
ACTIVE, PENDING, INACTIVE = range(
    3
)  # states of a block: in use; freed, and waiting for another stream; free


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """A line of the program on the stack of an allocation. The same line is the same object."""

    name: str
    file: str
    line: int


Stack = tuple[Frame, ...]  # innermost frame first, empty where none was recorded


class Segment(NamedTuple):
    """Memory that the allocator holds of the driver when the snapshot is taken."""

    address: int
    size: int
    stream: int
    is_small: bool
    is_expandable: bool
    stack: int


class Annotation(NamedTuple):
    """A named range's start or end (`ProfilerStep#3`, `Optimizer.step#AdamW.step`)."""

    name: str
    is_start: bool
    device: int
    time_us: int


@dataclass(frozen=True)
class AllocationEvents:
    """The allocator's history in its order; one row an action. Columns are no wider than they need
    be."""

    begin_us: int
    since_us: (
        I64 | I32
    )  # since `begin_us`, the time of the snapshot's first event, be it another GPU's
    address: I64  # for `oom`, the driver's free bytes
    size: I64 | I32  # what was asked for, before rounding
    action: I8
    stack: I32 | I16

    def __len__(self) -> int:
        return len(self.address)

    def row_at(self, time_us: int, side: Literal["left", "right"] = "left") -> int:
        """The first row at a time, or after it where `side` is right."""
        limits = np.iinfo(self.since_us.dtype)
        since = min(max(time_us - self.begin_us, limits.min), limits.max)
        return int(np.searchsorted(self.since_us, self.since_us.dtype.type(since), side=side))


@dataclass(frozen=True)
class MemoryBlocks:
    """Pieces of the segments at the end; `segment` is the row of `DeviceMemory.segments`."""

    address: I64
    size: I64
    requested: I64
    state: I64
    stack: I64
    segment: I64

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class DeviceMemory:
    """One GPU of a snapshot."""

    device: int
    events: AllocationEvents
    segments: tuple[Segment, ...]
    blocks: MemoryBlocks


@dataclass(frozen=True)
class Snapshot:
    """A memory snapshot; `stacks[i]` is the stack of every row whose `stack` is i, `stacks[0]` the
    empty one."""

    path: str
    devices: tuple[DeviceMemory, ...]
    stacks: Sequence[Stack]
    annotations: tuple[Annotation, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
