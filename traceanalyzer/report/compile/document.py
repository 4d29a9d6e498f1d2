"""What torch.compile cost, as sections that every output draws: sentences, then a table."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.format import figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.diagnosis.compile.pairs import CompileDiagnosis
    from traceanalyzer.report.compile.model import CompileReport

COMPILE_TIME = "Compile time"
MAX_ROWS = 20
"""Rows of a table on paper; the JSON has all."""
NO_FUSION = (
    "Why kernels were not fused is not in the structured log: set TORCH_LOGS=+fusion and "
    "TORCH_LOGS_OUT=FOLDER/fusion.txt as well, with the FOLDER of TORCH_TRACE."
)
STAGE_NAMES = {
    "dynamo": "dynamo (tracing the program)",
    "aot": "AOT (forward and backward graphs)",
    "inductor": "inductor (optimising, writing code)",
    "triton": "Triton (compiling kernels)",
    "cpp": "C++ compiler",
    "autotune": "autotuning",
    "cudagraphs": "CUDA graphs (recording)",
    "other": "rest",
}


@dataclass(frozen=True)
class Section:
    """A title, sentences, and a table; `numeric` says which columns hold figures."""

    title: str
    lines: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    numeric: list[bool] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    remark: str = ""


def sections(report: CompileReport) -> list[Section]:
    """The report's sections in order; those with nothing to say are left out."""
    made = [make(report.compiled, report.diagnosis) for make in _SECTIONS]
    if report.note:
        made[0] = replace(made[0], lines=[*made[0].lines, report.note])
    return [section for section in made if section.lines or section.rows]


def _answer(compiled: Compiled, diagnosis: CompileDiagnosis) -> Section:
    lines = [diagnosis.headline] if diagnosis.headline else []
    if compiled.runs_eager_since:
        lines.append(f"Runs eager since the recompile limit was hit: {', '.join(compiled.runs_eager_since)}.")
    return Section("torch.compile", lines)


def _findings(_: Compiled, diagnosis: CompileDiagnosis) -> Section:
    lines = []
    for number, finding in enumerate(diagnosis.findings, 1):
        cost = "" if finding.headroom_ms is None else f" ({figure(finding.headroom_ms, 'ms')} a step)"
        lines.append(f"{number}. {finding.title}{cost} [{finding.id}]")
    return Section("Findings", lines)


def _advice(_: Compiled, diagnosis: CompileDiagnosis) -> Section:
    lines = []
    for number, one in enumerate(diagnosis.recommendations, 1):
        said = f"{number}. {one.action}"
        if one.predicted_step_ms is not None:
            said += f" Step: {figure(one.predicted_step_ms, 'ms')}"
            if one.low_ms is not None and one.high_ms is not None:
                said += f" ({figure(one.low_ms, 'ms')} to {figure(one.high_ms, 'ms')})"
            said += "."
        if one.predicted_compile_s is not None:
            said += f" Compilation: {one.predicted_compile_s:.3g} s ({one.low_s or 0:.3g} to {one.high_s or 0:.3g} s)."
        lines.append(f"{said} Estimated as: {one.basis}." if one.basis else said)
    return Section("Recommended", lines)


def _stages(compiled: Compiled, _: CompileDiagnosis) -> Section:
    total = compiled.compile_s or 0.0
    rows = [
        [STAGE_NAMES[stage], f"{seconds:.3f}", f"{seconds / total:.0%}" if total else ""]
        for stage, seconds in compiled.stages_s.items()
        if seconds
    ]
    if not rows:
        return Section(COMPILE_TIME)
    rows.append(["total", f"{total:.3f}", "100%"])
    return Section(COMPILE_TIME, [], ["stage", "s", "share"], [False, True, True], rows)


def _compilations(compiled: Compiled, _: CompileDiagnosis) -> Section:
    order = sorted(compiled.compilations, key=lambda row: -row.seconds)
    rows = [
        [row.id, row.function, row.location, f"{row.seconds:.3f}", str(row.operators), row.cache, row.outcome]
        for row in order[:MAX_ROWS]
    ]
    headers = ["compile id", "function", "where", "s", "operators", "cache", "outcome"]
    return Section("Compilations", [], headers, [False, False, False, True, True, False, False], rows, _more(order))


def _breaks(compiled: Compiled, _: CompileDiagnosis) -> Section:
    rows = [
        [row.reason, row.location, str(row.count), _maybe(row.per_step), _maybe(row.idle_ms), row.remedy]
        for row in compiled.graph_breaks[:MAX_ROWS]
    ]
    headers = ["graph break", "where", "met", "per step", "GPU idle, ms a step", "remedy"]
    return Section(
        "Graph breaks", [], headers, [False, False, True, True, True, False], rows, _more(compiled.graph_breaks)
    )


def _recompiles(compiled: Compiled, _: CompileDiagnosis) -> Section:
    rows = [
        [row.guard, ", ".join(row.values), row.location, str(row.count), str(row.refused), row.remedy]
        for row in compiled.recompile_reasons[:MAX_ROWS]
    ]
    headers = ["guard that failed", "values", "where", "times", "refused", "remedy"]
    return Section(
        "Recompilations", [], headers, [False, False, False, True, True, False], rows, _more(compiled.recompile_reasons)
    )


def _caches(compiled: Compiled, _: CompileDiagnosis) -> Section:
    lines = []
    cache, graphs = compiled.cache, compiled.cudagraphs
    if cache is not None and (cache.hits or cache.misses or cache.bypasses or cache.off):
        lines.append(
            f"FX graph cache: {cache.hits} hits, {cache.misses} misses; {cache.bypasses} bypasses of both caches; "
            f"{cache.off} graphs compiled without it. Hits saved {cache.saved_s:.3g} s."
        )
        lines += [f"Bypassed: {reason}." for reason in cache.bypass_reasons]
        lines += [cache.warm_start] if cache.warm_start else []
    if graphs is not None and (graphs.wanted or graphs.used or graphs.launches_per_step):
        lines.append(
            f"CUDA graphs: {graphs.recorded} recorded, {graphs.rerecorded} of them again"
            + (
                f", {graphs.captured_share:.0%} of the step's GPU time in them."
                if graphs.captured_share is not None
                else "."
            )
        )
        lines += [f"Skipped: {reason}." for reason in graphs.skipped]
    return Section("Caches and CUDA graphs", lines)


def _steps(compiled: Compiled, _: CompileDiagnosis) -> Section:
    steps = compiled.steps
    lines = []
    if steps.step_ms is not None:
        lines.append(f"Steady step: {figure(steps.step_ms, 'ms')} without the profiler.")
    if steps.eager_step_ms is not None:
        lines.append(f"Eager step: {figure(steps.eager_step_ms, 'ms')}.")
    if steps.warmup_ms is not None and steps.warmup_excess_ms is not None:
        lines.append(
            f"Warm-up: {_steps_of(steps.warmup_steps or 0)} in {figure(steps.warmup_ms, 'ms')} as recorded, "
            f"{figure(steps.warmup_excess_ms, 'ms')} more than as many steady ones "
            f"({figure(steps.recorded_step_ms, 'ms')} each)."
        )
    if steps.pays_after_steps is not None:
        lines.append(f"Compilation has paid for itself after {_steps_of(steps.pays_after_steps)}.")
    lines += [steps.basis] if steps.basis else []
    rows = [[part.what, f"{part.ms:.3f}", f"{part.steady_ms:.3f}"] for part in steps.first_step if part.ms]
    if rows:
        rows.append(["total", f"{steps.first_step_ms or 0.0:.3f}", f"{steps.recorded_step_ms or 0.0:.3f}"])
    headers = ["first step", "ms", "of a steady step, ms"]
    return Section("First step, warm-up and steady step", lines, headers, [False, True, True], rows)


def _steps_of(number: int) -> str:
    return "1 step" if number == 1 else f"{number:,} steps"


def _trace(compiled: Compiled, _: CompileDiagnosis) -> Section:
    use = compiled.trace
    if use is None:
        return Section("In the trace")
    lines = list(use.notes)
    if use.compiled_share is not None:
        lines.insert(0, f"Compiled code launches {use.compiled_share:.0%} of the step's GPU time.")
    if use.mapped_share is not None:
        lines.append(f"{use.mapped_share:.0%} of the time of inductor's kernels is mapped to source lines.")
    rows = [[row.name, f"{row.per_step:.3g}", f"{row.gpu_ms:.4f}", row.where] for row in use.eager[:MAX_ROWS]]
    headers = ["still eager", "per step", "GPU ms a step", "part of"]
    return Section("In the trace", lines, headers, [False, True, True, False], rows)


def _kernels(compiled: Compiled, _: CompileDiagnosis) -> Section:
    rows = [
        [
            row.name,
            row.lines[0] if row.lines else "",
            str(row.nodes),
            _maybe(row.per_step),
            _maybe(row.measured_ms),
            _maybe(row.estimated_ms),
            _maybe(row.attainable_ms),
            _maybe(row.compile_ms),
        ]
        for row in compiled.kernels[:MAX_ROWS]
    ]
    headers = [
        "kernel",
        "source",
        "nodes",
        "per step",
        "ms a step",
        "inductor's estimate",
        "at the roofline",
        "compile ms",
    ]
    return Section("Kernels", [], headers, [False, False, *[True] * 6], rows, _more(compiled.kernels))


def _not_fused(compiled: Compiled, _: CompileDiagnosis) -> Section:
    if compiled.not_fused is None:
        return Section("Not fused", [NO_FUSION] if compiled.kernels and compiled.source != "trace" else [])
    rows = [[row.reason, str(row.pairs), row.first, row.second] for row in compiled.not_fused[:MAX_ROWS]]
    headers = ["why inductor left them apart", "pairs", "such as", "and"]
    return Section("Not fused", [], headers, [False, True, False, False], rows, _more(compiled.not_fused))


def _ranks(compiled: Compiled, _: CompileDiagnosis) -> Section:
    if len(compiled.ranks) < 2:
        return Section("Ranks and starts")
    rows = [
        [
            "" if row.rank is None else str(row.rank),
            f"{row.compile_s:.2f}",
            f"{row.autotune_s:.2f}",
            str(row.graphs),
            str(row.graph_breaks),
            str(row.recompiles),
            str(row.cache_hits),
            str(row.cache_misses),
        ]
        for row in compiled.ranks[:MAX_ROWS]
    ]
    headers = ["rank", "compile s", "autotune s", "graphs", "breaks", "recompiles", "hits", "misses"]
    return Section("Ranks and starts", compiled.ranks_differ[:10], headers, [True] * 8, rows, _more(compiled.ranks))


def _log(compiled: Compiled, _: CompileDiagnosis) -> Section:
    lines = list(compiled.notes)
    if compiled.log:
        counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in compiled.log.items() if number)
        lines.append(f"Log: {counts}.")
    return Section("What was read", lines)


_SECTIONS: tuple[Callable[[Compiled, CompileDiagnosis], Section], ...] = (
    _answer,
    _findings,
    _advice,
    _stages,
    _breaks,
    _recompiles,
    _caches,
    _steps,
    _compilations,
    _trace,
    _kernels,
    _not_fused,
    _ranks,
    _log,
)


def _more(rows: list[object] | list[str] | object) -> str:
    count = len(rows) if isinstance(rows, list) else 0
    return f"{count - MAX_ROWS} more rows; --format json has all." if count > MAX_ROWS else ""


def _maybe(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
