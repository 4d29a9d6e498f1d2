"""Compile time by stage: each nanosecond of compile work counted once, to the innermost span that has a stage. And what
the caches of compiled graphs gave, and what it takes to start warm.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from traceanalyzer.replay.compile.model import CacheUse
from traceanalyzer.trace.compile_log import Compilation, CompileLog, Metrics, Span

STAGES = ("dynamo", "aot", "inductor", "triton", "cpp", "autotune", "cudagraphs", "other")
"""Tracing the program; making forward and backward graphs; optimising them and writing code; compiling kernels with
Triton and with a C++ compiler; timing configurations of kernels; recording CUDA graphs; the rest."""
NOT_COMPILING = frozenset({"dynamo"})
"""Spans around everything whose own time goes into writing the log."""
FRAMES = frozenset({"entire_frame_compile", "_compile.compile_inner"})
"""Spans of which each compilation has one: as PyTorch calls them now, and before 2.5."""
_NS = 1e-9

_STAGE_OF = (
    (re.compile(r"benchmark|autotun|coordinate_descent|coordesc", re.IGNORECASE), "autotune"),
    (re.compile(r"cudagraph", re.IGNORECASE), "cudagraphs"),
    (re.compile(r"compile_file|CppCodeCache|cpp_?compile|AotCodeCompiler|g\+\+", re.IGNORECASE), "cpp"),
    (
        re.compile(
            r"async_compile|triton_?compile|^triton|CachingAutotuner|make_launcher|ttir|ptx|cubin", re.IGNORECASE
        ),
        "triton",
    ),
    (
        re.compile(
            r"inductor|compile_fx|fx_codegen|GraphLowering|Scheduler|code_?gen|^pass\.|_grad_pass|_graph_passes|CodeCache|"
            r"FxGraph|TritonBundler|CacheBase|fake_tensor_prop|fused_nodes|WrapperCodegen",
            re.IGNORECASE,
        ),
        "inductor",
    ),
    (
        re.compile(
            r"aot|backend_compile|call_user_compiler|backward_compile|min_cut|partition|AOTAutograd", re.IGNORECASE
        ),
        "aot",
    ),
    (
        re.compile(
            r"frame_compile|compile_(?:inner|attempt)|bytecode|guards|deferred_runtime|^gc$|dynamo|preserve_rng",
            re.IGNORECASE,
        ),
        "dynamo",
    ),
)


def stage_of(name: str) -> str:
    """The stage that a span's name stands for, "" where it goes by what is around it."""
    return next((stage for pattern, stage in _STAGE_OF if pattern.search(name)), "")


def stage_seconds(log: CompileLog) -> list[dict[str, float]]:
    """For each compilation of the log its seconds by stage; stages without time are left out.

    Where the log has spans, they tell; older logs have only dynamo's own metrics.
    """
    place = _places(log.compilations)
    result: list[dict[str, float]] = [defaultdict(float) for _ in log.compilations]
    timed: set[str] = set()
    starts = _frame_starts(log.spans)
    for span, compile_id, stage, own_ns in _own_times(log.spans):
        if compile_id not in place:
            continue
        timed.add(compile_id)
        places = place[compile_id]
        index = bisect_right(starts[compile_id], span.start_ns) - 1
        result[places[min(max(index, 0), len(places) - 1)]][stage] += own_ns * _NS
    for index, compilation in enumerate(log.compilations):
        if compilation.compile_id not in timed:
            result[index] = stages_of_metrics(compilation.metrics)
    return [{stage: each[stage] for stage in STAGES if each.get(stage)} for each in result]


def stages_of_metrics(metrics: Iterable[Metrics]) -> dict[str, float]:
    """Seconds by stage as dynamo's own metrics of a compilation have them."""
    result: dict[str, float] = defaultdict(float)
    for one in metrics:
        if one.kind.endswith("_runtime"):
            known = (one.autotune_s or 0.0, one.cudagraph_s or 0.0)
            result["autotune"] += known[0]
            result["cudagraphs"] += known[1]
            result["other"] += max((one.duration_s or 0.0) - sum(known), 0.0)
            continue
        whole = one.duration_s or 0.0
        backend = min(one.backend_s if one.backend_s is not None else one.inductor_s or 0.0, whole)
        backend = whole if one.kind == "backward" else backend
        inductor = min(one.inductor_s or 0.0, backend)
        triton = min(one.triton_s or 0.0, inductor)
        result["dynamo"] += whole - backend
        result["aot"] += backend - inductor
        result["inductor"] += inductor - triton
        result["triton"] += triton
    return result


def outside_seconds(log: CompileLog) -> float:
    """Work of no compilation that the log has (a compiler tried out, kernels built in advance), s."""
    place = _places(log.compilations)
    return sum(own for _, compile_id, _, own in _own_times(log.spans) if compile_id not in place) * _NS


def _own_times(spans: Sequence[Span]) -> Iterable[tuple[Span, str, str, int]]:
    """Each span with the compilation it belongs to, its stage, and the time that is not of a span in it, ns.

    Spans of a thread are nested. One that names no compilation or stage goes by the one around it.
    """
    open_: dict[int, list[tuple[Span, str, str, list[int]]]] = defaultdict(list)
    done: list[tuple[Span, str, str, int]] = []

    def close(thread: int, until_ns: int) -> None:
        stack = open_[thread]
        while stack and stack[-1][0].end_ns <= until_ns:
            span, compile_id, stage, inner = stack.pop()
            own = 0 if span.name in NOT_COMPILING else max(span.end_ns - span.start_ns - inner[0], 0)
            done.append((span, compile_id, stage, own))

    for span in spans:
        close(span.thread, span.start_ns)
        stack = open_[span.thread]
        id_around, stage_around = stack[-1][1:3] if stack else ("", "other")
        if stack:
            stack[-1][3][0] += min(span.end_ns, stack[-1][0].end_ns) - span.start_ns
        stack.append((span, span.compile_id or id_around, stage_of(span.name) or stage_around, [0]))
    for thread in list(open_):
        close(thread, 1 << 62)
    return done


def _places(compilations: Sequence[Compilation]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for index, compilation in enumerate(compilations):
        places[compilation.compile_id].append(index)
    return places


def _frame_starts(spans: Sequence[Span]) -> dict[str, list[int]]:
    starts: dict[str, list[int]] = defaultdict(list)
    for span in spans:
        if span.name in FRAMES:
            starts[span.compile_id].append(span.start_ns)
    return starts


_S = 1e-9
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


def cache_use(log: CompileLog, stages: Sequence[dict[str, float]]) -> CacheUse:
    """What the caches gave the compilations of a log; `stages` are the seconds of each."""
    events = [event for c in log.compilations for event in c.caches]
    by_cache = {
        layer: {
            state: sum(e.layer == layer and e.state == state for e in events) for state in ("hit", "miss", "bypass")
        }
        for layer in ("fx_graph", "aot_autograd")
    }
    fx = by_cache["fx_graph"]
    reasons = list(dict.fromkeys(e.reason for e in events if e.state == "bypass" and e.reason))
    off = sum(_not_asked(c) for c in log.compilations)
    cold = sum(
        sum(each.get(stage, 0.0) for stage in CACHED_STAGES)
        for c, each in zip(log.compilations, stages, strict=True)
        if c.codes and not _is_warm(c)
    )
    return CacheUse(
        hits=fx["hit"],
        misses=fx["miss"],
        bypasses=fx["bypass"] + by_cache["aot_autograd"]["bypass"],
        off=off,
        by_cache=by_cache,
        bypass_reasons=reasons,
        saved_s=sum(e.saved_ns for e in events if e.layer == "fx_graph") * _S,
        cold_s=cold,
        warm_start=_warm_start(fx, off, reasons),
    )


def _not_asked(compilation: Compilation) -> int:
    """Graphs that inductor compiled without asking its cache."""
    asked = Counter(e.layer for e in compilation.caches)["fx_graph"]
    return max(len(compilation.codes) - asked, 0) if not asked else 0


def _is_warm(compilation: Compilation) -> bool:
    states = [e.state for e in compilation.caches if e.layer == "fx_graph"]
    return bool(states) and all(state == "hit" for state in states)


def _warm_start(fx: dict[str, int], off: int, reasons: list[str]) -> str:
    said = []
    if off:
        said.append(OFF)
    if reasons and fx["bypass"]:
        said.append(BYPASSED.format(reasons="; ".join(reasons)))
    if fx["miss"]:
        said.append(COLD)
    return " ".join(said) or (WARM if fx["hit"] else "")
