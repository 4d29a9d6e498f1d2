"""The one model of a recording: what a process and its GPUs did, as columnar tables.

Every reader produces a `Trace` and nothing downstream knows which tool made the recording. A `Trace` is
what **one process** recorded (its host threads, its devices), because correlation ids are only unique
within a process; several ranks, or the processes of one nsys export, are a `Run`.

Conventions
- Times are int64 nanoseconds on the recording's own clock; `Trace.epoch_ns` added gives wall-clock time
  comparable between the traces of a run (0 where the recording has no epoch).
- Text is dictionary-coded: an int32 column marked `text=True` indexes `Trace.strings`; -1 is "not recorded".
- Unknown numbers are -1, unknown enumeration values 0. `Trace.collected` tells "not collected" from "none".
- Rows of every table are sorted by start time; `end >= start` always holds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from traceanalyzer.snapshot import Snapshot

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]


class DeviceOpKind(enum.IntEnum):
    """What occupied the device."""

    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    GRAPH = 4
    """A whole CUDA graph recorded as one interval (nsys graph-level tracing); its kernels are not visible."""


class CopyKind(enum.IntEnum):
    """Direction of a memory copy; host means CPU memory, device means GPU memory."""

    UNKNOWN = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    HOST_TO_HOST = 4
    PEER_TO_PEER = 5
    UNIFIED_HOST_TO_DEVICE = 6
    UNIFIED_DEVICE_TO_HOST = 7
    UNIFIED_DEVICE_TO_DEVICE = 8


class MemoryKind(enum.IntEnum):
    """Kind of memory at one end of a copy."""

    UNKNOWN = 0
    PAGEABLE = 1
    PINNED = 2
    DEVICE = 3
    ARRAY = 4
    MANAGED = 5


class RangeKind(enum.IntEnum):
    """Who recorded a host range."""

    OP = 1
    """A framework operator (`aten::mm`), including autograd nodes."""
    ANNOTATION = 2
    """A range the user or a library named (`record_function`, NVTX)."""
    PYTHON = 3
    """A Python function call (stack recording)."""
    LIBRARY = 4
    """A call into a CUDA library recorded as such (cuBLAS, cuDNN)."""
    OS = 5
    """An operating-system call (nsys OSRT)."""


class WaitKind(enum.IntEnum):
    """A recorded synchronisation (CUDA sync events)."""

    STREAM_WAIT_EVENT = 1
    """A stream waits for an event on the device; the host goes on."""
    EVENT_SYNC = 2
    STREAM_SYNC = 3
    CONTEXT_SYNC = 4
    EVENT_RECORD = 5


class OverheadKind(enum.IntEnum):
    """Time that is neither the program's nor the device's work."""

    PROFILER = 1
    """Buffer flushes, instrumentation and bookkeeping of the profiler."""
    BACK_PRESSURE = 2
    """The launch queue was full and the host had to wait ("Command Buffer Full")."""
    DRIVER = 3
    """The application's own driver work: JIT compilation, lazy loading of kernels."""


class OccupancyLimit(enum.IntFlag):
    """What keeps more blocks of a kernel from an SM."""

    WARPS = 1
    REGISTERS = 2
    SHARED_MEMORY = 4
    BLOCKS = 8
    BARRIERS = 16


MOST_DEVICES = 4096
MOST_BYTES = 2**50
MOST_ELEMENTS = 2**44
MOST_RANKS = 2**24
"""Beyond, a number is damage: no host has so many GPUs, no message or memory is so large, no run so wide."""


def column(
    dtype: type[np.generic], *, fill: int = -1, text: bool = False, most: int | None = None, narrow: bool = False
) -> Any:
    """A table column of `dtype`, filled with `fill` where a reader has nothing; `text` marks string codes; numbers
    above `most` count as not recorded; one that is `narrow` is held in as few bytes as its values need, so widen it
    before you multiply it."""
    return field(metadata={"dtype": np.dtype(dtype), "fill": fill, "text": text, "most": most, "narrow": narrow})


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, one row an event. Columns are never written to after construction."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], rows: int | None = None) -> Self:
        """Build the table from any array-likes; columns left out get their fill value. Sorts by `start`."""
        if rows is None:
            rows = len(next(iter(columns.values()))) if columns else 0
        unknown = columns.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"{cls.__name__} has no column {', '.join(sorted(unknown))}")
        made: dict[str, Any] = {}
        for f in fields(cls):
            if f.name in columns:
                made[f.name] = _fitting(columns[f.name], f.metadata)
            else:
                made[f.name] = _fitting(alike(f.metadata["fill"], rows, f.metadata["dtype"]), f.metadata)
            if made[f.name].shape != (rows,):
                raise ValueError(f"{cls.__name__}.{f.name}: {made[f.name].shape} instead of ({rows},)")
        del columns  # of a caller that keeps none of them, so that little is held twice
        start = made.get("start")
        if start is not None and rows > 1 and np.any(start[1:] < start[:-1]):
            order = np.argsort(start, kind="stable")
            for name in made:
                made[name] = _taken(made[name], order)
        return cls(**made)

    @classmethod
    def fitting(cls, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The columns as the table holds them."""
        return {f.name: _fitting(columns[f.name], f.metadata) for f in fields(cls) if f.name in columns}

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls.from_columns({}, rows=0)

    def take(self, rows: I64 | Bool | slice) -> Self:
        """The given rows (index array, mask or slice), in that order."""
        return type(self)(**{f.name: _taken(getattr(self, f.name), rows) for f in fields(self)})

    def to_frame(self, strings: list[str]) -> pd.DataFrame:
        """A pandas DataFrame with decoded text; times stay int64 nanoseconds."""
        import pandas as pd

        lookup = np.array([*strings, None], dtype=object)
        data = {f.name: getattr(self, f.name).astype(f.metadata["dtype"], copy=False) for f in fields(self)}
        for f in fields(self):
            if f.metadata["text"]:
                data[f.name] = lookup[data[f.name]]
        return pd.DataFrame(data)


def alike(value: int, rows: int, dtype: np.dtype[Any] | type[np.generic]) -> NDArray[Any]:
    """A column of so many rows that are all this value; it takes no memory, and cannot be written to."""
    return np.broadcast_to(np.array(value, dtype), rows)


def is_constant(column: NDArray[Any]) -> bool:
    """Whether the column was made by `alike`."""
    return column.strides == (0,)


def _taken(values: NDArray[Any], rows: I64 | Bool | slice) -> NDArray[Any]:
    """The given rows of a column."""
    if isinstance(rows, slice) or not is_constant(values) or not len(values):
        return values[rows]
    return alike(values[0], int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows), values.dtype)


def _fitting(values: Any, what: Mapping[str, Any]) -> NDArray[Any]:
    """The values as the column's type; what it does not hold, or is out of all reason, becomes its fill value."""
    dtype, most, fill = what["dtype"], what["most"], what["fill"]
    if isinstance(values, np.ndarray) and is_constant(values) and len(values):
        one = _fitting(values[:1].copy(), what)
        return alike(one[0], len(values), one.dtype)
    if isinstance(values, np.ndarray) and values.dtype == dtype and most is None:
        return narrowed(values) if what["narrow"] else np.ascontiguousarray(values)
    if dtype.kind not in "iu":
        return np.ascontiguousarray(values, dtype=dtype)
    given = np.asarray(values)
    if given.dtype.kind == "f":  # integers of which one is beyond 64 bits, beside negative ones
        given = np.where((given >= -(2.0**63)) & (given < 2.0**63), given, fill).astype(np.int64)
    elif given.dtype.kind == "O" or given.dtype == np.uint64:  # Python's integers may have any size
        given = np.array([v if -(2**63) <= v < 2**63 else fill for v in given.tolist()], np.int64)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max if most is None else min(most, np.iinfo(dtype).max)
    if len(given) and given.dtype.kind in "iu" and (given.min() < low or given.max() > high):
        given = np.where((given >= low) & (given <= high), given, fill)
    return narrowed(given) if what["narrow"] else np.ascontiguousarray(given, dtype=dtype)


_NARROW = np.int16, np.int32


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Integers in as few bytes as they need."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    fit = (dtype for dtype in _NARROW if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)
    return np.ascontiguousarray(values, dtype=next(fit, np.int64))


@dataclass(frozen=True, eq=False)
class DeviceOps(Table):
    """Work that occupied a device: kernels, copies, memsets, whole graphs. Nothing else is device work."""

    kind: U8 = column(np.uint8, fill=0)
    name: I32 = column(np.int32, text=True, narrow=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32, most=MOST_DEVICES - 1)
    """CUDA ordinal within the process, as recorded."""
    context: I32 = column(np.int32)
    stream: I32 = column(np.int32)
    correlation: I64 = column(np.int64, narrow=True)
    """Ties the op to its API call; several ops of one CUDA graph share it. -1: none."""
    external_id: I64 = column(np.int64)
    """`external_id` of the host op that launched it, where recorded."""
    graph: I64 = column(np.int64)
    """CUDA graph it ran in, -1 if launched by itself or not recorded."""
    graph_node: I64 = column(np.int64)
    """Node of that graph, the same in every replay; -1 where not recorded."""
    bytes: I64 = column(np.int64, most=MOST_BYTES, narrow=True)
    copy_kind: U8 = column(np.uint8, fill=0)
    source_memory: U8 = column(np.uint8, fill=0)
    target_memory: U8 = column(np.uint8, fill=0)
    collective: I32 = column(np.int32)
    """Row of `Trace.collectives` where the kernel itself carries the metadata, else -1."""
    blocks: I64 = column(np.int64, narrow=True)
    """Thread blocks of a kernel's grid, -1 unknown."""
    threads: I32 = column(np.int32, narrow=True)
    """Threads of each of its blocks."""
    registers: I32 = column(np.int32, narrow=True)
    """Registers of each of its threads."""
    shared_bytes: I32 = column(np.int32, narrow=True)
    """Shared memory of each of its blocks, static and dynamic."""
    occupancy: I16 = column(np.int16)
    """Share of an SM's warps that the recorder expects to be resident, percent."""
    resident_blocks: I32 = column(np.int32)
    """Blocks of it that an SM holds at a time, as the recorder worked it out; -1 unknown."""
    limits: U8 = column(np.uint8, fill=0)
    """`OccupancyLimit` flags: what keeps more blocks from an SM, as the recorder worked it out; 0 unknown."""


@dataclass(frozen=True, eq=False)
class ApiCalls(Table):
    """Host calls into the CUDA/HIP runtime or driver. Version suffixes are stripped from the names."""

    name: I32 = column(np.int32, text=True, narrow=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    thread: I32 = column(np.int32)
    """Index into `Trace.threads`."""
    correlation: I64 = column(np.int64, narrow=True)
    error: I32 = column(np.int32, fill=0)
    """CUDA error code returned; 0 is success or not recorded."""


@dataclass(frozen=True, eq=False)
class HostRanges(Table):
    """Named stretches of a host thread's time, nested within a thread."""

    kind: U8 = column(np.uint8, fill=0)
    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    thread: I32 = column(np.int32)
    external_id: I64 = column(np.int64)
    sequence: I64 = column(np.int64)
    """Autograd sequence number: with `forward_thread` it pairs a forward op with its backward node."""
    forward_thread: I32 = column(np.int32, fill=0)
    """Profiler's own id of the forward thread; above 0 only on ops that run in the backward pass."""
    shapes: I32 = column(np.int32, text=True)
    """Input shapes as JSON text."""
    dtypes: I32 = column(np.int32, text=True)
    """Input types as JSON text."""
    strides: I32 = column(np.int32, text=True)
    """Input strides, in elements, as JSON text."""
    concrete: I32 = column(np.int32, text=True)
    """Values of the inputs that are no tensors (`'[1, 1]'`, `'True'`), each as text, as JSON text."""
    launch: I32 = column(np.int32, text=True)
    """Configuration of the kernel that it launches, as a kernel generator (Triton) states it: `XBLOCK=16, 4 warps`."""
    collective: I32 = column(np.int32)
    """Row of `Trace.collectives`, else -1."""


@dataclass(frozen=True, eq=False)
class Waits(Table):
    """Recorded synchronisation on the device side (not device work)."""

    kind: U8 = column(np.uint8, fill=0)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32, most=MOST_DEVICES - 1)
    context: I32 = column(np.int32, narrow=True)
    stream: I32 = column(np.int32, narrow=True)
    """The stream that waits, or that the host waits for; -1: the whole context."""
    correlation: I64 = column(np.int64, narrow=True)
    event: I64 = column(np.int64, narrow=True)
    source_stream: I32 = column(np.int32, narrow=True)
    """The stream whose work is waited for, where recorded."""
    record: I64 = column(np.int64, narrow=True)
    """Correlation id of the call that recorded the event; -1 where that is not known."""


@dataclass(frozen=True, eq=False)
class Overheads(Table):
    """Cost of the profiler and of the driver as the recording itself reports it."""

    kind: U8 = column(np.uint8, fill=0)
    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    thread: I32 = column(np.int32)


@dataclass(frozen=True, eq=False)
class DeviceRanges(Table):
    """Annotations projected on a device's timeline by the recorder (not device work)."""

    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32, most=MOST_DEVICES - 1)
    stream: I32 = column(np.int32)


@dataclass(frozen=True, eq=False)
class MemoryEvents(Table):
    """Allocations (positive bytes) and frees (negative) of the framework's allocator."""

    start: I64 = column(np.int64)
    device: I32 = column(np.int32, most=MOST_DEVICES - 1)
    """CUDA ordinal; -1 is host memory."""
    bytes: I64 = column(np.int64, most=MOST_BYTES)
    allocated: I64 = column(np.int64, most=MOST_BYTES)
    """Total bytes allocated after the event, -1 if not recorded."""
    reserved: I64 = column(np.int64, most=MOST_BYTES)
    address: I64 = column(np.int64)
    """-1 if not recorded."""


@dataclass(frozen=True, eq=False)
class GpuMetrics(Table):
    """Samples of hardware counters (SM active, tensor active, DRAM, NVLink and PCIe traffic)."""

    name: I32 = column(np.int32, text=True)
    """The counter as the recorder names it, with its unit: `SMs Active [Throughput %]`."""
    start: I64 = column(np.int64)
    """Time of the sample."""
    device: I32 = column(np.int32, most=MOST_DEVICES - 1)
    value: I64 = column(np.int64)


@dataclass(frozen=True, eq=False)
class RangeDetails(Table):
    """What annotations carry beside a name (NVTX), one row for each that carries anything; they stand among the host
    ranges, too."""

    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    domain: I32 = column(np.int32, text=True)
    """-1: the default domain."""
    category: I32 = column(np.int32, text=True)
    payload: I32 = column(np.int32, text=True)
    """A number or JSON, as text."""


@dataclass(frozen=True, eq=False)
class Collectives(Table):
    """Metadata of communication operations. Its rows are referred to, not timed."""

    name: I32 = column(np.int32, text=True)
    """Collective as the framework names it (`allreduce`, `_allgather_base`)."""
    in_elements: I64 = column(np.int64, most=MOST_ELEMENTS)
    out_elements: I64 = column(np.int64, most=MOST_ELEMENTS)
    dtype: I32 = column(np.int32, text=True)
    group: I32 = column(np.int32, text=True)
    """Process group: its description where recorded, else its name."""
    group_size: I32 = column(np.int32, most=MOST_RANKS)
    ranks: I32 = column(np.int32, text=True)
    sequence: I64 = column(np.int64)
    """Number of the operation in its communicator, the same on all its ranks."""
    communicator: I32 = column(np.int32, text=True)
    """Id of the communicator, the same on all its ranks."""
    peer: I32 = column(np.int32, most=MOST_RANKS)
    """Of a send the rank that it goes to, of a receive the rank that it comes from, counted over all ranks of the
    run."""


@dataclass(frozen=True, eq=False)
class StepTimings(Table):
    """Steps timed by the program itself (a timing log), one row a logged step. Unknown values are -1."""

    step: I64 = column(np.int64)
    """Number of the step as logged."""
    start: I64 = column(np.int64, fill=0)
    """Sum of the durations before it, ns: logs have no common clock, and need not hold every step."""
    duration: I64 = column(np.int64)
    """Time of the step, ns; where only every n-th step is logged possibly the mean over n steps."""
    data: I64 = column(np.int64)
    """Time of it spent waiting for data, ns."""
    samples: I64 = column(np.int64)
    tokens: I64 = column(np.int64)
    """Tokens that carry content: without padding."""
    padded_tokens: I64 = column(np.int64)
    """Tokens computed, padding included."""
    flops: F64 = column(np.float64)
    """Operations that the model needs for the step, as the program says."""
    samples_per_s: F64 = column(np.float64)
    """Throughput as logged."""
    tokens_per_s: F64 = column(np.float64)
    mfu: F64 = column(np.float64)
    """Model FLOP/s utilisation as logged, 0..1."""


@dataclass(frozen=True)
class Thread:
    """A host thread."""

    tid: str
    name: str = ""


@dataclass(frozen=True)
class Device:
    """A GPU as the recording describes it. `uid` identifies the physical GPU where known (UUID, bus id)."""

    id: int
    name: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    uid: str | None = None
    bandwidth: float | None = None
    """Of its memory as the recording states it, bytes/s."""
    clock_hz: float | None = None
    """Highest clock of its SMs as the recording states it."""


@dataclass(frozen=True)
class Process:
    """The process that was recorded."""

    pid: int | None = None
    name: str = ""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    numbered: bool = False
    """Whether the rank is not the recording's, but made by numbering its processes."""


@dataclass(frozen=True)
class Collected:
    """What the recorder was asked for, so that "not collected" is told apart from "none happened"."""

    device: bool = False
    api: bool = False
    ops: bool = False
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    sync_events: bool = False


@dataclass(frozen=True)
class Condition:
    """One fact about the recording's circumstances. `spoils` says what it does to the figures, if anything."""

    name: str = field(metadata={"definition": "what is known", "unit": ""})
    value: str = field(metadata={"definition": "as the recorder found it", "unit": ""})
    spoils: str = field(default="", metadata={"definition": "what it does to the figures, if anything", "unit": ""})


@dataclass(frozen=True)
class Load:
    """What was sampled of a GPU or of the host's CPUs while the program ran: not of the recorded steps alone."""

    what: str = field(metadata={"definition": "what was sampled; GPUs by their index on the host", "unit": ""})
    counted_in: str = field(metadata={"definition": "its unit", "unit": ""})
    mean: float = field(metadata={"definition": "mean of the samples", "unit": ""})
    min: float = field(metadata={"definition": "smallest sample", "unit": ""})
    max: float = field(metadata={"definition": "largest sample", "unit": ""})
    samples: int = field(metadata={"definition": "samples taken", "unit": ""})


@dataclass(frozen=True)
class ProfilerRow:
    """A row of a profiler's table of sums by name. None: the table has no such column."""

    name: str
    calls: float | None = None
    self_cpu_ms: float | None = None
    cpu_total_ms: float | None = None
    self_device_ms: float | None = None
    device_total_ms: float | None = None
    self_device_bytes: float | None = None
    shapes: str | None = None


@dataclass(frozen=True)
class StepAmounts:
    """What one step of the recorded process works through, all its micro-steps together; None: not said."""

    samples: float | None = None
    tokens: float | None = None
    """Tokens that carry content: without padding."""
    padded_tokens: float | None = None
    """Tokens computed, padding included."""
    flops: float | None = None
    """Operations that the model needs (a multiply-add is two), recomputation left out."""


@dataclass(frozen=True)
class Ceilings:
    """What the GPU was measured to reach just before the recording."""

    bandwidth: float
    """Of a large copy, bytes/s read and written."""
    matmul: dict[str, float]
    """Large matrix products, FLOP/s by number format (`bf16`, `tf32`, ..)."""


@dataclass(frozen=True)
class Stopwatch:
    """Steps of the same process timed without a profiler, just before the recording."""

    step_ns: int
    """Median."""
    low_ns: int | None
    """90 % interval of the median; None where the capture does not say."""
    high_ns: int | None
    steady: bool
    """Whether the steps had settled, or were near each other all along: only then is the median the step time."""
    after_profiler: bool
    """Whether a profiler had been on before: CUPTI then stays switched on and slows the host."""
    unit: str | None
    """What ends a step: `step of AdamW`, `call of Llama`."""
    roughly: bool = False
    """Whether unsteady steps still tell the step time: `low_ns` and `high_ns` are then those of the steps."""


@dataclass(frozen=True)
class LightRecording:
    """Steps of the same process recorded with device activities alone, just before the recording: medians of a step.

    The busy time is the unprofiled step's: no recording stretches it. The host is stretched less than in the full
    recording, so that the idle time lies between the unprofiled step's and the recorded one's.
    """

    steps: int
    step_ns: int
    busy_ns: int
    """Union of kernels, copies and memsets of the busiest device."""
    idle_ns: int
    unit: str | None = None
    """What ends a step."""


@dataclass(frozen=True)
class Health:
    """What the reader met. Counts are of events (rows) in the recording."""

    events: int = 0
    """Events read."""
    skipped: int = 0
    """Events skipped because they hold nothing the analysis uses (flows, counters, markers)."""
    repaired: int = 0
    """Events kept after mending damaged text or values."""
    lost: int = 0
    """Events that could not be read."""
    clipped: int = 0
    """Events whose impossible duration was cut."""
    truncated: bool = False
    """The recording stops before its end."""
    notes: tuple[str, ...] = ()
    """One plain sentence for each thing a reader of the report should know."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything one process recorded. See the module docstring for the conventions."""

    path: str
    source: str
    """`kineto`, `nsys`, `timing_log` or `key_averages`."""
    strings: list[str]
    process: Process = Process()
    threads: tuple[Thread, ...] = ()
    devices: tuple[Device, ...] = ()
    device_ops: DeviceOps = field(default_factory=DeviceOps.empty)
    api_calls: ApiCalls = field(default_factory=ApiCalls.empty)
    host_ranges: HostRanges = field(default_factory=HostRanges.empty)
    waits: Waits = field(default_factory=Waits.empty)
    overheads: Overheads = field(default_factory=Overheads.empty)
    device_ranges: DeviceRanges = field(default_factory=DeviceRanges.empty)
    memory_events: MemoryEvents = field(default_factory=MemoryEvents.empty)
    gpu_metrics: GpuMetrics = field(default_factory=GpuMetrics.empty)
    range_details: RangeDetails = field(default_factory=RangeDetails.empty)
    collectives: Collectives = field(default_factory=Collectives.empty)
    step_timings: StepTimings = field(default_factory=StepTimings.empty)
    """The timing log of the same process, or all there is where `source` is `timing_log`."""
    unprofiled_step_ns: int | None = None
    """Median step time of the same process without a profiler, where the capture carries it and nothing speaks
    against it."""
    stopwatch: Stopwatch | None = None
    """What that comes from, also where something speaks against it (a health note then says what)."""
    light: LightRecording | None = None
    amounts: StepAmounts = StepAmounts()
    """What a step works through, as the capture's `environment.json` says."""
    batch_size: int | None = None
    """Samples of a batch of the one loader that the collector saw."""
    conditions: tuple[Condition, ...] = ()
    """What is known of the machine and the settings under which it was recorded."""
    loads: tuple[Load, ...] = ()
    """What was sampled of GPUs and CPUs while the program ran, where the capture carries it."""
    ceilings: Ceilings | None = None
    collected: Collected = Collected()
    health: Health = Health()
    epoch_ns: int = 0
    memory: Snapshot | None = None
    """The CUDA memory snapshot of the same process, where the capture carries it."""
    profiler_rows: tuple[ProfilerRow, ...] = ()
    """All there is where `source` is `key_averages`: a printed table of sums."""
    window: tuple[int, int] | None = None
    """Start and end of the recording as the recorder states them, ns."""
    kept_as: str | None = None
    """Digest of all that its tables come from, where a model of it is kept: the same again has the same tables."""

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        counts = f"{len(self.device_ops):,} device ops, {len(self.api_calls):,} API calls"
        return f"<Trace {self.path}: {self.source}{rank}, {counts}>"

    @property
    def rank(self) -> int | None:
        """The process's rank, None if the recording does not say."""
        return self.process.rank

    @property
    def only_step_times(self) -> bool:
        """Whether the recording is a timing log: how long steps took, and nothing of what happened in them."""
        return self.source == "timing_log"

    @property
    def operators_slowed(self) -> bool:
        """Whether the recorder slowed every operator of the host, not its API calls alone."""
        return self.source == "kineto"

    @property
    def annotated_with(self) -> str:
        """What its annotations are: `nvtx`, or `annotation` (the framework's own)."""
        return "nvtx" if self.source == "nsys" else "annotation"

    @property
    def opens_in_viewer(self) -> bool:
        """Whether a timeline viewer for Chrome's trace events shows the recording's file itself."""
        return self.source == "kineto"

    @property
    def fed_by_workers(self) -> bool:
        """Whether worker processes of PyTorch's DataLoader bring batches, which a queue holds until they are taken."""
        return any("_MultiProcessingDataLoaderIter" in text for text in self.strings)

    def text(self, code: int) -> str | None:
        """The string behind a code, None for -1."""
        return self.strings[code] if code >= 0 else None


@dataclass(frozen=True)
class Failure:
    """An input of a run that could not be read, and why (one line)."""

    path: str
    message: str


@dataclass(frozen=True)
class Run:
    """One run: the traces of its processes, ordered by rank, and the inputs that could not be read."""

    traces: tuple[Trace, ...]
    failures: tuple[Failure, ...] = ()
    logs: tuple[Trace, ...] = ()
    """Timing logs that were joined with the traces of the same ranks."""

    def __repr__(self) -> str:
        ranks = ", ".join(repr(trace) for trace in self.traces[:3])
        return f"<Run of {len(self.traces)}: {ranks}{', ...' if len(self.traces) > 3 else ''}>"
