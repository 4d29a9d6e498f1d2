"""Findings and recommendations on torch.compile, from what its log and a trace say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.compile.model import BreakRow, Compiled

FINDINGS = (
    "graph-break",
    "recompilation",
    "cudagraphs-skipped",
    "compile-cache",
    "autotune",
    "compile-failed",
    "ranks-compile-differently",
)
"""Ids of the findings made here; the second of its kind goes on with its number. Each has a page for `explain`."""
AUTOTUNE_SHARE = 0.2
"""Of the compile time from which autotuning is worth a finding: a tuned start pays it back only over many steps."""
LEAST_S = 1.0
"""Shorter compile work is not worth a change of the program."""
DYNAMIC_RATIO = (1.0, 1.3, 2.0)
"""One compilation for changing shapes against one for a fixed shape: least, usual, most (1.4 on an H200)."""
WARM_AOT, WARM_INDUCTOR, WARM_AUTOTUNE = (0.2, 0.6, 1.0), (0.02, 0.06, 0.15), (0.0, 0.05, 0.2)
"""Share of these stages that a warm start still takes (least, usual, most): caches are looked up, code is loaded."""
WARM_FIXED_S = (0.0, 0.2, 1.5)
"""Imports and hashing torch's own sources, which the first graph of a process pays."""
HIGH_SHARE, MEDIUM_SHARE = 0.2, 0.05
"""Of the step; the same limits as for other findings."""


@dataclass(frozen=True)
class CompileAdvice:
    """A remedy, with the step and the start that it leads to; null where the recording cannot tell."""

    id: str
    remedy: str
    cls: BottleneckClass
    action: str
    predicted_step_ms: float | None
    low_ms: float | None
    high_ms: float | None
    predicted_speedup: float | None
    predicted_compile_s: float | None
    low_s: float | None
    high_s: float | None
    basis: str


@dataclass(frozen=True)
class CompileDiagnosis:
    """What torch.compile costs in a sentence, findings by what they cost, remedies by what they gain."""

    headline: str
    findings: list[Finding]
    recommendations: list[CompileAdvice]


def diagnose_compile(compiled: Compiled, step_ms: float | None) -> CompileDiagnosis:
    """Judge what was measured; `step_ms` is the step without the profiler, where a trace tells."""
    pairs = [
        *_breaks(compiled, step_ms),
        *_recompiles(compiled),
        *_cudagraphs(compiled, step_ms),
        *_cache(compiled),
        *_autotune(compiled),
        *_failures(compiled),
        *_ranks(compiled),
    ]
    pairs.sort(key=lambda pair: -(pair[0].headroom_ms or 0.0))
    findings = [finding for finding, _ in pairs]
    advice = [advice for _, given in pairs for advice in given]
    advice.sort(key=lambda one: float("inf") if one.predicted_step_ms is None else one.predicted_step_ms)
    return CompileDiagnosis(headline(compiled), findings, advice)


def headline(compiled: Compiled) -> str:
    """The answer in two sentences."""
    said = []
    if compiled.compile_s is not None:
        most = max(compiled.stages_s, key=lambda stage: compiled.stages_s[stage], default="")
        said.append(
            f"{compiled.compile_s:.3g} s of compilation for {_count(compiled.graphs or 0, 'graph')}"
            + (f", most of it {most} ({compiled.stages_s[most]:.3g} s)." if compiled.compile_s else ".")
        )
        counts = [
            _count(sum(row.count for row in compiled.graph_breaks), "graph break"),
            _count(compiled.recompiles or 0, "recompilation"),
        ]
        said.append(" and ".join(counts) + (", the recompile limit was hit." if compiled.recompile_limit_hit else "."))
    use = compiled.trace
    if use is not None and use.compiled_share is not None:
        said.append(f"{use.compiled_share:.0%} of the step's GPU time is compiled.")
    return " ".join(said)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


_Pair = tuple[Finding, list[CompileAdvice]]


def _breaks(compiled: Compiled, step_ms: float | None) -> Iterator[_Pair]:
    for index, row in enumerate(compiled.graph_breaks):
        ident = "graph-break" if index == 0 else f"graph-break-{index + 1}"
        gain = None if row.predicted_step_ms is None or step_ms is None else max(step_ms - row.predicted_step_ms, 0.0)
        where = row.location or row.function
        evidence = [
            Evidence("reason", row.detail, "", where),
            Evidence("met while compiling", row.count, "", where),
            Evidence("met in a step", row.per_step, "", where),
            Evidence("GPU idle because of it", row.idle_ms, "ms", "per step as recorded"),
        ]
        title = f"Graph break: {row.reason}, at {where}"
        if row.whole_function_eager:
            title += f"; all of {row.function or 'the function'} runs eager"
        finding = Finding(ident, "host", title, _severity(gain, step_ms), gain, evidence)
        yield finding, [_step_advice(ident, "remove_graph_breaks", row, step_ms)]


def _step_advice(ident: str, remedy: str, row: BreakRow, step_ms: float | None) -> CompileAdvice:
    return CompileAdvice(
        ident,
        remedy,
        "host",
        f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}.",
        row.predicted_step_ms,
        row.low_ms,
        row.high_ms,
        step_ms / row.predicted_step_ms if row.predicted_step_ms and step_ms else None,
        None,
        None,
        None,
        row.basis,
    )


def _recompiles(compiled: Compiled) -> Iterator[_Pair]:
    for index, row in enumerate(compiled.recompile_reasons):
        ident = "recompilation" if index == 0 else f"recompilation-{index + 1}"
        seconds = [
            c.seconds for c in compiled.compilations if c.function and f"{c.function} ({c.location})" == row.function
        ]
        total = sum(seconds)
        title = f"Recompiled {_count(row.count, 'time')}: {row.guard}, in {row.function}"
        if row.refused:
            title += f"; {row.refused} more refused by the limit, which then run eager"
        evidence = [
            Evidence("recompilations", row.count, "", row.location),
            Evidence("values", ", ".join(row.values) or None, "", "of what the guard checks"),
            Evidence("compile time of the function", total, "s", row.function),
        ]
        first = seconds[0] if seconds else 0.0
        rest = (compiled.compile_s or 0.0) - total
        low, usual, high = (rest + first * ratio for ratio in DYNAMIC_RATIO)
        action = f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}."
        basis = "one compilation of the function, which takes 1 to 2 times as long as for a fixed value, instead of all"
        known = row.count > 0 and bool(seconds)
        yield (
            Finding(ident, "host", title, "high" if row.refused else "medium", None, evidence),
            [_start_advice(ident, "mark_dynamic", action, (low, usual, high) if known else None, basis)],
        )


def _start_advice(
    ident: str, remedy: str, action: str, seconds: tuple[float, float, float] | None, basis: str
) -> CompileAdvice:
    low, usual, high = seconds or (None, None, None)
    return CompileAdvice(ident, remedy, "host", action, None, None, None, None, usual, low, high, basis)


def _cudagraphs(compiled: Compiled, step_ms: float | None) -> Iterator[_Pair]:
    use = compiled.cudagraphs
    if use is None or not use.skipped:
        return
    gain = None if use.predicted_step_ms is None or step_ms is None else max(step_ms - use.predicted_step_ms, 0.0)
    title = f"CUDA graphs were asked for and skipped: {'; '.join(use.skipped)}"
    evidence = [Evidence("reason", reason, "", "") for reason in use.skipped]
    if use.launches_per_step is not None:
        evidence.append(Evidence("CUDA graph launches", use.launches_per_step, "", "per step"))
    advice = CompileAdvice(
        "cudagraphs-skipped",
        "cuda_graph",
        "launch",
        _graph_action(use.skipped),
        use.predicted_step_ms,
        use.low_ms,
        use.high_ms,
        step_ms / use.predicted_step_ms if use.predicted_step_ms and step_ms else None,
        None,
        None,
        None,
        "replayed without the profiler: each compiled graph is one launch"
        if use.predicted_step_ms is not None
        else "a trace of the same program tells what it would gain",
    )
    yield Finding("cudagraphs-skipped", "launch", title, _severity(gain, step_ms), gain, evidence), [advice]


def _graph_action(reasons: list[str]) -> str:
    said = " ".join(reasons)
    if "mutated" in said:
        return "Return new tensors instead of changing inputs in place, or copy into a buffer outside of the function."
    if "cpu device" in said or "multiple devices" in said:
        return "Put every tensor of the function on the GPU, constants and scalars included."
    if "dynamic" in said or "symbolic" in said or "symint" in said:
        return "Give the function a few fixed shapes: CUDA graphs need them."
    return "Remove the cause, then check with TORCH_LOGS=cudagraphs."


def _cache(compiled: Compiled) -> Iterator[_Pair]:
    cache = compiled.cache
    if cache is None or not (cache.bypasses or cache.off):
        return
    if cache.off:
        title = f"{_count(cache.off, 'graph')} compiled with the cache off: every start compiles again"
    else:
        reasons = "; ".join(cache.bypass_reasons) or "the log does not say why"
        title = f"Caches bypassed {_count(cache.bypasses, 'time')}: {reasons}"
    evidence = [
        Evidence("compile time that every start pays", cache.cold_s, "s", "AOT, inductor, kernels"),
        Evidence("hits", cache.hits, "", "FX graph cache"),
        Evidence("misses", cache.misses, "", "FX graph cache"),
        Evidence("bypasses", cache.bypasses, "", "both caches"),
    ]
    action = cache.warm_start or "Let the cache take the graph: see the reason."
    if cache.bypass_reasons:
        action = _bypass_action(cache.bypass_reasons)
    yield (
        Finding("compile-cache", "host", title, "high" if cache.cold_s > LEAST_S else "low", None, evidence),
        [_start_advice("compile-cache", "warm_cache", action, warm_start_s(compiled), WARM_BASIS)],
    )


WARM_BASIS = "a start that finds every graph in the cache: dynamo traces again, code is loaded instead of made"


def _bypass_action(reasons: list[str]) -> str:
    said = " ".join(reasons)
    if "custom pass" in said:
        return "Give the custom pass a uuid (torch._inductor.custom_graph_pass.CustomGraphPass)."
    return f"Take what the cache cannot hold out of the compiled function: {said}"


def warm_start_s(compiled: Compiled) -> tuple[float, float, float] | None:
    """Compile time of a start that finds everything in the cache: least, expected, most, s."""
    if compiled.compile_s is None:
        return None
    stages = compiled.stages_s
    result = [
        stages.get("dynamo", 0.0)
        + stages.get("cudagraphs", 0.0)
        + WARM_AOT[i] * stages.get("aot", 0.0)
        + WARM_INDUCTOR[i] * stages.get("inductor", 0.0)
        + WARM_AUTOTUNE[i] * stages.get("autotune", 0.0)
        + WARM_FIXED_S[i]
        for i in range(3)
    ]
    low, usual, high = (min(each, compiled.compile_s) for each in result)
    return low, usual, high


def _autotune(compiled: Compiled) -> Iterator[_Pair]:
    spent, whole = compiled.stages_s.get("autotune", 0.0), compiled.compile_s or 0.0
    if spent < LEAST_S or spent < AUTOTUNE_SHARE * whole:
        return
    starts = [row for row in compiled.ranks if row.rank == _headline_rank(compiled) and row.autotune_s >= LEAST_S]
    again = len(starts) > 1
    title = f"Autotuning takes {spent:.3g} s of {whole:.3g} s of compilation"
    title += f", at each of {len(starts)} starts" if again else "; a start without its cache tunes again"
    evidence = [
        Evidence("autotuning", spent, "s", "of this start"),
        Evidence("starts that tuned", len(starts), "", "in the folder"),
        Evidence("configurations", sum(k.configurations or 0 for k in compiled.kernels), "", "of Triton kernels"),
    ]
    action = (
        "Keep TORCHINDUCTOR_CACHE_DIR from start to start (a volume, or torch.compiler.save_cache_artifacts()), so "
        "that tuned configurations are found; or compile without max-autotune."
    )
    yield (
        Finding("autotune", "host", title, "high" if again else "medium", None, evidence),
        [_start_advice("autotune", "warm_cache", action, warm_start_s(compiled), WARM_BASIS)],
    )


def _headline_rank(compiled: Compiled) -> int | None:
    best = min(compiled.ranks, key=lambda row: abs(row.compile_s - (compiled.compile_s or 0.0)), default=None)
    return best.rank if best else None


def _failures(compiled: Compiled) -> Iterator[_Pair]:
    if compiled.errors:
        title = f"Compilation failed: {compiled.errors[0]}"
        evidence = [Evidence("error", error, "", "") for error in compiled.errors]
        action = (
            "Fix the error, or leave the function out with torch.compiler.disable: what fails is tried again and again."
        )
        yield (
            Finding("compile-failed", "host", title, "high", None, evidence),
            [_start_advice("compile-failed", "fix_compile_error", action, None, "it runs eager, or stops")],
        )


def _ranks(compiled: Compiled) -> Iterator[_Pair]:
    if compiled.ranks_differ:
        title = f"Ranks compiled differently: {compiled.ranks_differ[0]}"
        evidence = [Evidence("difference", text, "", "") for text in compiled.ranks_differ[:10]]
        yield Finding("ranks-compile-differently", "communication", title, "high", None, evidence), []


def _severity(gain_ms: float | None, step_ms: float | None) -> Severity:
    if gain_ms is None or not step_ms:
        return "info"
    share = gain_ms / step_ms
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"
