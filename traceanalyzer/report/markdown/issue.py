"""The report as Markdown for a GitHub issue: the answer first, long tables folded, never too long
to post."""

from traceanalyzer.report import whole
from traceanalyzer.report.brief import SHOWN_CHANGES, brief
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Part,
    Section,
    TextTable,
    Weight,
)
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.format import Scale, figure, number, scale_for, scaled
from traceanalyzer.report.markdown import render
from traceanalyzer.report.markdown.escape import markdown_table, prose
from traceanalyzer.report.markdown.mermaid import step_time_chart, table_chart, text_bar
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown, gains, opening
from traceanalyzer.report.parts.in_brief import brief_sections, how_to_reproduce
from traceanalyzer.report.whole import known_in_brief, memory_sentence

BRIEF = 8_000  # characters that a reader of an issue will look through; `--max-chars` for more
GITHUB_LIMIT = 65_536  # characters of an issue or a comment
ROOM = 4_096  # left for the words of the person who posts it


LOAD = ("serving",)  # the table that stands among the metrics


def render_markdown(report: Report, max_chars: int = BRIEF, *, in_brief: bool | None = None) -> str:
    """The report as GitHub Markdown of at most `max_chars` characters (4,000 or more: the answer
    always stays), as `render.render_markdown` has it: summary, metrics, findings,
    recommendations. `in_brief`: with the first evidence alone; by default where there is little
    room."""
    made_by = f"*Made by {report.tool.name} {report.tool.version} from files alone.*"
    is_of_server = opening.companion(report) == opening.SERVING
    bottleneck = f"**{_label(report)}.** {prose(report.summary.headline)}"
    brief_report = max_chars <= BRIEF if in_brief is None else in_brief
    sections = [
        Section("Summary", [Drawing(markdown=[bottleneck])]),
        _untitled("What to do first", Drawing(markdown=_points(report))),
        Section("Metrics"),
        *([] if is_of_server else [_untitled("Budget", Drawing(markdown=_budget(report)))]),
        *whole.tables_with_rows(report, LOAD),
        *whole.key_figure_facts(report),
        *brief_sections(report),
        *([] if brief_report else whole.step_time_facts(report)),
        *_advice(report, in_brief=brief_report),
        *how_to_reproduce(report),
        *_health(report),
        *_details(report),
        Section("", [Drawing(markdown=[made_by])]),
    ]
    return render.document_markdown(Document("", sections), max_chars)


def _label(report: Report) -> str:
    """The verdict, and what it is on."""
    verdict = opening.verdict(report)
    return verdict.capitalize() if verdict == opening.SERVING else f"Bottleneck: {verdict}"


def _untitled(title: str, part: Part, weight: Weight = Weight.ADVICE) -> Section:
    return Section(title, [part], untitled=True, weight=weight)


def _points(report: Report) -> list[str]:
    lines = [f"- **Culprit:** {prose(report.summary.culprit)}"] if report.summary.culprit else []
    if opening.companion(report) != opening.SERVING:
        lines.append(f"- **Step time:** {opening.step_sentence(report)}")
    known = known_in_brief(report)
    if known:
        lines.append(f"- **Throughput and utilisation:** {known}")
    used = memory_sentence(report)
    if used:
        name, _, figures = used.partition(": ")
        lines.append(f"- **{name}:** {prose(figures)}")
    damaged = sum(map(opening.is_damaged, report.inputs))
    if damaged:
        lines.append(
            f"- **Damaged:** {figure(damaged)} of {figure(len(report.inputs))} "
            "recordings, see below"
        )
    lines.append(f"- **Recording:** {prose(opening.recording(report))}")
    return [*lines, *_first_changes(report)]


def _first_changes(report: Report) -> list[str]:
    """The advice of the first screen, each in a line with what it gains."""
    shown = gains.on_first_screen(report)[:SHOWN_CHANGES]
    if not shown:
        return []
    lines = ["", f"{gains.changes_title(shown, len(report.recommendations))}:"]
    for position, advice in enumerate(shown, 1):
        gain = gains.prediction_and_effort(report, advice)
        lines.append(f"{position}. {gain}: **{prose(brief(advice.action))}**")
    return lines


def _budget(report: Report) -> list[str]:
    parts = [part for part in breakdown.budget(report) if part.ms > 0]
    step_ms = step_times.step_ms(report) or 0.0
    unit = step_times.figure_unit(report)
    if not parts:
        parts = breakdown.cpu_phases(report)
        step_ms = step_times.recorded_ms(report) or 0.0
        unit = f"recorded {unit}"
    if not parts:
        return ["No GPU work was measured, so there is no budget of the time."]
    scale = scale_for(step_ms, "ms")
    head, rows = markdown_table(
        [f"Where the {unit} goes", f"Time ({scale.label})", f"Share of {unit}"],
        [False, True, True],
        [_part_row(part, scale) for part in parts],
    )
    drawn = [f"{row} {text_bar(part.share)} |" for row, part in zip(rows, parts, strict=True)]
    total = f"| **{unit}** | **{number(scaled(step_ms, scale))}** | **100%** | |"
    return [f"{head[0]} |", f"{head[1]} --- |", *drawn, total]


def _part_row(part: breakdown.BudgetShare, scale: Scale) -> tuple[str, str, str]:
    return part.name, number(scaled(part.ms, scale)), figure(part.share, "share")


def _advice(report: Report, *, in_brief: bool) -> list[Section]:
    found = [Section("Findings")]
    advice = [Section("Recommendations")]
    if report.findings:
        findings = whole.brief_findings(report) if in_brief else whole.findings(report)
        found.append(_untitled("Findings", findings))
    else:
        found.append(_untitled("Findings", whole.NO_FINDING, Weight.ANSWER))
    if report.recommendations:
        shown = whole.recommendations(report, against=True, assumed=not in_brief)
        advice.append(_untitled("Recommendations", shown))
    else:
        advice.append(_untitled("Recommendations", gains.no_advice(report), Weight.ANSWER))
    skipped = gains.without_advice(report)
    if skipped:
        advice.append(_untitled("Recommendations", skipped, Weight.ANSWER))
    return [*found, *advice]


def _details(report: Report) -> list[Section]:
    chart = (
        step_time_chart(report.tables.get("steps", []))
        if report.metrics.step_time_ms is not None
        else []
    )
    return [
        Section("Details"),
        *(
            [_untitled("Chart of the step times", Drawing(markdown=chart), Weight.CHART)]
            if chart
            else []
        ),
        whole.figures_of_step(report),
        *whole.devices_overall(report),
        *whole.groups_of_figures(report),
        *whole.tables_with_rows(report, without=LOAD, chart=table_chart),
    ]


def _health(report: Report) -> list[Section]:
    inputs = [row[:-1] for row in opening.files(report)]
    heads = ("Recording", "Kind", "Rank", "What was read"), (False, False, True, False)
    read = TextTable(*heads, inputs, noun="recordings") if inputs else whole.NO_RECORDING
    notes = opening.all_notes(report)
    return [
        Section("Recording health", [read], weight=Weight.HEALTH),
        *([_untitled("Notes", Bullets(notes), Weight.HEALTH)] if notes else []),
    ]
