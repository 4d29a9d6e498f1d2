"""The tables of a recording: what the device and the host did, when, and of which kind it was."""

import enum
import math

import numpy as np
from msgspec import Struct

from traceanalyzer.base import dataclass
from traceanalyzer.trace import table
from traceanalyzer.trace.table import F64, I16, I32, I64, U8, Table, column


class DeviceOpKind(enum.IntEnum):
    """What occupied the device."""

    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    # a whole CUDA graph recorded as one interval (nsys graph-level tracing); its kernels are not
    # visible
    GRAPH = 4


class CopyKind(enum.IntEnum):
    """Direction of a memory copy; host means CPU memory, device means GPU memory."""

    UNKNOWN, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST, PEER_TO_PEER = range(6)
    UNIFIED_HOST_TO_DEVICE, UNIFIED_DEVICE_TO_HOST, UNIFIED_DEVICE_TO_DEVICE = range(6, 9)

    @property
    def label(self) -> str:
        """What such a copy is called whichever tool recorded it: as Kineto calls it."""
        ends = self.name.removeprefix("UNIFIED_").split("_TO_")
        memory = "Memcpy" if self < CopyKind.UNIFIED_HOST_TO_DEVICE else "Unified Memory"
        return f"{memory} {ends[0][0]}to{ends[1][0]}" if self else memory


class MemoryKind(enum.IntEnum):
    """Kind of memory at one end of a copy."""

    UNKNOWN, PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED = range(6)


class RangeKind(enum.IntEnum):
    """Who recorded a host range."""

    OP = 1  # a framework operator (`aten::mm`), including autograd nodes
    ANNOTATION = 2  # a range the user or a library named (`record_function`, NVTX)
    PYTHON = 3  # a Python function call (stack recording)
    LIBRARY = 4  # a call into a CUDA library recorded as such (cuBLAS, cuDNN)
    OS = 5  # an operating-system call (nsys OSRT)


class WaitKind(enum.IntEnum):
    """A recorded synchronisation (CUDA sync events). By the first a stream waits, not the host."""

    STREAM_WAIT_EVENT, EVENT_SYNC, STREAM_SYNC, CONTEXT_SYNC, EVENT_RECORD = range(1, 6)


class OverheadKind(enum.IntEnum):
    """Time that is neither the program's nor the device's work."""

    PROFILER = 1  # buffer flushes, instrumentation and bookkeeping of the profiler
    BACK_PRESSURE = 2  # the launch queue was full and the host had to wait ("Command Buffer Full")
    DRIVER = 3  # the application's own driver work: JIT compilation, lazy loading of kernels


class OccupancyLimit(enum.IntFlag):
    """What keeps more blocks of a kernel from an SM."""

    WARPS = 1
    REGISTERS = 2
    SHARED_MEMORY = 4
    BLOCKS = 8
    BARRIERS = 16


class GraphAnnotation(Struct, omit_defaults=True):
    """What PyTorch 2.12 and later say of a node of a CUDA graph (`torch.cuda.graph(...,
    enable_annotations=True)`, torchtitan)."""

    module: str = ""  # path of the module in the model (`module_fqn`)
    name: str = ""  # of the region (`mark_kernels`)
    is_backward: bool = False


@dataclass(frozen=True, eq=False)
class DeviceOps(Table):
    """Work that occupied a device: kernels, copies, memsets, whole graphs. Nothing else is device
    work."""

    kind: U8 = column(np.uint8, fill=0)
    name: I32 = column(np.int32, text=True, narrow=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(
        np.int32, most=table.MOST_DEVICES - 1
    )  # CUDA ordinal within the process, as recorded
    context: I32 = column(np.int32)
    stream: I32 = column(np.int32)
    correlation: I64 = column(np.int64, narrow=True)
    """Ties the op to its API call; several ops of one CUDA graph share it. -1: none."""
    external_id: I64 = column(np.int64, most=table.MOST_IDS)
    """`external_id` of the host op that launched it, where recorded."""
    graph: I64 = column(np.int64)  # CUDA graph it ran in, -1 if launched by itself or not recorded
    graph_node: I64 = column(
        np.int64
    )  # node of that graph, the same in every replay; -1 where not recorded
    annotation: I32 = column(np.int32, text=True, narrow=True)
    """What the program said of that node when the graph was captured, as JSON of
    `GraphAnnotation`; -1 where it said nothing."""
    bytes: I64 = column(np.int64, most=table.MOST_BYTES, narrow=True)
    copy_kind: U8 = column(np.uint8, fill=0)
    source_memory: U8 = column(np.uint8, fill=0)
    target_memory: U8 = column(np.uint8, fill=0)
    collective: I32 = column(np.int32)
    """Row of `Trace.collectives` where the kernel itself carries the metadata, else -1."""
    blocks: I64 = column(np.int64, narrow=True)  # thread blocks of a kernel's grid, -1 unknown
    threads: I32 = column(np.int32, narrow=True)  # threads of each of its blocks
    registers: I32 = column(np.int32, narrow=True)  # registers of each of its threads
    shared_bytes: I32 = column(
        np.int32, narrow=True
    )  # shared memory of each of its blocks, static and dynamic
    occupancy: I16 = column(
        np.int16
    )  # share of an SM's warps that the recorder expects to be resident, percent
    resident_blocks: I32 = column(np.int32)
    """Blocks of it that an SM holds at a time, as the recorder worked it out; -1 unknown."""
    limits: U8 = column(np.uint8, fill=0)
    """`OccupancyLimit` flags: what keeps more blocks from an SM, as the recorder worked it out; 0
    unknown."""


@dataclass(frozen=True, eq=False)
class ApiCalls(Table):
    """Host calls into the CUDA/HIP runtime or driver. Version suffixes are stripped from the
    names."""

    name: I32 = column(np.int32, text=True, narrow=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    thread: I32 = column(np.int32)  # index into `Trace.threads`
    correlation: I64 = column(np.int64, narrow=True)
    error: I32 = column(np.int32, fill=0)  # CUDA error code returned; 0 is success or not recorded
    kernel: I32 = column(np.int32, text=True)
    """Name of the kernel that it launches, where the recorder says so (AMD): also of a launch that
    is captured into a graph."""


@dataclass(frozen=True, eq=False)
class HostRanges(Table):
    """Named stretches of a host thread's time, nested within a thread."""

    kind: U8 = column(np.uint8, fill=0)
    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    thread: I32 = column(np.int32)
    external_id: I64 = column(np.int64, most=table.MOST_IDS)
    sequence: I64 = column(np.int64)
    """Autograd sequence number: with `forward_thread` it pairs a forward op with its backward
    node."""
    forward_thread: I32 = column(np.int32, fill=0)
    """Profiler's own id of the forward thread; above 0 only on ops that run in the backward
    pass."""
    shapes: I32 = column(np.int32, text=True)  # input shapes as JSON text
    dtypes: I32 = column(np.int32, text=True)  # input types as JSON text
    strides: I32 = column(np.int32, text=True)  # input strides, in elements, as JSON text
    concrete: I32 = column(np.int32, text=True)
    """Values of the inputs that are no tensors (`'[1, 1]'`, `'True'`), each as text, as JSON
    text."""
    launch: I32 = column(np.int32, text=True)
    """Configuration of the kernel that it launches, as a kernel generator (Triton) states it:
    `XBLOCK=16, 4 warps`."""
    collective: I32 = column(np.int32)  # row of `Trace.collectives`, else -1


@dataclass(frozen=True, eq=False)
class Waits(Table):
    """Recorded synchronisation on the device side (not device work)."""

    kind: U8 = column(np.uint8, fill=0)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32, most=table.MOST_DEVICES - 1)
    context: I32 = column(np.int32, narrow=True)
    stream: I32 = column(np.int32, narrow=True)
    """The stream that waits, or that the host waits for; -1: the whole context."""
    correlation: I64 = column(np.int64, narrow=True)
    event: I64 = column(np.int64, narrow=True)
    source_stream: I32 = column(
        np.int32, narrow=True
    )  # the stream whose work is waited for, where recorded
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
class GraphEdges(Table):
    """Edges of replayed CUDA graphs where the recorder states them. Both columns are rows of
    `Trace.device_ops`."""

    op: I64 = column(np.int64)  # the op that waits ...
    after: I64 = column(np.int64)  # ... and the one that it waits for


@dataclass(frozen=True, eq=False)
class DeviceRanges(Table):
    """Annotations projected on a device's timeline by the recorder (not device work)."""

    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32, most=table.MOST_DEVICES - 1)
    stream: I32 = column(np.int32)


@dataclass(frozen=True, eq=False)
class MemoryEvents(Table):
    """Allocations (positive bytes) and frees (negative) of the framework's allocator."""

    start: I64 = column(np.int64)
    device: I32 = column(np.int32, most=table.MOST_DEVICES - 1)  # CUDA ordinal; -1 is host memory
    bytes: I64 = column(np.int64, most=table.MOST_BYTES)
    allocated: I64 = column(np.int64, most=table.MOST_BYTES)
    """Total bytes allocated after the event, -1 if not recorded."""
    reserved: I64 = column(np.int64, most=table.MOST_BYTES)
    address: I64 = column(np.int64)  # -1 if not recorded


@dataclass(frozen=True, eq=False)
class GpuMetrics(Table):
    """Samples of hardware counters (SM active, tensor active, DRAM, NVLink and PCIe traffic)."""

    name: I32 = column(np.int32, text=True)
    """The counter as the recorder names it, with its unit: `SMs Active [Throughput %]`."""
    start: I64 = column(np.int64)  # time of the sample
    device: I32 = column(np.int32, most=table.MOST_DEVICES - 1)
    value: I64 = column(np.int64)


@dataclass(frozen=True, eq=False)
class RangeDetails(Table):
    """What annotations carry beside a name (NVTX), a row for each that carries anything; they are
    host ranges, too."""

    name: I32 = column(np.int32, text=True)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    domain: I32 = column(np.int32, text=True)  # -1: the default domain
    category: I32 = column(np.int32, text=True)
    payload: I32 = column(np.int32, text=True)  # a number or JSON, as text


@dataclass(frozen=True, eq=False)
class Collectives(Table):
    """Metadata of communication operations. Its rows are referred to, not timed."""

    name: I32 = column(
        np.int32, text=True
    )  # collective as the framework names it (`allreduce`, `_allgather_base`)
    in_elements: I64 = column(np.int64, most=table.MOST_ELEMENTS)
    out_elements: I64 = column(np.int64, most=table.MOST_ELEMENTS)
    dtype: I32 = column(np.int32, text=True)
    group: I32 = column(
        np.int32, text=True
    )  # process group: its description where recorded, else its name
    group_size: I32 = column(np.int32, most=table.MOST_RANKS)
    ranks: I32 = column(np.int32, text=True)
    sequence: I64 = column(
        np.int64
    )  # number of the operation in its communicator, the same on all its ranks
    communicator: I32 = column(
        np.int32, text=True
    )  # id of the communicator, the same on all its ranks
    peer: I32 = column(np.int32, most=table.MOST_RANKS)
    """Of a send the rank that it goes to, of a receive the one that it comes from, of all ranks of
    the run."""


@dataclass(frozen=True, eq=False)
class StepTimings(Table):
    """Steps timed by the program itself (a timing log), one row a logged step. Unknown values are
    -1."""

    step: I64 = column(np.int64)  # number of the step as logged
    start: I64 = column(np.int64, fill=0)
    """Sum of the durations before it, ns: logs have no common clock, and need not hold every
    step."""
    duration: I64 = column(np.int64)
    """Time of the step, ns; where only every n-th step is logged possibly the mean over n steps."""
    data: I64 = column(np.int64)  # time of it spent waiting for data, ns
    compute: I64 = column(np.int64)  # time of it without that, where the program timed it itself
    forward: I64 = column(np.int64)  # time of its forward pass as the program timed it, ns; ...
    backward: I64 = column(np.int64)
    optimizer: I64 = column(np.int64)  # ... and of these
    samples: I64 = column(np.int64)
    tokens: I64 = column(np.int64)  # tokens that carry content: without padding
    padded_tokens: I64 = column(np.int64)  # tokens computed, padding included
    flops: F64 = column(
        np.float64
    )  # operations that the model needs for the step, as the program says
    context_requests: I64 = column(
        np.int64
    )  # of an iteration of a serving engine: requests that it prefills ...
    context_tokens: I64 = column(np.int64)
    generation_requests: I64 = column(np.int64)  # ... and that decode
    generation_tokens: I64 = column(np.int64)
    kv_tokens: I64 = column(np.int64)  # sum of its requests' lengths
    # what a server says of its load when it writes the line: requests in the batch ...
    running_requests: I64 = column(np.int64)
    waiting_requests: I64 = column(np.int64)  # ... and in the queue before it
    preempted: I64 = column(
        np.int64
    )  # requests that it took out of the batch since the line before
    preempted_in_all: I64 = column(np.int64)  # since the server's start
    graph: I64 = column(np.int64)  # 1: its decode came from a CUDA graph, 0: it did not
    engine: I64 = column(np.int64)  # which of several data-parallel engines the line is of
    kv_usage: F64 = column(np.float64)  # share of the memory for KV in use
    prefix_hit_share: F64 = column(np.float64)  # prompt tokens that it found in its cache
    accepted_length: F64 = column(np.float64)  # tokens of a verified iteration, a request
    accepted_share: F64 = column(np.float64)  # guessed tokens that were right
    prompt_tokens_per_s: F64 = column(np.float64)
    samples_per_s: F64 = column(np.float64)  # throughput as logged
    tokens_per_s: F64 = column(np.float64)
    mfu: F64 = column(np.float64)  # model FLOP/s utilisation as logged, 0..1
    # what training came to, so that a change that costs it is seen: NaN where it is not logged,
    # infinite where it is logged as nan or infinite
    loss: F64 = column(np.float64, fill=math.nan)
    grad_norm: F64 = column(np.float64, fill=math.nan)
    peak_memory_bytes: I64 = column(np.int64)  # most GPU memory in use until then, as logged

    @property
    def of_server(self) -> bool:
        """Whether its steps are iterations of a serving engine, of unlike work."""
        return bool((self.context_requests >= 0).any() or (self.generation_requests >= 0).any())
