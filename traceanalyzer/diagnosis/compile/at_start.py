"""What torch.compile costs at every start: recompilations, caches, autotuning, failures, ranks that differ."""

from collections.abc import Iterator

from traceanalyzer.diagnosis.compile.pairs import Pair, count, start_advice
from traceanalyzer.diagnosis.finding import Evidence, Finding, Severity
from traceanalyzer.replay.compile.model import Compiled
from traceanalyzer.trace.compile_log import compiled_before

AUTOTUNE_SHARE = 0.2
"""Of the compile time from which autotuning is worth a finding: a tuned start pays it back only over many steps."""
LEAST_S = 1.0
"""Shorter compile work is not worth a change of the program."""
MANY_TIMES, USUAL_LIMIT = 3, 8
"""Compilations of one function: the second makes sizes dynamic that changed, a third says that this did not do; after
the eighth PyTorch gives up, and what no guard takes runs eager."""
DYNAMIC = (
    "Compile once for all shapes: torch._dynamo.mark_dynamic(x, 0) before the call, or torch.compile(..., "
    "dynamic=True); or pad to a few fixed sizes. collect torch --compile-log names the guard."
)
DYNAMIC_RATIO = (1.0, 1.3, 2.0)
"""One compilation for changing shapes against one for a fixed shape: least, usual, most (1.4 on an H200)."""
WARM = {
    "dynamo": (1.0, 1.0, 1.0),
    "cudagraphs": (1.0, 1.0, 1.0),
    "aot": (0.2, 0.6, 1.0),
    "inductor": (0.02, 0.06, 0.15),
    "autotune": (0.0, 0.05, 0.2),
}
"""Share of each stage that a warm start still takes (least, usual, most): caches are looked up, code is loaded."""
WARM_FIXED_S = (0.0, 0.2, 1.5)
"""Imports and hashing torch's own sources, which the first graph of a process pays."""


def recompiles(compiled: Compiled) -> Iterator[Pair]:
    """A finding for each guard that failed."""
    for index, row in enumerate(compiled.recompile_reasons):
        ident, seconds = _numbered(index), _seconds_of(compiled, row.function)
        total, first = sum(seconds), next(iter(seconds), 0.0)
        title = f"Recompiled {count(row.count, 'time')}: {row.guard}, in {row.function}"
        if row.refused:
            title += f"; {row.refused} more refused by the limit, which then run eager"
        evidence = [
            Evidence("recompilations", row.count, "", row.location),
            Evidence("values", ", ".join(row.values) or None, "", "of what the guard checks"),
            Evidence("compile time of the function", total, "s", row.function),
        ]
        rest = (compiled.compile_s or 0.0) - total
        low, usual, high = (rest + first * ratio for ratio in DYNAMIC_RATIO)
        action = f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}."
        basis = "one compilation of the function, which takes 1 to 2 times as long as for a fixed value, instead of all"
        yield (
            Finding(ident, "host", title, "high" if row.refused else "medium", None, evidence),
            [start_advice(ident, "mark_dynamic", action, (low, usual, high) if row.count and seconds else None, basis)],
        )


def _numbered(index: int) -> str:
    return "recompilation" if index == 0 else f"recompilation-{index + 1}"


def _seconds_of(compiled: Compiled, function: str) -> list[float]:
    """How long each compilation of a function took."""
    return [c.seconds for c in compiled.compilations if c.function and f"{c.function} ({c.location})" == function]


def recompiled_regions(compiled: Compiled) -> Iterator[Pair]:
    """A finding for each function of a trace without a log whose region has a high number: PyTorch counts the
    compilations of each (`Torch-Compiled Region: 0/7` is of the eighth)."""
    if compiled.source != "trace" or compiled.trace is None:
        return
    regions = sorted(compiled.trace.regions_per_step, key=compiled_before)
    last = {region.rpartition("/")[0]: region for region in regions}
    for index, region in enumerate(sorted(last.values(), key=compiled_before, reverse=True)):
        times = compiled_before(region) + 1
        if times < MANY_TIMES:
            return
        ident = _numbered(index)
        title = f"Compiled at least {times} times: the function of region {region}"
        evidence = [
            Evidence("compilations, at least", times, "", f"Torch-Compiled Region: {region}"),
            Evidence("its runs", compiled.trace.regions_per_step[region], "", "per step"),
        ]
        severity: Severity = "high" if times >= USUAL_LIMIT else "medium"
        yield (
            Finding(ident, "host", title, severity, None, evidence),
            [start_advice(ident, "mark_dynamic", DYNAMIC, None, "the log of torch.compile has the guard and the line")],
        )


def cache(compiled: Compiled) -> Iterator[Pair]:
    """A finding where caches were off or bypassed."""
    use = compiled.cache
    if use is None or not (use.bypasses or use.off):
        return
    if use.off:
        title = f"{count(use.off, 'graph')} compiled with the cache off: every start compiles again"
    else:
        reasons = "; ".join(use.bypass_reasons) or "the log does not say why"
        title = f"Caches bypassed {count(use.bypasses, 'time')}: {reasons}"
    evidence = [
        Evidence("compile time that every start pays", use.cold_s, "s", "AOT, inductor, kernels"),
        Evidence("hits", use.hits, "", "FX graph cache"),
        Evidence("misses", use.misses, "", "FX graph cache"),
        Evidence("bypasses", use.bypasses, "", "both caches"),
    ]
    action = use.warm_start or "Let the cache take the graph: see the reason."
    if use.bypass_reasons:
        action = _bypass_action(use.bypass_reasons)
    yield (
        Finding("compile-cache", "host", title, "high" if use.cold_s > LEAST_S else "low", None, evidence),
        [start_advice("compile-cache", "warm_cache", action, warm_start_s(compiled), WARM_BASIS)],
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
    taken = (
        sum(share[i] * compiled.stages_s.get(stage, 0.0) for stage, share in WARM.items()) + WARM_FIXED_S[i]
        for i in range(3)
    )
    low, usual, high = (min(seconds, compiled.compile_s) for seconds in taken)
    return low, usual, high


def autotune(compiled: Compiled) -> Iterator[Pair]:
    """A finding where much of the start goes into autotuning."""
    spent, whole = compiled.stages_s.get("autotune", 0.0), compiled.compile_s or 0.0
    if spent < max(LEAST_S, AUTOTUNE_SHARE * whole):
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
        [start_advice("autotune", "warm_cache", action, warm_start_s(compiled), WARM_BASIS)],
    )


def _headline_rank(compiled: Compiled) -> int | None:
    best = min(compiled.ranks, key=lambda row: abs(row.compile_s - (compiled.compile_s or 0.0)), default=None)
    return best.rank if best else None


def failures(compiled: Compiled) -> Iterator[Pair]:
    """A finding where something could not be compiled."""
    if compiled.errors:
        title = f"Compilation failed: {compiled.errors[0]}"
        evidence = [Evidence("error", error, "", "") for error in compiled.errors]
        action = "Fix the error, or leave the function out with torch.compiler.disable: what fails is tried repeatedly."
        yield (
            Finding("compile-failed", "host", title, "high", None, evidence),
            [start_advice("compile-failed", "fix_compile_error", action, None, "it runs eager, or stops")],
        )


def ranks(compiled: Compiled) -> Iterator[Pair]:
    """A finding where ranks compiled differently."""
    if compiled.ranks_differ:
        title = f"Ranks compiled differently: {compiled.ranks_differ[0]}"
        evidence = [Evidence("difference", text, "", "") for text in compiled.ranks_differ[:10]]
        yield Finding("ranks-compile-differently", "communication", title, "high", None, evidence), []
