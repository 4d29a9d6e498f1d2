"""What one process recorded, and the processes of a run."""

from dataclasses import field

from traceanalyzer.base import dataclass
from traceanalyzer.trace import circumstances as known
from traceanalyzer.trace import events
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.nccl import NcclLog
from traceanalyzer.trace.snapshot import Snapshot

TORCH_PROFILER = ("kineto", "pftrace")  # formats that torch.profiler writes

LEAST_WAIT_FOR_DATA = 0.005
"""A loader that was waited for less of a step than this keeps up."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything one process recorded. See the module docstring for the conventions."""

    path: str
    source: str
    """What recorded it, and in which format: `kineto`, `nsys`, `rocpd`, ... (`Input.kind` of the
    report's schema)."""
    strings: list[str]
    process: known.Process = known.Process()
    threads: tuple[known.Thread, ...] = ()
    devices: tuple[known.Device, ...] = ()
    device_ops: events.DeviceOps = field(default_factory=events.DeviceOps.empty)
    api_calls: events.ApiCalls = field(default_factory=events.ApiCalls.empty)
    host_ranges: events.HostRanges = field(default_factory=events.HostRanges.empty)
    waits: events.Waits = field(default_factory=events.Waits.empty)
    overheads: events.Overheads = field(default_factory=events.Overheads.empty)
    device_ranges: events.DeviceRanges = field(default_factory=events.DeviceRanges.empty)
    memory_events: events.MemoryEvents = field(default_factory=events.MemoryEvents.empty)
    gpu_metrics: events.GpuMetrics = field(default_factory=events.GpuMetrics.empty)
    graph_edges: events.GraphEdges = field(default_factory=events.GraphEdges.empty)
    range_details: events.RangeDetails = field(default_factory=events.RangeDetails.empty)
    collectives: events.Collectives = field(default_factory=events.Collectives.empty)
    step_timings: events.StepTimings = field(default_factory=events.StepTimings.empty)
    """The timing log of the same process, or all there is where `source` is `timing_log`."""
    logged_phases: tuple[known.LoggedPhase, ...] = ()  # what else that log times
    logged_epochs: bool = False  # whether a row of that log is an epoch, not a step
    logged_means: bool = False
    """Whether the only times of that log are running means, of which none is a single step's."""
    logged_by: str = ""
    """What wrote that log, where it is not PyTorch: a serving engine as `iterations` names it, `jax`, or
    `native` (another framework, or none)."""
    # recordings of the capture of its CUDA graphs, which were given with it
    captures: "tuple[Trace, ...]" = ()
    unprofiled_step_ns: int | None = None
    """Median step time of the same process without a profiler, where the capture has it
    undisputed."""
    stopwatch: known.Stopwatch | None = None
    """What that comes from, also where something speaks against it (a health note then says
    what)."""
    light: known.LightRecording | None = None
    amounts: known.StepAmounts = known.StepAmounts()
    """What a step works through, as the capture's `environment.json` says."""
    batch_size: int | None = None  # samples of a batch of the one loader that the collector saw
    conditions: tuple[known.Condition, ...] = ()
    """What is known of the machine and the settings under which it was recorded."""
    loads: tuple[known.Load, ...] = ()
    """What was sampled of GPUs and CPUs while the program ran, where the capture carries it."""
    ceilings: known.Ceilings | None = None
    collected: known.Collected = known.Collected()
    health: known.Health = known.Health()
    epoch_ns: int = 0
    # the CUDA memory snapshot of the same process, where the capture carries it
    memory: Snapshot | None = None
    compile_logs: tuple[CompileLog, ...] = ()  # the logs of torch.compile of its run, one a process
    printed_memory: tuple[known.PrintedMemory, ...] = ()
    profiler_rows: tuple[known.ProfilerRow, ...] = ()
    """All there is where `source` is `key_averages`: a printed table of sums."""
    pasted: known.PastedText | None = None  # all there is of a text that was pasted
    nccl: NcclLog | None = None  # what NCCL wrote into the same text
    # start and end of the recording as the recorder states them, ns
    window: tuple[int, int] | None = None
    kept_as: str | None = None
    """Digest of all that its tables come from, where a model of it is kept: the same again has the
    same tables."""

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
        """Whether the recording is a timing log: how long steps took, and nothing of what happened
        in them."""
        return self.source == "timing_log"

    @property
    def is_companion(self) -> bool:
        """Whether it is a memory snapshot or a log of torch.compile, which go with a recording."""
        return self.source in ("memory_snapshot", "torch_log")

    @property
    def operators_slowed(self) -> bool:
        """Whether the recorder slowed every operator of the host, not its API calls alone."""
        by_nvtx = self.source == "nsys" and self.collected.ops
        return self.source in TORCH_PROFILER or by_nvtx

    @property
    def annotated_with(self) -> str:
        """What its annotations are: `nvtx`, or `annotation` (the framework's own, ROCTx)."""
        return "nvtx" if self.source == "nsys" else "annotation"

    @property
    def opens_in_viewer(self) -> bool:
        """Whether a timeline viewer for Chrome's trace events shows the recording's file itself."""
        return self.source == "kineto"

    @property
    def fed_by_workers(self) -> bool:
        """Whether worker processes of PyTorch's DataLoader bring batches, which a queue holds until
        they are taken."""
        return any("_MultiProcessingDataLoaderIter" in text for text in self.strings)

    @property
    def may_have_waited_for_workers(self) -> bool:
        """Whether timed steps may have waited for workers that recorded ones took batches from: not
        where the stopwatch saw that none did."""
        timed = self.stopwatch
        if timed is None or timed.loader_ns is None:
            return self.fed_by_workers
        return self.fed_by_workers and timed.loader_ns >= LEAST_WAIT_FOR_DATA * timed.step_ns

    def text(self, code: int) -> str | None:
        """The string behind a code, None for -1."""
        return self.strings[code] if code >= 0 else None


@dataclass(frozen=True)
class Failure:
    """An input of a run that could not be read, and why (one line)."""

    path: str
    message: str
    rank: int | None = None  # whose recording it is, as far as its name tells


@dataclass(frozen=True)
class Run:
    """One run: the traces of its processes, ordered by rank, and the inputs that could not be
    read."""

    traces: tuple[Trace, ...]
    failures: tuple[Failure, ...] = ()
    logs: tuple[Trace, ...] = ()
    """Timing logs, snapshots and logs of torch.compile that were joined with the traces of the same
    ranks."""

    def __repr__(self) -> str:
        ranks = ", ".join(repr(trace) for trace in self.traces[:3])
        return f"<Run of {len(self.traces)}: {ranks}{', ...' if len(self.traces) > 3 else ''}>"
