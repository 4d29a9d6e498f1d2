"""What torch.compile cost, as a document: sentences, then tables."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from traceanalyzer.analysis.groups.first_steps import PaidBack
from traceanalyzer.base import MinorNote, counted, digits, plural
from traceanalyzer.diagnosis.compile.judged import CompileAdvice, CompileDiagnosis
from traceanalyzer.replay.compile.model import CacheUse, Compiled, StepsUse
from traceanalyzer.replay.prediction import assumptions
from traceanalyzer.report.brief import first_screen, shown_path, what_to_change
from traceanalyzer.report.compile import compiled_rows
from traceanalyzer.report.compile.strip import STAGE_NAMES, CompileReport, strip_svg
from traceanalyzer.report.document import (
    Document,
    Drawing,
    Item,
    Items,
    Part,
    Row,
    Section,
    Table,
    Verdict,
    part_of_report,
)
from traceanalyzer.report.format import figure
from traceanalyzer.report.printed import Printed
from traceanalyzer.version import __version__

SCHEMA_VERSION = 2
SHOWN_FINDINGS = 4  # of a terminal's one screen
NOTHING = "Nothing found."
NO_FINDING = "No finding."
NO_METRICS = "The log holds no compilation."
MAX_ROWS = 8  # rows of a table in a terminal; the JSON has all


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
    title = f"torch.compile: {diagnosis.headline}"
    summary, *following = compile_sections(report)
    # Figures fill the first screen of a page: its summary says what to change.
    advice = what_to_change(_advice(report.compiled, diagnosis))
    with_advice = replace(summary, parts=[*summary.parts, *advice])
    return Printed(
        Document(title, [summary, *following]),
        values,
        screen=None if full else _screen(report),
        page=Document(title, [with_advice, *following]),
    )


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
    """The report's sections: summary, metrics, findings, what to change, then lists of what was
    recorded."""
    diagnosis = report.diagnosis
    advice = _explained_advice(report.compiled, diagnosis)
    metrics = _metrics(report)
    details = _details(report)
    return [
        Section("Summary", [_verdict(report.compiled, diagnosis)]),
        *(part_of_report("Metrics", metrics) if metrics else [Section("Metrics", [NO_METRICS])]),
        Section("Findings", [Items(_found(diagnosis)) if diagnosis.findings else NO_FINDING]),
        Section("Recommendations", [Items(advice) if advice else NOTHING]),
        *(part_of_report("Details", details) if details else []),
    ]


def compile_figures(report: CompileReport) -> list[Section]:
    """What was measured; sections with nothing to say are left out."""
    return [*_metrics(report), *_details(report)]


def _metrics(report: CompileReport) -> list[Section]:
    """The figures of the log."""
    return _told(
        Section("Compile time", _stages(report)),
        Section("Caches and CUDA graphs", _caches(report.compiled)),
        Section("First step, warm-up and steady step", _steps(report.compiled)),
    )


def _details(report: CompileReport) -> list[Section]:
    """Lists of what was recorded."""
    compiled = report.compiled
    return _told(
        Section("Graph breaks", [_table(compiled_rows.rows_of_breaks(compiled.graph_breaks))]),
        Section("Recompilations", _recompilations(compiled)),
        Section(
            "Compilations", [_table(compiled_rows.rows_of_compilations(compiled.compilations))]
        ),
        Section("In the trace", _trace(compiled)),
        Section("Kernels", [_table(compiled_rows.rows_of_kernels(compiled.kernels))]),
        Section("Not fused", _not_fused(compiled)),
        Section("Ranks and starts", _ranks(compiled)),
        Section("What was read", _log(compiled)),
    )


def _told(*sections: Section) -> list[Section]:
    """The sections that have something to say."""
    return [section for section in sections if any(part is not None for part in section.parts)]


def _found(diagnosis: CompileDiagnosis) -> list[Item]:
    """Findings with what they cost a step, where a trace tells."""
    items = []
    for finding in diagnosis.findings:
        cost = finding.headroom_ms
        of_step = "" if cost is None else f"; {figure(cost, 'ms')} per step"
        items.append(Item(finding.title, details=[f"id: {finding.id}{of_step}"]))
    return items


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


def _explained_advice(compiled: Compiled, diagnosis: CompileDiagnosis) -> list[Item]:
    """The advice with what each rests on."""
    items = []
    for advice in diagnosis.recommendations:
        lines = [(f"{_gain(compiled, advice)}; remedy: {advice.remedy}", "green")]
        points = assumptions(advice.basis) if advice.basis else []
        lines += [("Assumes:", "")] if points else []
        items.append(Item(advice.action, lines, points))
    return items


def _gain(compiled: Compiled, advice: CompileAdvice) -> str:
    """What a step, and a start, take now and after it."""
    gains = []
    if advice.predicted_step_ms is not None:
        gains.append(_gain_of_a_step(compiled.steps.step_ms, advice))
    if advice.predicted_compile_s is not None:
        ends = f"{digits(advice.low_s or 0)} to {digits(advice.high_s or 0)}"
        now = f"{digits(compiled.compile_s)} → " if compiled.compile_s else ""
        gains.append(f"{now}{digits(advice.predicted_compile_s)} s ({ends}) of compilation")
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


def _stages(report: CompileReport) -> list[Part | None]:
    total = report.compiled.compile_s or 0.0
    stages = [
        compiled_rows.ShownStage(STAGE_NAMES[stage], seconds, seconds / total if total else 0.0)
        for stage, seconds in report.compiled.stages_s.items()
        if seconds
    ]
    if not stages:
        return []
    drawn = [] if report.strip is None else [Drawing(partial(strip_svg, report.strip))]
    of_all = [compiled_rows.ShownStage("total", total, 1.0)] if len(stages) > 1 else []
    return [*drawn, _table([*stages, *of_all])]


def _recompilations(compiled: Compiled) -> list[Part | None]:
    since = ", ".join(compiled.runs_eager_since)
    eager = f"Runs eager since the recompile limit was hit: {since}." if since else None
    return [_table(compiled_rows.rows_of_recompilations(compiled.recompile_reasons)), eager]


def _caches(compiled: Compiled) -> list[Part | None]:
    lines: list[Part | None] = []
    cache = compiled.cache
    graphs = compiled.cudagraphs
    if cache is not None and any((cache.hits, cache.misses, cache.bypasses, cache.off)):
        lines.append(_cache_use(cache))
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


def _cache_use(cache: CacheUse) -> str:
    """What was found in the cache of compiled graphs, in a sentence."""
    counts = [
        f"{cache.hits} {plural('hit', cache.hits)}",
        f"{cache.misses} {'miss' if cache.misses == 1 else 'misses'}",
    ]
    if cache.bypasses:
        counts.append(f"{cache.bypasses} not allowed into it")
    if cache.off:
        counts.append(f"{cache.off} compiled with it off")
    saved = f" Hits saved {digits(cache.saved_s)} s." if cache.saved_s else ""
    return f"FX graph cache: {', '.join(counts)}.{saved}"


def _steps(compiled: Compiled) -> list[Part | None]:
    steps = compiled.steps
    parts = compiled_rows.rows_of_first_step(
        steps.first_step, steps.first_step_ms, steps.recorded_step_ms
    )
    return [*_step_times(steps), _table(parts)]


def _step_times(steps: StepsUse) -> list[str]:
    lines = []
    if steps.step_ms is not None:
        lines.append(f"Steady step: {figure(steps.step_ms, 'ms')} without the profiler.")
    if steps.eager_step_ms is not None:
        lines.append(f"Eager step: {figure(steps.eager_step_ms, 'ms')}.")
    if steps.warmup_ms is not None and steps.warmup_excess_ms is not None:
        warmup = steps.warmup_steps or 0
        count = counted(warmup, "step")
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


def _trace(compiled: Compiled) -> list[Part | None]:
    use = compiled.trace
    if use is None:
        return []
    lines: list[Part | None] = list(use.notes)
    if use.compiled_share is not None:
        lines.insert(0, f"Compiled code launches {use.compiled_share:.0%} of the step's GPU time.")
    if use.mapped_share is not None:
        lines.append(
            f"{use.mapped_share:.0%} of the time of inductor's kernels is mapped to source lines."
        )
    return [*lines, _table(compiled_rows.rows_still_eager(use.eager))]


def _not_fused(compiled: Compiled) -> list[Part | None]:
    if compiled.not_fused is None:
        how = (
            "Why kernels were not fused is not in the structured log: set TORCH_LOGS=+fusion and "
            "TORCH_LOGS_OUT=FOLDER/fusion.txt as well, with the FOLDER of TORCH_TRACE."
        )
        return [how] if compiled.kernels and compiled.source != "trace" else []
    return [_table(compiled_rows.rows_not_fused(compiled.not_fused))]


def _ranks(compiled: Compiled) -> list[Part | None]:
    if len(compiled.ranks) < 2:
        return []
    return [*compiled.ranks_differ[:10], _table(compiled_rows.rows_of_ranks(compiled.ranks))]


def _log(compiled: Compiled) -> list[Part]:
    counts = ", ".join(
        f"{number:,} {name.replace('_', ' ')}" for name, number in compiled.log.items() if number
    )
    return [*map(str, compiled.notes), *([f"Log: {counts}."] if compiled.log else [])]


def _table(shown: Sequence[Row]) -> Table | None:
    """The first rows; None without any."""
    if not shown:
        return None
    limit = None if len(shown) <= MAX_ROWS + 1 else MAX_ROWS
    return Table(shown, limit=limit, every_column_in="json")
