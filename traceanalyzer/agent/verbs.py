"""The questions on recordings that an agent can ask. Each answer is JSON of at most `MOST_TOKENS` tokens."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.agent.answer import (
    NAMES_ARE_DATA,
    fitted_answer,
    one_line,
    rounded_figure,
    sourced_figure,
)
from traceanalyzer.agent.claims import StatedChange, judged_claim
from traceanalyzer.agent.jobs import other_answer
from traceanalyzer.agent.sources import Sources, unknowns
from traceanalyzer.agent.told import REPLAYED, advice_of, finding_of, quoted_sentence
from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, definitions
from traceanalyzer.base.figures import Definition
from traceanalyzer.comparison.compare import compare_reports, step_comparison
from traceanalyzer.comparison.limits import Limit, check_limits
from traceanalyzer.comparison.model import Difference
from traceanalyzer.comparison.servers.loads import compared_servers
from traceanalyzer.comparison.verdicts import Checked
from traceanalyzer.diagnosis.pages import finding_page, finding_pages
from traceanalyzer.diagnosis.remedies.advice import predictions
from traceanalyzer.diagnosis.unmade import unmade
from traceanalyzer.replay.unmade.answer import Unmade
from traceanalyzer.replay.unmade.sweep import paying, questions_of
from traceanalyzer.report.explain import explained
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown, gains, opening
from traceanalyzer.report.table_entries import (
    TABLES,
    largest_first,
    table_named,
)
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.trace import Run

SHOWN_FINDINGS = 6
SHOWN_CHANGES = 8
SHOWN_ROWS = 15
SETTINGS = ("batch", "length", "precision", "gpu", "ranks")
"""What a run that was never made may have different."""
RECORDED = "mean of the recorded steady-state steps"
PARTITION = (
    "union of intervals on the GPU; the parts sum to the step, `idle: CAUSE` are parts of idle"
)


def diagnose(
    sources: Sources,
    path: str,
    rank: int | None = None,
    step: int | None = None,
) -> str:
    """Where the step's time goes, why, and what to change. path: a recording (Kineto
    .json/.json.gz, Nsight Systems .sqlite, a log of step times) or a capture folder; rank and step
    narrow it. Also a log of a pipeline's operations, days of steps, digests of ranks, a folder of
    Flight Recorder dumps."""
    try:
        recording, report = sources.analyzed(path, rank, step)
    except UnreadableInputError:
        answer = other_answer(sources, path)
        if answer is None:
            raise
        return answer
    parts = {p.name: rounded_figure(p.ms) for p in breakdown.budget(report) if p.ms}
    return fitted_answer(
        bottleneck=report.summary.bottleneck,
        confidence=rounded_figure(report.summary.confidence),
        headline=quoted_sentence(report.summary.headline),
        step=_steps(report),
        budget={"parts": parts, "unit": _unit(report), "how": PARTITION},
        findings=[
            finding_of(f, gains.gain_of_advice_ms(report, f))
            for f in report.findings[:SHOWN_FINDINGS]
        ],
        changes=[advice_of(r) for r in report.recommendations[:SHOWN_FINDINGS]],
        caveats=[quoted_sentence(text) for text in opening.caveats(report)[:3]],
        cannot_be_known=[u.question for u in unknowns(report, recording.critical)],
        names=NAMES_ARE_DATA,
        next="evidence(path, finding) for the figures behind one; whatif(path); limits(path)",
    )


def explain(name: str = "") -> str:
    """What a finding (by its id), a metric or a column means; without a name: all findings."""
    if not name:
        return fitted_answer(
            findings=[{"id": page.id, "title": page.title} for page in finding_pages().values()]
        )
    page = finding_page(name)
    if page is not None:
        return fitted_answer(id=page.id, title=page.title, text=page.text)
    found = explained(name)
    if not found:
        raise TraceAnalyzerError(
            f"there is no finding, metric or column {name!r}; explain() lists the findings"
        )
    return fitted_answer(name=name, meanings=[dataclasses.asdict(entry) for entry in found])


def table(
    sources: Sources,
    path: str,
    name: str,
    top: int = SHOWN_ROWS,
    sort: str = "",
    columns: list[str] | None = None,
) -> str:
    """Rows of a table: {names}. sort: largest in this column first; columns: only these."""
    try:
        entry = table_named(name)
    except ValueError as error:
        raise TraceAnalyzerError(str(error)) from error
    fields = {
        RENAMED.get(d.name, d.name): d for d in definitions(entry.row) if d.name != "full_name"
    }
    columns = list(fields) if columns is None else columns
    asked = [*columns, sort] if sort else columns
    unknown = [column for column in asked if column not in fields]
    if unknown:
        raise TraceAnalyzerError(
            f"{name} has no column {unknown[0]!r}; columns: {', '.join(fields)}"
        )
    recording = sources.analyzed(path).measured
    top = max(top, 1)
    every = entry.rows(recording, recording.critical, RowFilter(None if sort else top))
    rows = (largest_first(every, fields[sort].name) if sort else every)[:top]
    known = _known_columns(rows, {name: fields[name] for name in fields if name in columns})
    return fitted_answer(
        table=entry.name,
        columns=[
            {"name": column, "unit": fields[column].unit, "how": fields[column].definition}
            for column in known
        ],
        rows=list(zip(*known.values(), strict=True)),
        rows_in_all=len(every) if sort else None,
        none=None if rows else entry.none,
        names=NAMES_ARE_DATA,
    )


def _known_columns(rows: Sequence[Any], fields: Mapping[str, Definition]) -> dict[str, list[Any]]:
    """The columns that have a value in any row."""
    columns = {
        name: [_value(getattr(row, definition.name)) for row in rows]
        for name, definition in fields.items()
    }
    return {name: values for name, values in columns.items() if values.count(None) < len(rows)}


table.__doc__ = str(table.__doc__).format(names=", ".join(one.asked_as for one in TABLES))


def evidence(sources: Sources, path: str, finding: str) -> str:
    """The figures behind a finding that diagnose named, and the changes against it."""
    report = sources.analyzed(path).report
    chosen = next((f for f in report.findings if f.id == finding), None)
    if chosen is None:
        known = ", ".join(f.id for f in report.findings) or "none"
        raise TraceAnalyzerError(f"this recording has no finding {finding!r}; findings: {known}")
    return fitted_answer(
        **finding_of(chosen, gains.gain_of_advice_ms(report, chosen)),
        evidence=[
            {
                "what": e.metric,
                "value": _value(e.value),
                "unit": e.unit,
                "where": one_line(e.where),
            }
            | {"threshold": e.threshold}
            for e in chosen.evidence
        ],
        changes=[advice_of(r) for r in report.recommendations if chosen.id in r.id],
        how=f"measured in the recording; explain({chosen.id!r}) says how the finding is decided",
        names=NAMES_ARE_DATA,
    )


def whatif(
    sources: Sources,
    path: str,
    speedups: dict[str, float] | None = None,
    settings: dict[str, str] | None = None,
) -> str:
    """Predicted step time under each scenario, by replay. speedups: {regular expression of kernels,
    operators or modules: factor}. settings: of a run that was never made, {"batch": "2x,64",
    "length": "8192", "precision": "bf16", "gpu": "H200", "ranks": "8"}; commas are a sweep."""
    recording = sources.analyzed(path).measured
    if settings:
        return _at_settings(recording.run, settings)
    result = predictions(recording.run, speedups=list((speedups or {}).items()))
    known = [s for s in result.scenarios if s.step_ms is not None]
    return fitted_answer(
        base=sourced_figure(
            result.unprofiled_step_ms,
            "ms per step",
            f"without the profiler; {REPLAYED}, or measured",
        ),
        fidelity=sourced_figure(
            result.fidelity_error, "share", "replay of the unchanged recording over it, less 1"
        ),
        scenarios=[
            {
                "id": one_line(s.id),
                "kind": s.kind,
                "step_ms": rounded_figure(s.step_ms),
                "low_ms": rounded_figure(s.low_ms),
                "high_ms": rounded_figure(s.high_ms),
                "speedup": rounded_figure(s.speedup),
                "how": quoted_sentence(s.basis),
            }
            for s in known
        ],
        cannot_be_known=[
            {"id": one_line(one.id), "because": quoted_sentence(one.basis)}
            for one in result.scenarios
            if one.step_ms is None
        ],
        names=NAMES_ARE_DATA,
    )


def _at_settings(run: Run, settings: dict[str, str]) -> str:
    unknown = settings.keys() - set(SETTINGS)
    if unknown:
        named = ", ".join(SETTINGS)
        raise TraceAnalyzerError(f"there is no setting {min(unknown)!r}; settings: {named}")
    try:
        questions = questions_of(**{name: str(value) for name, value in settings.items()})  # type: ignore[arg-type]
    except ValueError as error:
        raise TraceAnalyzerError(str(error)) from error
    rows = unmade(run, questions)
    return fitted_answer(
        base=sourced_figure(
            rows[0].now_ms, "ms per step", f"without the profiler; {REPLAYED}, or measured"
        ),
        settings=[_setting(row) for row in rows],
        pays=paying(rows),
        how=list(dict.fromkeys(quoted_sentence(text) for row in rows for text in row.basis)),
    )


def _setting(row: Unmade) -> dict[str, Any]:
    figures = (
        "step_ms",
        "low_ms",
        "high_ms",
        "samples_per_s",
        "tokens_per_s",
        "peak_bytes",
        "mfu",
        "gpu_limit_from",
    )
    known = {name: getattr(row, name) for name in figures}
    told = {name: rounded_figure(value) for name, value in known.items() if value is not None}
    return {"setting": row.setting, **told, "fits": row.fits, "bottleneck": row.bottleneck}


def compare(sources: Sources, a: str, b: str) -> str:
    """What changed from recording a to b, part by part, and whether it is more than noise; also
    saved reports and stored runs (runs.db#latest), two memory snapshots, two logs of
    torch.compile."""
    other = sources.other_kinds(a, b)
    if other is None:
        servers = compared_servers(sources.report(a), sources.report(b), (a, b))
        other = servers.values if servers is not None else None
    if other is not None:
        figures = other["figures"]
        rows = [{"name": row.figure, "a": row.a, "b": row.b} for row in figures]
        return fitted_answer(
            headline=quoted_sentence(other["headline"]), figures=rows, names=NAMES_ARE_DATA
        )
    comparison = compare_reports(sources.report(a), sources.report(b), (a, b))
    changes = comparison.judged.changes[:SHOWN_CHANGES]
    parts = [{"name": one_line(c.title), **_difference(c)} for c in changes]
    return fitted_answer(
        headline=quoted_sentence(comparison.headline),
        verdict=comparison.verdict,
        step=_difference(comparison.judged.step),
        predicted=_promise(comparison.predicted),
        parts=parts,
        how="means over steady-state steps; the parts sum to the difference; interval: 95 %, Welch over batches "
        "of steps; significant: outside the interval of noise and over 2 %",
        not_like_for_like=[c.name for c in comparison.conditions if c.incomparable],
        cannot_be_known=comparison.notes,
        names=NAMES_ARE_DATA,
    )


def _promise(predicted: Any) -> dict[str, Any] | None:
    """What A's report promised of the change that B has, and what the stopwatch read."""
    if predicted is None:
        return None
    promised = sourced_figure(predicted.step_ms, "ms per step", f"A's report: {REPLAYED}")
    stopwatch = "stopwatch without the profiler, in B"
    return {
        "id": predicted.id,
        "remedy": predicted.remedy,
        "predicted": promised,
        "measured": sourced_figure(predicted.measured_ms, "ms per step", stopwatch),
    }


def verify(
    sources: Sources,
    path: str,
    at_most: dict[str, str] | None = None,
    at_least: dict[str, str] | None = None,
    baseline: str = "",
    claim: str = "",
    stopwatch_before: str = "",
    stopwatch_after: str = "",
) -> str:
    """Whether figures keep limits: {"summary.idle_share": "10%"}, or {"summary.step_ms": "+3%"}
    against a baseline recording; names are those of the report's JSON. Or whether a claim about a
    change holds, does not, or cannot be told: path is the recording after it, baseline the one
    before, claim the step after it ("0.68 to 1.05 ms"), a speedup ("1.3x"), "faster" or "no
    change"; logs of step times may be the stopwatches of both."""
    if claim:
        return _verified_claim(
            sources, claim, stopwatch_before or baseline, stopwatch_after or path
        )
    if not at_most and not at_least:
        raise TraceAnalyzerError(
            "nothing to verify: give at_most or at_least, such as {'summary.idle_share': '10%'}"
        )
    base = sources.report(baseline) if baseline else None
    report = sources.report(path)
    try:
        limits = [
            *(Limit.of(name, "max", text) for name, text in (at_most or {}).items()),
            *(Limit.of(name, "min", text) for name, text in (at_least or {}).items()),
        ]
        comparison = step_comparison(base, report, (baseline, path)) if base else None
        verdicts = check_limits(limits, report, base, comparison)
    except ValueError as error:
        raise TraceAnalyzerError(str(error)) from error
    checked = Checked.of(path, report, verdicts, comparison)
    return fitted_answer(
        **checked.values(),
        how="figures of the report; a change against the baseline must exceed noise",
    )


def _verified_claim(sources: Sources, claim: str, before: str, after: str) -> str:
    """Whether a claim about the change between two recordings, or logs, holds."""
    if not before:
        raise TraceAnalyzerError(
            "a claim is about a change: give the recording before it as baseline"
        )
    base = sources.report(before)
    report = sources.report(after)
    try:
        comparison = compare_reports(base, report, (before, after))
        judgement = judged_claim(StatedChange.of(claim), comparison)
    except ValueError as error:
        raise TraceAnalyzerError(str(error)) from error
    stopwatch = "stopwatch without the profiler"
    return fitted_answer(
        verdict=judgement.verdict,
        why=quoted_sentence(judgement.why),
        before=sourced_figure(judgement.before_ms, "ms per step", stopwatch),
        after=sourced_figure(judgement.after_ms, "ms per step", stopwatch),
        names=NAMES_ARE_DATA,
    )


def recordings(sources: Sources, folder: str = "") -> str:
    """Recordings, captures and saved reports that may be asked about, newest first: paths to give
    to the other verbs. folder: only those below it."""
    found = sources.recordings(folder)
    return fitted_answer(recordings=found, names=NAMES_ARE_DATA)


def limits(sources: Sources, path: str) -> str:
    """What the recording cannot tell and which recording would, and what spoils its figures."""
    recording, report = sources.analyzed(path)
    unknown = [one._asdict() for one in unknowns(report, recording.critical)]
    spoils = [quoted_sentence(text) for text in opening.caveats(report)]
    return fitted_answer(
        cannot_be_known=unknown, spoils=spoils, left_out=gains.without_advice(report)
    )


def _steps(report: Report) -> dict[str, Any]:
    metrics = report.metrics
    time = report.metrics.step_time_ms
    marked = f"{RECORDED}, {time.count} of them" if time else "cannot be known: no steps were found"
    steps = (
        marked
        if step_times.figure_unit(report) == "step"
        else "the whole recording: nothing marks a step"
    )
    return {
        "recorded": sourced_figure(time.mean if time else None, _unit(report), steps),
        "without_profiler": sourced_figure(
            metrics.unprofiled_step_time_ms, _unit(report), _basis(metrics.unprofiled_source)
        ),
    }


def _basis(unprofiled_source: str | None) -> str:
    """How the step without the profiler is known."""
    if unprofiled_source == "measured":
        return "stopwatch, without the profiler"
    if unprofiled_source == "estimated":
        return REPLAYED
    return (
        "cannot be known: record with collect torch, which times steps without the profiler first"
    )


def _unit(report: Report) -> str:
    return "ms per step" if step_times.figure_unit(report) == "step" else "ms in the recording"


def _difference(value: Difference) -> dict[str, Any]:
    interval = (
        None
        if value.low_ms is None
        else [rounded_figure(value.low_ms), rounded_figure(value.high_ms)]
    )
    times = {
        name: rounded_figure(getattr(value, name)) for name in ("a_ms", "b_ms", "difference_ms")
    }
    return {**times, "interval_ms": interval, "significant": value.significant}


def _value(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) else rounded_figure(value)
