"""What torch.compile cost, as a document: sentences, then tables."""

from collections.abc import Sequence
from functools import partial

from traceanalyzer.analysis.groups.first_steps import PaidBack
from traceanalyzer.base import MinorNote, plural
from traceanalyzer.diagnosis.compile.judged import CompileAdvice, CompileDiagnosis
from traceanalyzer.replay.compile.model import Compiled, StepsUse
from traceanalyzer.report.brief import first_screen, shown_path
from traceanalyzer.report.compile.strip import STAGE_NAMES, CompileReport, strip_svg
from traceanalyzer.report.document import (
    Document,
    Drawing,
    Paragraph,
    Part,
    Section,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import figure
from traceanalyzer.report.printed import Printed
from traceanalyzer.version import __version__

SCHEMA_VERSION = 2
SHOWN_FINDINGS = 4  # of a terminal's one screen
NOTHING = "Nothing to fix."
MAX_ROWS = 20  # rows of a table on paper; the JSON has all


def compile_document(report: CompileReport, full: bool = True) -> Printed:
    """The report on torch.compile; unless it is full a terminal gets one screen of it."""
    diagnosis = report.diagnosis
    values = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "traceanalyzer", "version": __version__},
        "inputs": report.inputs,
        "headline": diagnosis.headline,
        "compile": report.compiled,
        "findings": diagnosis.findings,
        "recommendations": diagnosis.recommendations,
    }
    document = Document(f"torch.compile: {diagnosis.headline}", compile_sections(report))
    return Printed(document, values, screen=None if full else _screen(report))


def _screen(report: CompileReport) -> Document:
    compiled = report.compiled
    diagnosis = report.diagnosis
    answer = _verdict(compiled, diagnosis)
    titles = [one.title for one in diagnosis.findings[:SHOWN_FINDINGS]]
    notes = [*getattr(compiled.trace, "notes", ()), *compiled.notes]
    return first_screen(
        answer.text,
        _lines(compiled, diagnosis),
        _advice(compiled, diagnosis),
        [note for note in notes if not isinstance(note, MinorNote)],
        _next(report),
        # What has failed is the answer already.
        findings=[title for title in titles if title not in answer.text],
    )


def _lines(compiled: Compiled, diagnosis: CompileDiagnosis) -> list[str]:
    """What stands below the answer: what no finding says, step times, that nothing is wrong."""
    is_told = any(row.refused for row in compiled.recompile_reasons)
    lines = [] if is_told else list(_verdict(compiled, diagnosis).about)
    times = [line for line in _step_times(compiled.steps) if line != compiled.steps.basis]
    if times:
        lines.append(" ".join(times))
    if not diagnosis.findings:
        lines.append(NOTHING)
    return lines


def _next(report: CompileReport) -> list[str]:
    """What to type next."""
    words = {"torch_log": "LOG"}
    shown = (shown_path(one["path"], words.get(one["kind"], "TRACE")) for one in report.inputs)
    paths = " ".join(dict.fromkeys(shown))
    about = [f"explain {one.id}" for one in report.diagnosis.findings[:1]]
    with_trace = [f"analyze TRACE {paths}"] if report.compiled.trace is None else []
    return [f"analyze {paths} --full", *about, *with_trace]


def compile_sections(report: CompileReport) -> list[Section]:
    """The report's sections in order; those with nothing to say are left out."""
    compiled = report.compiled
    diagnosis = report.diagnosis
    found = []
    for number, finding in enumerate(diagnosis.findings, 1):
        cost = (
            "" if finding.headroom_ms is None else f" ({figure(finding.headroom_ms, 'ms')} a step)"
        )
        found.append(f"{number}. {finding.title}{cost} [{finding.id}]")
    document = [
        Section("torch.compile", [_verdict(compiled, diagnosis), report.note or None]),
        Section("Findings", found),
        Section("Recommended", _explained_advice(compiled, diagnosis)),
        Section("Compile time", _stages(report)),
        Section("Graph breaks", _graph_breaks(compiled)),
        Section("Recompilations", _recompilations(compiled)),
        Section("Caches and CUDA graphs", _caches(compiled)),
        Section("First step, warm-up and steady step", _steps(compiled)),
        Section("Compilations", _compilations(compiled)),
        Section("In the trace", _trace(compiled)),
        Section("Kernels", _kernels(compiled)),
        Section("Not fused", _not_fused(compiled)),
        Section("Ranks and starts", _ranks(compiled)),
        Section("What was read", _log(compiled)),
    ]
    return [section for section in document if any(part is not None for part in section.parts)]


def _verdict(compiled: Compiled, diagnosis: CompileDiagnosis) -> Verdict:
    since = ", ".join(compiled.runs_eager_since)
    about = [f"Runs eager since the recompile limit was hit: {since}."] if since else []
    return Verdict(diagnosis.headline or "Nothing was compiled.", about)


def _advice(compiled: Compiled, diagnosis: CompileDiagnosis) -> list[str]:
    """What to change: what that gains, its name, what to do."""
    return [
        f"{_gain(compiled, advice)} [{advice.remedy}]  {advice.action}"
        for advice in diagnosis.recommendations
    ]


def _explained_advice(compiled: Compiled, diagnosis: CompileDiagnosis) -> list[str]:
    """The advice with what each rests on, numbered."""
    both = zip(_advice(compiled, diagnosis), diagnosis.recommendations, strict=True)
    return [
        f"{number}. {text}" + (f" Assumes: {advice.basis}." if advice.basis else "")
        for number, (text, advice) in enumerate(both, 1)
    ]


def _gain(compiled: Compiled, advice: CompileAdvice) -> str:
    """What a step, and a start, take now and after it."""
    gains = []
    if advice.predicted_step_ms is not None:
        gains.append(_gain_of_a_step(compiled.steps.step_ms, advice))
    if advice.predicted_compile_s is not None:
        ends = f"{advice.low_s or 0:.3g} to {advice.high_s or 0:.3g}"
        now = f"{compiled.compile_s:.3g} → " if compiled.compile_s else ""
        gains.append(f"{now}{advice.predicted_compile_s:.3g} s ({ends}) of compilation")
    return ", ".join(gains) or "gain unknown"


def _gain_of_a_step(step_ms: float | None, advice: CompileAdvice) -> str:
    text = figure(advice.predicted_step_ms, "ms")
    if step_ms is not None:
        text = f"{figure(step_ms, 'ms')} → {text}"
    if advice.low_ms is not None and advice.high_ms is not None:
        text += f" ({figure(advice.low_ms, 'ms')} to {figure(advice.high_ms, 'ms')})"
    text += " per step"
    if advice.predicted_speedup is not None:
        text += f", {figure(advice.predicted_speedup, 'x')}"
    return f"{text}, may not help" if advice.may_not_help(step_ms) else text


def _stages(report: CompileReport) -> list[Part]:
    total = report.compiled.compile_s or 0.0
    rows = [
        [STAGE_NAMES[stage], f"{seconds:.3f}", f"{seconds / total:.0%}" if total else ""]
        for stage, seconds in report.compiled.stages_s.items()
        if seconds
    ]
    if not rows:
        return []
    drawn = [] if report.strip is None else [Drawing(partial(strip_svg, report.strip))]
    return [*drawn, *_table("stage | s# | share#", [*rows, ["total", f"{total:.3f}", "100%"]])]


def _graph_breaks(compiled: Compiled) -> list[Part]:
    headers = "graph break | where | met# | per step# | GPU idle, ms a step# | remedy"
    rows = [
        [
            row.reason,
            row.location,
            row.count,
            _maybe(row.per_step),
            _maybe(row.idle_ms),
            row.remedy,
        ]
        for row in compiled.graph_breaks
    ]
    return _table(headers, rows)


def _recompilations(compiled: Compiled) -> list[Part]:
    headers = "guard that failed | values | where | times# | refused# | remedy"
    rows = [
        [row.guard, ", ".join(row.values), row.location, row.count, row.refused, row.remedy]
        for row in compiled.recompile_reasons
    ]
    return _table(headers, rows)


def _compilations(compiled: Compiled) -> list[Part]:
    headers = "compile id | function | where | s# | operators# | cache | outcome"
    longest_first = sorted(compiled.compilations, key=lambda row: -row.seconds)
    rows = [
        [
            row.id,
            row.function,
            row.location,
            f"{row.seconds:.3f}",
            row.operators,
            row.cache,
            row.outcome,
        ]
        for row in longest_first
    ]
    return _table(headers, rows)


def _caches(compiled: Compiled) -> list[Part | None]:
    lines: list[Part | None] = []
    cache = compiled.cache
    graphs = compiled.cudagraphs
    if cache is not None and any((cache.hits, cache.misses, cache.bypasses, cache.off)):
        lines.append(
            f"FX graph cache: {cache.hits} hits, {cache.misses} misses; {cache.bypasses} bypasses of both caches; "
            f"{cache.off} graphs compiled without it. Hits saved {cache.saved_s:.3g} s."
        )
        lines += [
            *(f"Bypassed: {reason}." for reason in cache.bypass_reasons),
            cache.warm_start or None,
        ]
    if graphs is not None and any((graphs.wanted, graphs.used, graphs.launches_per_step)):
        share = graphs.captured_share
        captured = "." if share is None else f", {share:.0%} of the step's GPU time in them."
        lines.append(
            f"CUDA graphs: {graphs.recorded} recorded, {graphs.rerecorded} of them again{captured}"
        )
        lines += [f"Skipped: {reason}." for reason in graphs.skipped]
    return lines


def _steps(compiled: Compiled) -> list[Part]:
    steps = compiled.steps
    rows = [
        [part.what, f"{part.ms:.3f}", f"{part.steady_ms:.3f}"]
        for part in steps.first_step
        if part.ms
    ]
    if rows:
        rows.append(
            ["total", f"{steps.first_step_ms or 0.0:.3f}", f"{steps.recorded_step_ms or 0.0:.3f}"]
        )
    return [*_step_times(steps), *_table("first step | ms# | of a steady step, ms#", rows)]


def _step_times(steps: StepsUse) -> list[str]:
    lines = []
    if steps.step_ms is not None:
        lines.append(f"Steady step: {figure(steps.step_ms, 'ms')} without the profiler.")
    if steps.eager_step_ms is not None:
        lines.append(f"Eager step: {figure(steps.eager_step_ms, 'ms')}.")
    if steps.warmup_ms is not None and steps.warmup_excess_ms is not None:
        warmup = steps.warmup_steps or 0
        count = f"{warmup:,} {plural('step', warmup)}"
        lines.append(
            f"Warm-up: {count} in {figure(steps.warmup_ms, 'ms')} as recorded, "
            f"{figure(steps.warmup_excess_ms, 'ms')} more than as many steady ones "
            f"({figure(steps.recorded_step_ms, 'ms')} each)."
        )
    if steps.pays_low is not None:
        lines.append(
            f"Compilation is {PaidBack(steps.pays_after_steps, steps.pays_low, steps.pays_high)}."
        )
    return [*lines, *([steps.basis] if steps.basis else [])]


def _trace(compiled: Compiled) -> list[Part]:
    use = compiled.trace
    if use is None:
        return []
    lines: list[Part] = list(use.notes)
    if use.compiled_share is not None:
        lines.insert(0, f"Compiled code launches {use.compiled_share:.0%} of the step's GPU time.")
    if use.mapped_share is not None:
        lines.append(
            f"{use.mapped_share:.0%} of the time of inductor's kernels is mapped to source lines."
        )
    rows = [[row.name, f"{row.per_step:.3g}", f"{row.gpu_ms:.4f}", row.where] for row in use.eager]
    return [*lines, *_table("still eager | per step# | GPU ms a step# | part of", rows[:MAX_ROWS])]


def _kernels(compiled: Compiled) -> list[Part]:
    rows = [
        [
            row.name,
            row.lines[0] if row.lines else "",
            row.nodes,
            *map(
                _maybe,
                (
                    row.per_step,
                    row.measured_ms,
                    row.estimated_ms,
                    row.attainable_ms,
                    row.compile_ms,
                ),
            ),
        ]
        for row in compiled.kernels
    ]
    figures = (
        "nodes# | per step# | ms a step# | inductor's estimate# | at the roofline# | compile ms#"
    )
    return _table(f"kernel | source | {figures}", rows)


def _not_fused(compiled: Compiled) -> list[Part]:
    if compiled.not_fused is None:
        how = (
            "Why kernels were not fused is not in the structured log: set TORCH_LOGS=+fusion and "
            "TORCH_LOGS_OUT=FOLDER/fusion.txt as well, with the FOLDER of TORCH_TRACE."
        )
        return [how] if compiled.kernels and compiled.source != "trace" else []
    rows = [[row.reason, row.pairs, row.first, row.second] for row in compiled.not_fused]
    return _table("why inductor left them apart | pairs# | such as | and", rows)


def _ranks(compiled: Compiled) -> list[Part]:
    if len(compiled.ranks) < 2:
        return []
    rows = [
        [
            "" if row.rank is None else row.rank,
            f"{row.compile_s:.2f}",
            f"{row.autotune_s:.2f}",
            row.graphs,
            row.graph_breaks,
            row.recompiles,
            row.cache_hits,
            row.cache_misses,
        ]
        for row in compiled.ranks
    ]
    headers = "rank# | compile s# | autotune s# | graphs# | breaks# | recompiles# | hits# | misses#"
    return [*compiled.ranks_differ[:10], *_table(headers, rows)]


def _log(compiled: Compiled) -> list[Part]:
    counts = ", ".join(
        f"{number:,} {name.replace('_', ' ')}" for name, number in compiled.log.items() if number
    )
    return [*map(str, compiled.notes), *([f"Log: {counts}."] if compiled.log else [])]


def _table(headers: str, rows: Sequence[Sequence[object]]) -> list[Part]:
    """The first rows under headers with bars between them, of which those of figures end in #."""
    if not rows:
        return []
    names = headers.split(" | ")
    left = len(rows) - MAX_ROWS
    shown = [list(map(str, row)) for row in rows[:MAX_ROWS]]
    table = TextTable(
        [name.rstrip("#") for name in names], [name.endswith("#") for name in names], shown
    )
    return [
        table,
        *([Paragraph(f"{left} more rows; --format json has all.", "dim")] if left > 0 else []),
    ]


def _maybe(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
