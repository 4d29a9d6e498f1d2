"""What a log of torch.compile says of one process: plain values, in the order in which they were
written."""

import dataclasses
import re
from dataclasses import field
from typing import Literal

from traceanalyzer.base import dataclass, regex

CacheLayer = Literal["fx_graph", "aot_autograd"]
CacheState = Literal["hit", "miss", "bypass"]
LIMIT = regex(
    r"(?:cache|recompile)[ _]?(?:size)?[ _]?limit|(?:Cache|Recompile)LimitExceeded", re.IGNORECASE
)
"""What dynamo says when it has compiled a function as often as it may."""


def resumed_at(function: str) -> int | None:
    """The line at which a function goes on after a graph break, of the name dynamo gives to what
    goes on."""
    found = re.search(r"torch_dynamo_resume_in_.*_at_(\d{1,18})$", function)
    return int(found[1]) if found else None


def compiled_before(region: str) -> int:
    """How often a function was compiled before the code of this region (`0/7`: 7), 0 where its name
    does not say."""
    found = re.search(r"/(\d{1,9})$", region)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class CompileSpan:
    """A stretch of compile work on one thread. Times are epoch nanoseconds."""

    name: str
    start_ns: int
    end_ns: int
    compile_id: str
    thread: int
    depth: int
    kernel: str = ""  # name of the kernel that it tunes, where it says so


@dataclass(frozen=True)
class Break:
    """A graph break as dynamo explained it."""

    reason: str  # first line of the explanation
    location: str  # `file:line` of the program, or empty
    skipped_frame: bool  # whether the whole function runs eager because of it
    hint: str = ""


@dataclass(frozen=True)
class CacheEvent:
    """What a cache said when it was asked for a compiled graph."""

    layer: CacheLayer
    state: CacheState
    key: str
    reason: str  # why it was not asked, where it was bypassed
    saved_ns: int  # compile time that a hit saved, 0 where not said
    # whether the graph was to run in a CUDA graph, where the key says so
    cudagraphs: bool | None = None


@dataclass(frozen=True)
class KernelCode:
    """A kernel that inductor wrote."""

    name: str
    file: str  # basename of the file it lies in, without suffix
    nodes: tuple[str, ...]  # nodes of the graph after fusion that it computes
    operators: tuple[str, ...]
    lines: tuple[str, ...]  # `file:line: code` of the program that it comes from


@dataclass(frozen=True)
class Estimate:
    """Inductor's own guess of the time of an operation."""

    # `op3_op4` for what it fused, the function for a library call; empty where it launches nothing
    name: str
    time_ns: float | None


@dataclass(frozen=True)
class NotFused:
    """Two nodes of a graph that inductor left apart."""

    compile_id: str
    first: str
    second: str
    reason: str


@dataclass(frozen=True)
class GraphCode:
    """The code inductor wrote for one graph: forward, backward or inference."""

    # its key in the FX graph cache: the name of its range in a trace. Empty where the log does not
    # say
    key: str
    direction: str
    kernels: tuple[KernelCode, ...]
    launches: tuple[str, ...] = ()
    """Names of the Triton kernels in the order in which a call launches them, one entry a
    launch."""
    estimates: tuple[Estimate, ...] = ()
    """One for each operation in the order in which they run; empty where the log does not say."""


@dataclass(frozen=True)
class TritonKernel:
    """What was noted when a kernel was compiled."""

    name: str
    compile_us: int
    configurations: int
    autotune_cache: str


@dataclass(frozen=True)
class CompileMetrics:
    """Dynamo's own summary of a piece of compilation. Seconds are as logged, None where it does not
    say."""

    kind: Literal["forward", "backward", "forward_runtime", "backward_runtime"]
    duration_s: float | None
    backend_s: float | None
    inductor_s: float | None
    triton_s: float | None
    autotune_s: float | None
    cudagraph_s: float | None
    logging_s: float | None  # what writing the log took
    fail_type: str
    fail_reason: str
    cudagraph_skip: str
    wants_cudagraphs: bool | None  # whether inductor was told to use CUDA graphs


@dataclasses.dataclass
class Compilation:
    """One compilation of a frame: what has its compile id from one `dynamo_start` to the next."""

    compile_id: str
    rank: int | None
    thread: int
    name: str = ""  # of the function
    location: str = ""  # `file:line` where the function begins
    stack: tuple[str, ...] = ()  # `file:line in function`, outermost first
    # graphs of the last attempt: what was traced before dynamo began again is thrown away
    graphs: int = 0
    attempt: int = 0
    operators: int = 0
    cache_size: int = 0  # compilations of the same code that were there before it
    started: bool = False
    restarts: list[str] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    recompile_reasons: list[str] = field(default_factory=list)
    caches: list[CacheEvent] = field(default_factory=list)
    codes: list[GraphCode] = field(default_factory=list)
    triton: list[TritonKernel] = field(default_factory=list)
    metrics: list[CompileMetrics] = field(default_factory=list)
    collectives: tuple[str, ...] = ()  # the collectives it runs, in order
    # inputs of its graphs that they change in place and that take no gradient (no parameters)
    inputs_changed: int = 0
    error: str = ""
    dynamic: bool = False  # whether a size of its graph is a symbol

    @property
    def frame(self) -> str:
        """The frame that it is a compilation of: its id without the last part."""
        return self.compile_id.rpartition("/")[0]

    @property
    def is_recompilation(self) -> bool:
        """Whether a guard of code compiled before said no. What failed is tried again under a new
        id, and is none."""
        return bool(self.recompile_reasons) or self.cache_size > 0


@dataclasses.dataclass
class Counts:
    """What was in the file, good and bad."""

    records: int = 0
    lines: int = 0
    payload_bytes: int = 0
    unreadable: int = 0  # lines that look like records but whose JSON cannot be read
    # lines that are neither a record nor part of a payload: what the program itself wrote
    stray_lines: int = 0
    # payloads that are not what their record's MD5 says: cut off, or mixed with other text
    damaged_payloads: int = 0
    shortened: int = 0  # lines and payloads longer than what is kept of one
    unknown: dict[str, int] = field(
        default_factory=dict
    )  # records of kinds that say nothing here, by kind


@dataclass(frozen=True)
class CompileLog:
    """One process's compilations."""

    path: str
    rank: int | None
    compilations: tuple[Compilation, ...]
    spans: tuple[CompileSpan, ...]  # in the order of their starts, on each thread nested
    counts: Counts
    versions: dict[str, str]
    unfinished: int = 0  # spans whose end is not in the log
    notes: tuple[str, ...] = ()
    # what inductor left apart; None where it was not logged
    not_fused: tuple[NotFused, ...] | None = None
