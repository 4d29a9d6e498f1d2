"""What is reported of torch.compile. Seconds are of the process that compiled longest; `_ms` are of
a steady step."""

from dataclasses import field

from traceanalyzer.base import dataclass, metric, regex

REGION = regex(r"^Torch-Compiled Region: *(?P<id>!?[\w/!]+)")
"""The name of a run of a compiled function."""


@dataclass(frozen=True)
class BreakRow:
    """Graph breaks of one reason at one line."""

    reason: str  # in plain words
    detail: str  # dynamo's own first line
    location: str  # `file:line` of the program, "" where the log does not say
    count: int  # how often dynamo met it while it compiled
    function: str
    whole_function_eager: bool  # whether dynamo gave up on the whole function
    remedy: str
    per_step: float | None = None  # how often a steady step goes through it, where the trace tells
    idle_ms: float | None = None  # GPU idle time that it causes in a steady step as recorded
    predicted_step_ms: float | None = None  # the step without it, without the profiler
    low_ms: float | None = None
    high_ms: float | None = None
    basis: str = ""  # how that was worked out, or why it is not known


@dataclass(frozen=True)
class RecompileRow:
    """Recompilations because of one guard."""

    guard: str
    location: str
    count: int
    refused: int  # further ones that the recompile limit refused
    function: str
    values: list[str]  # values that it met, in order
    remedy: str


@dataclass(frozen=True)
class CacheUse:
    """What the caches of compiled graphs gave. `hits` and `misses` are of inductor's FX graph
    cache, which saves most of the time; `bypasses` are of both caches."""

    hits: int
    misses: int
    bypasses: int
    off: int  # graphs that were compiled without the FX graph cache being asked: it is switched off
    by_cache: dict[str, dict[str, int]]
    bypass_reasons: list[str]
    saved_s: float  # compile time that hits saved, as the log says
    # compile time of what a warm start would find: graphs missed, bypassed or not asked for
    cold_s: float
    warm_start: str  # what a warm start takes


@dataclass(frozen=True)
class CudaGraphUse:
    """CUDA graphs that inductor recorded."""

    used: bool
    wanted: bool | None  # whether inductor was told to use them; null where the log does not say
    recorded: int
    rerecorded: int  # recorded again for a graph that had been recorded
    skipped: list[str]  # why they were not used, each reason once
    skipped_graphs: int
    captured_share: float | None = None
    """Share of the GPU work of a steady step that was launched by CUDA graphs, where a trace
    tells."""
    launches_per_step: float | None = None
    predicted_step_ms: float | None = None
    """The step without the profiler if they were used, where they are not though they were asked
    for."""
    low_ms: float | None = None
    high_ms: float | None = None


@dataclass(frozen=True)
class CompilationRow:
    """One compilation of a function."""

    id: str
    function: str
    location: str
    seconds: float
    stages_s: dict[str, float]
    graphs: int
    operators: int
    cache: str
    outcome: str  # compiled, recompiled, eager (nothing to compile), refused (limit), failed
    error: str
    restarts: int
    dynamic: bool


@dataclass(frozen=True)
class KernelRow:
    """A kernel that inductor wrote."""

    name: str
    compile_id: str
    graph: str  # key of its graph
    direction: str
    lines: list[str]  # `file:line: code` of the program that it computes
    operators: list[str]
    nodes: int
    compile_ms: float | None
    configurations: int | None
    autotune_cache: str
    # inductor's own guess for one launch; null where it was not logged
    estimate_us: float | None = None
    per_step: float | None = None
    measured_ms: float | None = None  # its time in a steady step
    share: float | None = None  # of the GPU's busy time of the step
    estimated_ms: float | None = None  # inductor's own guess for the launches of a steady step
    attainable_ms: float | None = None  # what its work needs at the GPU's limits (roofline)


@dataclass(frozen=True)
class NotFusedRow:
    """Pairs of nodes that inductor left apart for one reason."""

    reason: str
    pairs: int
    first: str  # of one such pair: `op3_op4 (add, mul)`
    second: str
    compile_ids: list[str]


@dataclass(frozen=True)
class RankRow:
    """One process: a rank, or one start of it."""

    rank: int | None
    path: str
    compile_s: float
    autotune_s: float
    graphs: int
    graph_breaks: int
    recompiles: int
    cache_hits: int
    cache_misses: int


@dataclass(frozen=True)
class EagerRow:
    """An operator that runs eager in the step, outside of compiled code."""

    name: str
    per_step: float
    gpu_ms: float
    where: str  # what it is part of: between regions, optimizer, backward, rest


@dataclass(frozen=True)
class FirstStepPart:
    """A part of the first step's time; the parts sum to the step."""

    what: str
    ms: float
    steady_ms: float  # what a mean steady step has of it


@dataclass(frozen=True)
class StepsUse:
    """Compilation against the steady step. None: neither the log nor the trace says."""

    step_ms: float | None = None  # a steady step without the profiler
    recorded_step_ms: float | None = None
    """As recorded; so are the figures of the first step and of the warm-up."""
    first_step_ms: float | None = None
    first_step: list[FirstStepPart] = field(default_factory=list)
    warmup_ms: float | None = None
    # what the warm-up steps took more than as many steady ones
    warmup_excess_ms: float | None = None
    warmup_steps: int | None = None
    eager_step_ms: float | None = None
    pays_after_steps: int | None = None  # steps after which the time saved is the compile time
    pays_low: int | None = None
    # the ends of its 90 % range: None where the one is never, where the other may be
    pays_high: int | None = None
    basis: str = ""


@dataclass(frozen=True)
class TraceUse:
    """What a trace of the same program says of its compiled code, in a mean steady step."""

    path: str
    regions_per_step: dict[str, float]  # runs of each compiled region by its compile id
    compiled_share: float | None  # share of the GPU's busy time in work that compiled code launched
    triton_share: float | None
    triton_ms: float
    mapped_share: float | None  # share of the Triton kernels' time whose source line is known
    compiles_in_step: int  # compilations that ran while the trace was recorded
    eager: list[EagerRow]
    notes: list[str]


@dataclass(frozen=True)
class Compiled:
    """Everything that is reported of torch.compile."""

    source: str  # log, log+trace or trace
    graphs: int | None = None
    graph_breaks: list[BreakRow] = field(default_factory=list)
    recompiles: int | None = None
    recompile_reasons: list[RecompileRow] = field(default_factory=list)
    recompile_limit_hit: bool = False
    runs_eager_since: list[str] = field(default_factory=list)
    """Functions that run eager because the recompile limit was hit."""
    compile_s: float | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    cache: CacheUse | None = None
    cudagraphs: CudaGraphUse | None = None
    kernels: list[KernelRow] = field(default_factory=list)
    not_fused: list[NotFusedRow] | None = None
    """What inductor left apart, and why; null where it was not logged (TORCH_LOGS=+fusion)."""
    compilations: list[CompilationRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ranks: list[RankRow] = field(default_factory=list)
    ranks_differ: list[str] = field(default_factory=list)
    """How ranks compiled differently; empty where they did the same."""
    steps: StepsUse = StepsUse()
    trace: TraceUse | None = None
    versions: dict[str, str] = field(default_factory=dict)
    log: dict[str, int] = field(default_factory=dict)
    """What was in the log: records, unreadable lines, damaged payloads and so on."""
    notes: list[str] = field(default_factory=list)


EMPTY = Compiled("trace")  # no log was read: what is not known is null or empty


@dataclass(frozen=True)
class CompileStats:
    """The process that compiled longest, from the log of torch.compile."""

    compile_s: float | None = metric("time in compilations", "s")
    graphs: int | None = metric("graphs compiled")
    graph_breaks: int = metric("graph breaks met while compiling")
    recompiles: int | None = metric("functions compiled again because a guard failed")
    cache_hits: int | None = metric("graphs found in inductor's cache")
    cache_misses: int | None = metric("graphs not found in it")
