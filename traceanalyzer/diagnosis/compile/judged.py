"""What is said of torch.compile: what it costs at every start, and what it leaves in every step,
each with advice."""

from collections.abc import Iterator

from traceanalyzer.base import dataclass, digits
from traceanalyzer.diagnosis.finding import (
    BottleneckClass,
    Evidence,
    Finding,
    Severity,
    severity_of,
)
from traceanalyzer.replay.compile.model import BreakRow, Compiled, CudaGraphUse, RecompileRow
from traceanalyzer.trace.compile_log import compiled_before

AUTOTUNE_SHARE = 0.2
"""Share of the compile time from which autotuning is worth a finding: a tuned start pays it back
only over many steps."""
LEAST_S = 1.0  # shorter compile work is not worth a change of the program
MANY_TIMES = 3
USUAL_LIMIT = 8
"""Compilations of one function: the second makes sizes dynamic that changed, a third says that this
did not do; after the eighth PyTorch gives up, and what no guard takes runs eager."""
DYNAMIC = (
    "Compile once for all shapes: torch._dynamo.mark_dynamic(x, 0) before the call, or torch.compile(..., "
    "dynamic=True); or pad to a few fixed sizes. collect torch --compile-log names the guard."
)
DYNAMIC_RATIO = (1.0, 1.3, 2.0)
"""One compilation for changing shapes against one for a fixed shape: least, usual, most (1.4 on an
H200)."""
WARM = {
    "dynamo": (1.0, 1.0, 1.0),
    "cudagraphs": (1.0, 1.0, 1.0),
    "aot": (0.2, 0.6, 1.0),
    "inductor": (0.02, 0.06, 0.15),
    "autotune": (0.0, 0.05, 0.2),
}
"""Share of each stage that a warm start still takes (least, usual, most): caches are looked up,
code is loaded."""
WARM_FIXED_S = (
    0.0,
    0.2,
    1.5,
)  # imports and hashing torch's own sources, which the first graph of a process pays
WARM_BASIS = (
    "a start that finds every graph in the cache: dynamo traces again, code is loaded "
    "instead of made"
)
CAPTURED_AT_ONCE = "replayed without the profiler: each compiled graph is one launch"


@dataclass(frozen=True, kw_only=True)
class CompileAdvice:
    """A remedy, with the step and the start that it leads to; null where the recording cannot
    tell."""

    id: str
    remedy: str
    cls: BottleneckClass
    action: str
    predicted_step_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    predicted_speedup: float | None = None
    predicted_compile_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    basis: str

    def may_not_help(self, step_ms: float | None) -> bool:
        """Whether a step without it lies within the range."""
        return step_ms is not None and self.high_ms is not None and self.high_ms >= step_ms


@dataclass(frozen=True)
class CompileDiagnosis:
    """What torch.compile costs in a sentence, findings by what they cost, remedies by what they
    gain."""

    headline: str
    findings: list[Finding]
    recommendations: list[CompileAdvice]


Pair = tuple[Finding, list[CompileAdvice]]  # a finding with what to do about it


def _start_advice(
    ident: str, remedy: str, action: str, seconds: tuple[float, float, float] | None, basis: str
) -> CompileAdvice:
    """Advice on the start; `seconds` of compilation: least, expected, most."""
    low, usual, high = seconds or (None, None, None)
    return CompileAdvice(
        id=ident,
        remedy=remedy,
        cls="host",
        action=action,
        basis=basis,
        predicted_compile_s=usual,
        low_s=low,
        high_s=high,
    )


def number_of(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _numbered(what: str, index: int) -> str:
    return what if index == 0 else f"{what}-{index + 1}"


def breaks(compiled: Compiled, step_ms: float | None) -> Iterator[Pair]:
    """A finding for each place of a graph break."""
    for index, row in enumerate(compiled.graph_breaks):
        ident = _numbered("graph-break", index)
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
        finding = Finding(ident, "host", title, *_gain(row, step_ms), evidence)
        action = f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}."
        replayed = _replayed(row, step_ms)
        remedy = "remove_graph_breaks"
        yield (
            finding,
            [
                CompileAdvice(
                    id=ident, remedy=remedy, cls="host", action=action, basis=row.basis, **replayed
                )
            ],
        )


def _gain(row: BreakRow | CudaGraphUse, step_ms: float | None) -> tuple[Severity, float | None]:
    """What a step gains without it, ms, behind how severe that is."""
    gain = (
        None
        if row.predicted_step_ms is None or step_ms is None
        else max(step_ms - row.predicted_step_ms, 0.0)
    )
    return severity_of(gain / step_ms if gain is not None and step_ms else None), gain


def _replayed(row: BreakRow | CudaGraphUse, step_ms: float | None) -> dict[str, float | None]:
    step = row.predicted_step_ms
    speedup = step_ms / step if step and step_ms else None
    high = row.high_ms
    if high is not None and step_ms is not None:
        high = min(high, max(step_ms, step or 0.0))  # no remedy makes the step longer
    return {
        "predicted_step_ms": step,
        "low_ms": row.low_ms,
        "high_ms": high,
        "predicted_speedup": speedup,
    }


def cudagraphs(compiled: Compiled, step_ms: float | None) -> Iterator[Pair]:
    """A finding where CUDA graphs were asked for and left out."""
    use = compiled.cudagraphs
    if use is None or not use.skipped:
        return
    title = f"CUDA graphs were asked for and skipped: {'; '.join(use.skipped)}"
    evidence = [Evidence("reason", reason, "", "") for reason in use.skipped]
    if use.launches_per_step is not None:
        evidence.append(Evidence("CUDA graph launches", use.launches_per_step, "", "per step"))
    unknown = use.predicted_step_ms is None
    basis = "a trace of the same program tells what it would gain" if unknown else CAPTURED_AT_ONCE
    ident = "cudagraphs-skipped"
    action = _graph_action(use.skipped)
    replayed = _replayed(use, step_ms)
    advice = CompileAdvice(
        id=ident, remedy="cuda_graph", cls="launch", action=action, basis=basis, **replayed
    )
    yield Finding(ident, "launch", title, *_gain(use, step_ms), evidence), [advice]


def _graph_action(reasons: list[str]) -> str:
    reason = " ".join(reasons)
    if "mutated" in reason:
        return (
            "Return new tensors instead of changing inputs in place, or copy into a buffer "
            "outside of the function."
        )
    if "cpu device" in reason or "multiple devices" in reason:
        return "Put every tensor of the function on the GPU, constants and scalars included."
    if "dynamic" in reason or "symbolic" in reason or "symint" in reason:
        return "Give the function a few fixed shapes: CUDA graphs need them."
    return "Remove the cause, then check with TORCH_LOGS=cudagraphs."


def recompiles(compiled: Compiled) -> Iterator[Pair]:
    """A finding for each guard that failed."""
    for index, row in enumerate(compiled.recompile_reasons):
        ident = _numbered("recompilation", index)
        done = compiled.compilations
        seconds = [
            c.seconds for c in done if c.function and f"{c.function} ({c.location})" == row.function
        ]
        evidence = [
            Evidence("recompilations", row.count, "", row.location),
            Evidence("values", ", ".join(row.values) or None, "", "of what the guard checks"),
            Evidence("compile time of the function", sum(seconds), "s", row.function),
        ]
        action = f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}."
        basis = (
            "one compilation of the function, which takes 1 to 2 times as long as for a "
            "fixed value, instead of all"
        )
        after = _compiled_once_s(compiled, seconds) if row.count else None
        severity: Severity = "high" if row.refused else "medium"
        finding = Finding(ident, "host", _recompiled(row), severity, None, evidence)
        yield finding, [_start_advice(ident, "mark_dynamic", action, after, basis)]


def _recompiled(row: RecompileRow) -> str:
    """How often, for what guard, and what came of it."""
    title = f"Recompiled {number_of(row.count, 'time')}: {row.guard}, in {row.function}"
    if row.refused:
        title += f"; {row.refused} more refused (recompile limit): runs eager"
    return title


def _compiled_once_s(compiled: Compiled, seconds: list[float]) -> tuple[float, float, float] | None:
    if not seconds:
        return None
    rest = (compiled.compile_s or 0.0) - sum(seconds)
    low, usual, high = (rest + seconds[0] * ratio for ratio in DYNAMIC_RATIO)
    return low, usual, high


def recompiled_regions(compiled: Compiled) -> Iterator[Pair]:
    """A finding for each function of a trace without a log whose region has a high number: PyTorch
    counts the compilations of each (`Torch-Compiled Region: 0/7` is of the eighth)."""
    if compiled.source != "trace" or compiled.trace is None:
        return
    regions = sorted(compiled.trace.regions_per_step, key=compiled_before)
    last = {region.rpartition("/")[0]: region for region in regions}
    for index, region in enumerate(sorted(last.values(), key=compiled_before, reverse=True)):
        times = compiled_before(region) + 1
        if times < MANY_TIMES:
            return
        ident = _numbered("recompilation", index)
        title = f"Compiled at least {times} times: the function of region {region}"
        evidence = [
            Evidence("compilations, at least", times, "", f"Torch-Compiled Region: {region}"),
            Evidence("its runs", compiled.trace.regions_per_step[region], "", "per step"),
        ]
        finding = Finding(
            ident, "host", title, "high" if times >= USUAL_LIMIT else "medium", None, evidence
        )
        basis = "the log of torch.compile has the guard and the line"
        yield finding, [_start_advice(ident, "mark_dynamic", DYNAMIC, None, basis)]


def cache(compiled: Compiled) -> Iterator[Pair]:
    """A finding where caches were off or bypassed."""
    use = compiled.cache
    if use is None or not (use.bypasses or use.off):
        return
    if use.off:
        title = (
            f"{number_of(use.off, 'graph')} compiled with the cache off: every start compiles again"
        )
    else:
        reasons = "; ".join(use.bypass_reasons) or "the log does not say why"
        title = f"Caches bypassed {number_of(use.bypasses, 'time')}: {reasons}"
    evidence = [
        Evidence("compile time that every start pays", use.cold_s, "s", "AOT, inductor, kernels"),
        Evidence("hits", use.hits, "", "FX graph cache"),
        Evidence("misses", use.misses, "", "FX graph cache"),
        Evidence("bypasses", use.bypasses, "", "both caches"),
    ]
    action = use.warm_start or "Let the cache take the graph: see the reason."
    why = " ".join(use.bypass_reasons)
    if "custom pass" in why:
        action = "Give the custom pass a uuid (torch._inductor.custom_graph_pass.CustomGraphPass)."
    elif use.bypass_reasons:
        action = f"Take what the cache cannot hold out of the compiled function: {why}"
    finding = Finding(
        "compile-cache", "host", title, "high" if use.cold_s > LEAST_S else "low", None, evidence
    )
    yield (
        finding,
        [_start_advice(finding.id, "warm_cache", action, _warm_start_s(compiled), WARM_BASIS)],
    )


def _warm_start_s(compiled: Compiled) -> tuple[float, float, float] | None:
    """Compile time of a start that finds everything in the cache: least, expected, most, s."""
    if compiled.compile_s is None:
        return None
    stages = [(share, compiled.stages_s.get(stage, 0.0)) for stage, share in WARM.items()]
    taken = (
        sum(share[i] * seconds for share, seconds in stages) + WARM_FIXED_S[i] for i in range(3)
    )
    low, usual, high = (min(seconds, compiled.compile_s) for seconds in taken)
    return low, usual, high


def autotune(compiled: Compiled) -> Iterator[Pair]:
    """A finding where much of the start goes into autotuning."""
    spent = compiled.stages_s.get("autotune", 0.0)
    compile_s = compiled.compile_s or 0.0
    if spent < max(LEAST_S, AUTOTUNE_SHARE * compile_s):
        return
    best = min(compiled.ranks, key=lambda row: abs(row.compile_s - compile_s), default=None)
    starts = [
        row
        for row in compiled.ranks
        if best and row.rank == best.rank and row.autotune_s >= LEAST_S
    ]
    again = len(starts) > 1
    title = f"Autotuning takes {digits(spent)} s of {digits(compile_s)} s of compilation"
    title += (
        f", at each of {len(starts)} starts" if again else "; a start without its cache tunes again"
    )
    evidence = [
        Evidence("autotuning", spent, "s", "of this start"),
        Evidence("starts that tuned", len(starts), "", "in the folder"),
        Evidence(
            "configurations",
            sum(filter(None, (k.configurations for k in compiled.kernels))),
            "",
            "of Triton kernels",
        ),
    ]
    action = (
        "Keep TORCHINDUCTOR_CACHE_DIR from start to start (a volume, or torch.compiler.save_cache_artifacts()), so "
        "that tuned configurations are found; or compile without max-autotune."
    )
    finding = Finding("autotune", "host", title, "high" if again else "medium", None, evidence)
    yield (
        finding,
        [_start_advice(finding.id, "warm_cache", action, _warm_start_s(compiled), WARM_BASIS)],
    )


def failures(compiled: Compiled) -> Iterator[Pair]:
    """A finding where something could not be compiled."""
    if compiled.errors:
        title = f"Compilation failed: {compiled.errors[0]}"
        evidence = [Evidence("error", error, "", "") for error in compiled.errors]
        action = (
            "Fix the error, or leave the function out with torch.compiler.disable: what "
            "fails is tried repeatedly."
        )
        finding = Finding("compile-failed", "host", title, "high", None, evidence)
        yield (
            finding,
            [
                _start_advice(
                    finding.id, "fix_compile_error", action, None, "it runs eager, or stops"
                )
            ],
        )


def ranks(compiled: Compiled) -> Iterator[Pair]:
    """A finding where ranks compiled differently."""
    if compiled.ranks_differ:
        title = f"Ranks compiled differently: {compiled.ranks_differ[0]}"
        evidence = [Evidence("difference", text, "", "") for text in compiled.ranks_differ[:10]]
        yield (
            Finding("ranks-compile-differently", "communication", title, "high", None, evidence),
            [],
        )
