"""The report as one value; every renderer reads this and nothing else.

Its JSON form is the contract other programs rely on: names and meanings do not change within a
`schema_version`. `_ms` figures are milliseconds per steady-state step of the critical rank (of the
whole window where `metrics.step_source` is `none`); `devices` speaks of the whole recording. A
figure that the recording cannot support is None, and a finding or a health note says why."""

from typing import Any

from traceanalyzer.analysis.groups.first_steps import FirstSteps
from traceanalyzer.analysis.memory.stats import MemoryStats
from traceanalyzer.analysis.phases.roles import PhaseTimes
from traceanalyzer.analysis.phases.training import ProgramStats
from traceanalyzer.analysis.roofline.roofline_rows import RooflineStep
from traceanalyzer.analysis.serving.figures import Serving
from traceanalyzer.analysis.tables.collectives import CommunicationTime
from traceanalyzer.analysis.tables.devices import DeviceTotals, GpuCounters
from traceanalyzer.analysis.tables.launches import HostStats, LaunchStats
from traceanalyzer.analysis.tables.path_rows import PathTime
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, StepTime, Unprofiled
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.analysis.tables.throughput import Throughput, Utilisation
from traceanalyzer.analysis.tables.timing import Latency, TimingStats
from traceanalyzer.analysis.time.coverage import Coverage
from traceanalyzer.analysis.time.regularity import Regularity
from traceanalyzer.analysis.time.repeats import Repeats
from traceanalyzer.base import dataclass, metric
from traceanalyzer.diagnosis.finding import Finding, Recommendation, Summary
from traceanalyzer.replay.compile.model import CompileStats
from traceanalyzer.replay.host_parts import HostPart

TOP_ROWS = 30
"""Rows of the long tables (kernels, operators, gaps, ...) that go into a report; the commands give
all."""
PAGE_ROWS = 300  # the same of an HTML report, where they can be searched and sorted
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Tool:
    """What made the report."""

    name: str = metric("name of the program", text="own")
    version: str = metric("its version", text="own")


@dataclass(frozen=True)
class InputHealth:
    """What the reader met in one input; counts are of events."""

    events: int = metric("events read")
    skipped: int = metric("events skipped because they hold nothing the analysis uses")
    repaired: int = metric("events kept after mending damaged text or values")
    lost: int = metric("events that could not be read")
    clipped: int = metric("events whose impossible duration was cut")
    truncated: bool = metric("whether the recording stops before its end")
    notes: list[str] = metric("a sentence for each thing to know of this input", text="sentence")


@dataclass(frozen=True)
class InputDevice:
    """A GPU named in an input."""

    id: int = metric("CUDA ordinal of the device")
    name: str | None = metric("name of the GPU; null where it was not recorded")


@dataclass(frozen=True)
class Input:
    """One recording the report was made from."""

    path: str = metric("where it was read from")
    kind: str = metric("what recorded it", text="own")
    rank: int | None = metric("rank of the process; null where it does not say")
    devices: list[InputDevice] = metric("GPUs that it names")
    health: InputHealth = metric("what the reader met in it")
    world_size: int | None = metric(
        "processes of the run that it is one of; null where it does not say", default=None
    )
    collected: list[str] | None = metric(
        "what the recorder was asked for; null in reports saved before this was kept",
        default=None,
        text="own",
    )
    vendor: str | None = metric(
        "maker of its GPUs: `nvidia`, `amd`, `intel` or `google`; null where nothing tells",
        default=None,
        text="own",
    )
    sha256: str | None = metric(
        "SHA-256 of the file; null of a folder, of what is too large to be read for it, and on a terminal",
        default=None,
        text="own",
    )
    program: str | None = metric(
        "name of the process; null where it was not recorded", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The figures of the step."""

    step_time_ms: StepTime | None = metric(
        "wall-clock time of the steady-state steps as recorded; null without steps"
    )
    step_source: str = metric("what the steps were found from", text="own")
    unprofiled_step_time_ms: float | None = metric(
        "step time without a profiler: measured, where the capture carries it, else estimated by replaying the steps "
        "with the profiler's usual cost taken out of the host's dispatch; null where neither can be done"
    )
    unprofiled_source: str | None = metric("whether that is `measured` or `estimated`", text="own")
    unsteady_step_time_ms: float | None = metric(
        "median of the steps timed without a profiler, where they were not steady and the estimate is far from it; "
        "null otherwise",
        default=None,
    )
    step_unit: str | None = metric(
        "what ends a step, as the capture says, or a server's marks: `step of AdamW`, `call of UNet`, `iteration of "
        "vLLM`; null where nothing does",
        default=None,
    )
    unprofiled: Unprofiled | None = metric(
        (
            "the step without the profiler, taken apart like the recorded one; null where it "
            "is not known: a note says why"
        ),
        default=None,
    )
    warmup_steps: int = metric("recorded steps excluded as warm-up")
    kernels_per_step: float | None = metric(
        "kernels launched by a step (kernels of a CUDA graph counted singly)"
    )
    launches_per_step: float | None = metric("kernel and graph launch calls of a step")
    concurrent_kernel_share: float | None = metric(
        "share of the time with a kernel in which two or more run side by side, collectives among them; null without "
        "kernels, and where whole CUDA graphs hide theirs",
        default=None,
    )
    gpu_busy_share: float | None = metric(
        "share of the recorded step with any device work (union of intervals)"
    )
    gpu_idle_share: float | None = metric("share of the recorded step without device work")
    budget_ms: Budget | None = metric("the recorded step's wall-clock time by what the device did")
    idle_ms: Idle | None = metric("the recorded step's idle time by cause")
    communication: CommunicationTime | None = metric(
        "communication of a step; null without device work"
    )
    launches: LaunchStats | None = metric(
        "launching of device work; null where API calls were not recorded"
    )
    host: HostStats | None = metric(
        "the host threads that feed the device; null where they were not recorded"
    )
    copied_within_gpu_ms: float | None = metric(
        (
            "part of `budget_ms.exposed_copy` in copies from the GPU's memory to itself; "
            "null without device work"
        ),
        default=None,
    )
    critical_path: PathTime | None = metric(
        "the chain of causes that is as long as the step, by kind; null without device work",
        default=None,
    )
    unprofiled_critical_path: PathTime | None = metric(
        (
            "the same of the step replayed without the profiler, which slows the host; null "
            "where that cannot be told"
        ),
        default=None,
    )
    roofline: RooflineStep | None = metric(
        (
            "the step against what the GPU can do at most; null without models of the "
            "recorded operators"
        ),
        default=None,
    )
    coverage: Coverage | None = metric(
        "how much of the recording the steps are; null in reports saved before this was kept",
        default=None,
    )
    repeats: Repeats | None = metric(
        "what repeats within a step, layers for instance; null where nothing does", default=None
    )
    timing: TimingStats | None = metric("the program's own step times; null without a timing log")
    first_steps: FirstSteps | None = metric(
        (
            "the slow first steps of the process; null where they were neither timed nor "
            "recorded, or none was slow"
        ),
        default=None,
    )
    counters: GpuCounters | None = metric(
        "counters of the GPU sampled in the steps; null where the recorder sampled none",
        default=None,
    )
    regularity: Regularity | None = metric(
        (
            "how the recorded steps differ from each other; null with fewer than 20 marked "
            "steady steps"
        ),
        default=None,
    )
    latency: Latency | None = metric(
        (
            "latency of the requests of an inference by PyTorch; null where the program "
            "trains, or marks no requests"
        ),
        default=None,
    )
    serving: Serving | None = metric(
        "a server under load, by its log or by a benchmark's summary; null without either",
        default=None,
    )
    throughput: Throughput | None = metric(
        "work per second of the summary's step; null without steps", default=None
    )
    utilisation: Utilisation | None = metric(
        "how much of the hardware the summary's step uses; null without steps or device work",
        default=None,
    )
    program: ProgramStats | None = metric(
        "what the program does in a step; null where the recording does not tell", default=None
    )
    phases: PhaseTimes | None = metric(
        "the step by what its work is for; null where neither annotations nor autograd tell",
        default=None,
    )
    memory: MemoryStats | None = metric(
        "GPU memory; null where neither a snapshot nor allocator events were recorded", default=None
    )
    compile: CompileStats | None = metric(
        "what torch.compile did; null without its log in the capture", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything `analyze` has to say. `tables` maps a table's name to rows of one analysis
    dataclass."""

    tool: Tool = metric("what made the report")
    inputs: list[Input] = metric("the recordings that it was made from")
    summary: Summary = metric("the answer")
    metrics: Metrics = metric("the figures of the step")
    devices: list[DeviceTotals] = metric("each GPU over the whole recording, warm-up included")
    findings: list[Finding] = metric("what costs time, by headroom")
    recommendations: list[Recommendation] = metric("what to do about it, by predicted step time")
    tables: dict[str, list[Any]] = metric(
        "the first rows of each table, in order of display; the commands print all",
        default_factory=dict,
    )
    step_parts: list[StepPart] = metric(
        "the steady step in its smallest named parts, a partition: what a comparison subtracts",
        default_factory=list,
    )
    host_parts: list[HostPart] = metric(
        (
            "the host's time in a step without the profiler by what it issues: what tells "
            "hosts of two runs apart"
        ),
        default_factory=list,
    )
    notes: list[str] = metric(
        (
            "sentences about the whole run: unreadable ranks, missing data, what could not "
            "be measured and why"
        ),
        default_factory=list,
        text="sentence",
    )
    pressing_notes: int = metric(
        "how many of the notes, from the first on, change what one would do", default=0
    )
    schema_version: int = metric("changes when a name or a meaning does", default=SCHEMA_VERSION)

    @property
    def is_cut_off(self) -> bool:
        """Whether a file ends before its recording does."""
        return any(one.health.truncated for one in self.inputs)
