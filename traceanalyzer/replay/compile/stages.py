"""Compile time by stage: each nanosecond of compile work counted once, to the innermost span that
has a stage. And what the caches of compiled graphs gave, and what it takes to start warm."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse

from traceanalyzer.base import regex
from traceanalyzer.replay.compile.model import CacheUse
from traceanalyzer.trace.compile_log import (
    CacheEvent,
    Compilation,
    CompileLog,
    CompileMetrics,
    CompileSpan,
)

STAGES = ("dynamo", "aot", "inductor", "triton", "cpp", "autotune", "cudagraphs", "other")
"""Tracing the program; making forward and backward graphs; optimising them and writing code;
compiling kernels with Triton and with a C++ compiler; timing configurations of kernels; recording
CUDA graphs; the rest."""
NOT_COMPILING = frozenset(
    {"dynamo"}
)  # spans around everything whose own time goes into writing the log
FRAMES = frozenset({"entire_frame_compile", "_compile.compile_inner"})
"""Spans of which each compilation has one: as PyTorch calls them now, and before 2.5."""
_S = 1e-9  # of a nanosecond

_STAGE_OF = (
    (regex(r"(?i)benchmark|autotun|coordinate_descent|coordesc"), "autotune"),
    (regex(r"(?i)cudagraph"), "cudagraphs"),
    (regex(r"(?i)compile_file|CppCodeCache|cpp_?compile|AotCodeCompiler|g\+\+"), "cpp"),
    (
        regex(
            r"(?i)async_compile|triton_?compile|^triton|CachingAutotuner|make_launcher|ttir|ptx|cubin"
        ),
        "triton",
    ),
    (
        regex(
            r"(?i)inductor|compile_fx|fx_codegen|GraphLowering|Scheduler|code_?gen|^pass\.|_grad_pass|_graph_passes"
            r"|CodeCache|FxGraph|TritonBundler|CacheBase|fake_tensor_prop|fused_nodes|WrapperCodegen"
        ),
        "inductor",
    ),
    (
        regex(
            r"(?i)aot|backend_compile|call_user_compiler|backward_compile|min_cut|partition|AOTAutograd"
        ),
        "aot",
    ),
    (
        regex(
            r"(?i)frame_compile|compile_(?:inner|attempt)|bytecode|guards|deferred_runtime|^gc$|dynamo"
            r"|preserve_rng"
        ),
        "dynamo",
    ),
)


OFF = (
    "The FX graph cache is off: unset TORCHINDUCTOR_FORCE_DISABLE_CACHES, set TORCHINDUCTOR_FX_GRAPH_CACHE=1, and keep "
    "TORCHINDUCTOR_CACHE_DIR from start to start."
)
BYPASSED = "Graphs that the cache cannot take are compiled at every start: {reasons}"
COLD = (
    "Keep TORCHINDUCTOR_CACHE_DIR (default /tmp/torchinductor_USER) from start to start, or save the caches with "
    "torch.compiler.save_cache_artifacts() and load them before the first step."
)
WARM = "This start was warm."
CACHED_STAGES = ("aot", "inductor", "triton", "cpp", "autotune")
"""What a warm start does not do again; dynamo traces the program at every start."""


def stage_of(name: str) -> str:
    """The stage that a span's name stands for, "" where it goes by what is around it."""
    return next((stage for pattern, stage in _STAGE_OF if pattern.search(name)), "")


def stage_seconds(log: CompileLog) -> list[dict[str, float]]:
    """For each compilation of the log its seconds by stage; stages without time are left out. Where
    the log has spans, they tell; older logs have only dynamo's own metrics."""
    place = _places(log.compilations)
    result: list[dict[str, float]] = [defaultdict(float) for _ in log.compilations]
    timed = set[str]()
    starts = defaultdict[str, list[int]](list)
    for span in log.spans:
        if span.name in FRAMES:
            starts[span.compile_id].append(span.start_ns)
    for staged in _own_times(log.spans):
        places = place.get(staged.compile_id)
        if places:
            timed.add(staged.compile_id)
            index = bisect_right(starts[staged.compile_id], staged.span.start_ns) - 1
            nearest = places[min(max(index, 0), len(places) - 1)]
            result[nearest][staged.stage] += staged.own_ns * _S
    for index in chain.from_iterable(map(place.__getitem__, place.keys() - timed)):
        result[index] = stages_of_metrics(log.compilations[index].metrics)
    return [{stage: each[stage] for stage in STAGES if each.get(stage)} for each in result]


def stages_of_metrics(metrics: Iterable[CompileMetrics]) -> dict[str, float]:
    """Seconds by stage as dynamo's own metrics of a compilation have them."""
    result: dict[str, float] = defaultdict(float)
    for entry in metrics:
        parts = _of_running(entry) if entry.kind.endswith("_runtime") else _of_compiling(entry)
        for stage, seconds in parts.items():
            result[stage] += seconds
    return result


def _of_running(entry: CompileMetrics) -> dict[str, float]:
    """Seconds by stage of what compiles while the program runs."""
    total = entry.duration_s or 0.0
    autotune = entry.autotune_s or 0.0
    graphs = entry.cudagraph_s or 0.0
    return {
        "autotune": autotune,
        "cudagraphs": graphs,
        "other": max(total - (autotune + graphs), 0.0),
    }


def _of_compiling(entry: CompileMetrics) -> dict[str, float]:
    """Seconds by stage of a compilation: dynamo calls the backend, that inductor, that Triton."""
    total = entry.duration_s or 0.0
    inductor = entry.inductor_s or 0.0
    backend = min(inductor if entry.backend_s is None else entry.backend_s, total)
    if entry.kind == "backward":
        backend = total
    inductor = min(inductor, backend)
    triton = min(entry.triton_s or 0.0, inductor)
    return {
        "dynamo": total - backend,
        "aot": backend - inductor,
        "inductor": inductor - triton,
        "triton": triton,
    }


def outside_seconds(log: CompileLog) -> float:
    """Work of no compilation that the log has (a compiler tried out, kernels built in advance),
    s."""
    place = _places(log.compilations)
    own_ns = (span.own_ns for span in _own_times(log.spans) if span.compile_id not in place)
    return sum(own_ns) * _S


@dataclass
class _StagedSpan:
    """A span with the compilation it belongs to and its stage."""

    span: CompileSpan
    compile_id: str
    stage: str
    inner_ns: int = 0  # of the spans directly in it

    @property
    def own_ns(self) -> int:
        """The time that is not of a span in it."""
        if self.span.name in NOT_COMPILING:
            return 0
        return max(self.span.end_ns - self.span.start_ns - self.inner_ns, 0)


def _own_times(spans: Iterable[CompileSpan]) -> list[_StagedSpan]:
    """The spans in the order in which they end. Spans of a thread are nested; one that names no
    compilation or stage goes by the one around it."""
    open_: dict[int, list[_StagedSpan]] = defaultdict(list)
    ended: list[_StagedSpan] = []
    for span in spans:
        stack = open_[span.thread]
        while stack and stack[-1].span.end_ns <= span.start_ns:
            ended.append(stack.pop())
        around = stack[-1] if stack else None
        if around is not None:
            around.inner_ns += min(span.end_ns, around.span.end_ns) - span.start_ns
        stack.append(_staged(span, around))
    for stack in open_.values():
        ended += reversed(stack)
    return ended


def _staged(span: CompileSpan, around: _StagedSpan | None) -> _StagedSpan:
    if around is None:
        return _StagedSpan(span, span.compile_id, stage_of(span.name) or "other")
    return _StagedSpan(
        span, span.compile_id or around.compile_id, stage_of(span.name) or around.stage
    )


def _places(compilations: Sequence[Compilation]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for index, compilation in enumerate(compilations):
        places[compilation.compile_id].append(index)
    return places


def cache_use(log: CompileLog, stages: Sequence[dict[str, float]]) -> CacheUse:
    """What the caches gave the compilations of a log; `stages` are the seconds of each."""
    events = list(chain.from_iterable(c.caches for c in log.compilations))
    by_cache = _by_cache(events)
    fx = by_cache["fx_graph"]
    bypassed = (event.reason for event in events if event.state == "bypass")
    reasons = list(dict.fromkeys(filter(None, bypassed)))
    off = sum(len(one.codes) for one in filterfalse(cache_states, log.compilations))
    saved_ns = sum(event.saved_ns for event in events if event.layer == "fx_graph")
    return CacheUse(
        hits=fx["hit"],
        misses=fx["miss"],
        bypasses=fx["bypass"] + by_cache["aot_autograd"]["bypass"],
        off=off,
        by_cache=by_cache,
        bypass_reasons=reasons,
        saved_s=saved_ns * _S,
        cold_s=sum(map(_cold_s, log.compilations, stages)),
        warm_start=_warm_start(off, fx, reasons),
    )


def _by_cache(events: list[CacheEvent]) -> dict[str, dict[str, int]]:
    """How often each cache of graphs had what was asked for, had not, or was passed by."""
    count = Counter[tuple[str, str]]((event.layer, event.state) for event in events)
    states = ("hit", "miss", "bypass")
    layers = ("fx_graph", "aot_autograd")
    return {layer: {state: count[layer, state] for state in states} for layer in layers}


def _warm_start(off: int, fx: dict[str, int], reasons: list[str]) -> str:
    bypassed = reasons and fx["bypass"], BYPASSED.format(reasons="; ".join(reasons))
    possible = ((off, OFF), bypassed, (fx["miss"], COLD))
    return " ".join(text for applies, text in possible if applies) or (WARM if fx["hit"] else "")


def _cold_s(compilation: Compilation, stages: dict[str, float]) -> float:
    """Seconds that a warm start saves of a compilation, none where this one was warm."""
    warm = not compilation.codes or cache_states(compilation).keys() == {"hit"}
    return 0 if warm else sum(stages.get(stage, 0.0) for stage in CACHED_STAGES)


def cache_states(*compilations: Compilation) -> Counter[str]:
    """What inductor's FX graph cache answered, and how often."""
    return Counter(e.state for one in compilations for e in one.caches if e.layer == "fx_graph")
