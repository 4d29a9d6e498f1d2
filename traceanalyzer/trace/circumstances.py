"""What is known of a recording beside its tables: threads, devices, what was collected, under which
conditions, with which environment variables (no others are recorded, nor read from captures of
other origin)."""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from traceanalyzer.base import dataclass
from traceanalyzer.trace.serving import ServingSummary
from traceanalyzer.trace.table import I64

ALLOWED_VARIABLES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "RANK",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCH_COMPILE_DISABLE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_BLOCKING_WAIT",
    "WORLD_SIZE",
)
"""Switches and numbers that change how fast a step is; no name here ever holds a path, a host or a
secret."""


@dataclass(frozen=True)
class Thread:
    """A host thread."""

    tid: str
    name: str = ""


@dataclass(frozen=True)
class Device:
    """A GPU as the recording describes it. `uid` identifies the physical GPU where known (UUID, bus
    id)."""

    id: int
    name: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    uid: str | None = None
    bandwidth: float | None = None  # of its memory as the recording states it, bytes/s
    clock_hz: float | None = None  # highest clock of its SMs as the recording states it
    blocks_per_sm: int | None = None  # most blocks that an SM holds, as the recording states it

    @property
    def called(self) -> str:
        """Its name; empty where it has none."""
        return (self.name or "").strip()


@dataclass(frozen=True)
class Process:
    """The process that was recorded."""

    pid: int | None = None
    name: str = ""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    # whether the rank is not the recording's, but made by numbering its processes
    numbered: bool = False

    @property
    def place(self) -> tuple[str, int]:
        """What processes without a rank are ordered by: host and process id."""
        return self.host or "", self.pid or 0


@dataclass(frozen=True)
class Collected:
    """What the recorder was asked for, so that "not collected" is told apart from "none
    happened"."""

    device: bool = False
    api: bool = False
    ops: bool = False
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    sync_events: bool = False


@dataclass(frozen=True)
class Condition:
    """One fact about the recording's circumstances. `spoils` says what it does to the figures, if
    anything."""

    name: str = field(metadata={"definition": "what is known", "unit": ""})
    value: str = field(
        metadata={"definition": "as the recorder found it", "unit": "", "text": "sentence"}
    )
    spoils: str = field(
        default="",
        metadata={
            "definition": "what it does to the figures, if anything",
            "unit": "",
        },
    )


@dataclass(frozen=True)
class Load:
    """What was sampled of a GPU or of the host's CPUs while the program ran: not of the recorded
    steps alone."""

    what: str = field(
        metadata={"definition": "what was sampled; GPUs by their index on the host", "unit": ""}
    )
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
    shapes: str | None = None
    device: int | None = None
    flops: Mapping[str, float] = field(default_factory=dict)
    """Operations by the width of their type in bits (`16`; empty: not stated), as the program
    states them."""
    bytes: float | None = None  # bytes moved, likewise


@dataclass(frozen=True, eq=False)
class LoggedPhase:
    """A phase of the step by a name of the program's own (`rollout`), as its timing log times
    it."""

    name: str
    duration: I64  # ns, one a row of the log; -1 where the line does not say


@dataclass(frozen=True)
class PastedText:
    """What a text that people paste tells, as far as it goes; each a sentence or more."""

    what: str  # what the text is, without a full stop
    tells: str
    record: str  # what to record to know more
    notes: tuple[str, ...] = ()
    serving: ServingSummary | None = None  # its figures, where it is on a server


@dataclass(frozen=True)
class StepAmounts:
    """What one step of the recorded process works through, all its micro-steps together; None: not
    said."""

    samples: float | None = None
    tokens: float | None = None  # tokens that carry content: without padding
    padded_tokens: float | None = None  # tokens computed, padding included
    # operations that the model needs (a multiply-add is two), recomputation left out
    flops: float | None = None


@dataclass(frozen=True)
class Ceilings:
    """What the GPU was measured to reach just before the recording."""

    bandwidth: float  # of a large copy, bytes/s read and written
    matmul: dict[str, float]  # large matrix products, FLOP/s by number format (`bf16`, `tf32`, ..)


@dataclass(frozen=True)
class AllocatorCalls:
    """What PyTorch's allocator did in a timed step, in the mean."""

    allocated: float  # pieces of memory asked of the device
    freed: float  # pieces given back to it
    retries: float  # times that it gave all back that was free, to ask again
    emptied: float  # times that it waited for all streams, as to empty its cache


@dataclass(frozen=True)
class Stopwatch:
    """Steps of the same process timed without a profiler, just before the recording."""

    step_ns: int  # median
    low_ns: int | None  # 90 % interval of the median; None where the capture does not say
    high_ns: int | None
    steady: bool
    """Whether the steps had settled, or were near each other all along: only then is the median the
    step time."""
    # whether a profiler had been on before: CUPTI then stays switched on and slows the host
    after_profiler: bool
    unit: str | None  # what ends a step: `step of AdamW`, `call of Llama`
    roughly: bool = False
    """Whether unsteady steps still tell the step time: `low_ns` and `high_ns` are then those of the
    steps."""
    first_ns: tuple[int, ...] = ()
    """The first steps of the process by the host's clock; empty where they were not timed."""
    # whether the recording begins with the first step, and these were timed after it
    from_first: bool = False
    # the step with torch.compile switched off; None where it was not timed
    eager_ns: int | None = None
    eager_reach_ns: int = 0  # half of its 90 % interval
    # of a step, waiting for batches of DataLoaders; None where none was asked or it was not timed
    loader_ns: int | None = None
    host_ns: int | None = None
    """The shortest step by the host's clock: the first ones after the device was waited for are
    issued ahead of it. None without a device's clock, by which alone that can be told."""
    # None where the allocator was not asked, or does not count
    allocator: AllocatorCalls | None = None


@dataclass(frozen=True)
class LightRecording:
    """Steps of the same process, recorded just before with device activities alone, which stretches
    the host less."""

    step_ns: int  # median
    unit: str | None = None  # what ends a step


@dataclass(frozen=True)
class Health:
    """What the reader met. Counts are of events (rows) in the recording."""

    events: int = 0  # events read
    # events skipped because they hold nothing the analysis uses (flows, counters, markers)
    skipped: int = 0
    repaired: int = 0  # events kept after mending damaged text or values
    lost: int = 0  # events that could not be read
    clipped: int = 0  # events whose impossible duration was cut
    truncated: bool = False  # the recording stops before its end
    notes: tuple[
        str, ...
    ] = ()  # one plain sentence for each thing a reader of the report should know


class PrintedMemory(NamedTuple):
    """GPU memory as the program printed it, bytes: after which phase (empty: it does not say), in
    which step."""

    after: str
    allocated: int
    reserved: int | None
    peak: int | None = None
    step: int | None = None


@dataclass(frozen=True)
class KernelCounters:
    """One kernel, replayed and measured by Nsight Compute. None: not asked for; shares are 0..1 of
    the peak."""

    name: str  # name as the profiler writes it
    blocks: int
    threads: int  # grid and block size of its launch, -1 unknown
    duration_ns: float | None = None
    dram_bytes: float | None = None  # bytes read from and written to the device memory
    compute_share: float | None = None  # throughput of the busiest unit of the SMs
    # throughput of the busiest part of the memory system, caches included
    memory_share: float | None = None
    dram_share: float | None = None  # throughput of the device memory
    tensor_share: float | None = None  # activity of the tensor cores
    occupancy_share: float | None = None  # warps active over those an SM can hold
    stalls: tuple[tuple[str, float], ...] = ()
    """What its warps waited for, and the share of all their cycles, largest first; empty where that
    was not asked."""
