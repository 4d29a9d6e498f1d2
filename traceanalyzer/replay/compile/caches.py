"""What the caches of compiled graphs gave, and what it takes to start warm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from traceanalyzer.replay.compile.model import CacheUse
from traceanalyzer.trace.compile_log import Compilation, CompileLog

_NS = 1e-9
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
        saved_s=sum(e.saved_ns for e in events if e.layer == "fx_graph") * _NS,
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
