"""The report as Markdown for a GitHub issue: the answer first, long tables folded, never too long to post."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.format import figure, number, scale_for, scaled
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.markdown.escape import cell, grid_table, prose, table
from traceanalyzer.report.markdown.fit import Block, Weight, fitted
from traceanalyzer.report.markdown.mermaid import step_time_chart, table_chart, text_bar
from traceanalyzer.report.quoted import TITLE, brief, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from traceanalyzer.report.model import Finding, Report

BRIEF = 8_000
"""Characters that a reader of an issue will look through; `--max-chars` for more."""
GITHUB_LIMIT = 65_536
"""Characters of an issue or a comment."""
ROOM = 4_096
"""Left for the words of the person who posts it."""
LEAST_ADVICE = 10
"""Findings and recommendations that stay as long as whole tables can go instead."""
OPEN_ROWS = 8
"""Of the tables at the top, those up to this long stay open; all others are folded."""


def render_markdown(report: Report, max_chars: int = BRIEF) -> str:
    """The report as GitHub Markdown of at most `max_chars` characters (4,000 or more: the answer always stays).

    Rows of the longest tables go first, then whole sections from the least important on, and it says so.
    """
    blocks = [
        *_summary(report),
        *_findings(report),
        *_recommendations(report),
        *_metrics(report),
        *_health(report),
        Block([f"*Made by {report.tool.name} {report.tool.version} from files alone.*"]),
    ]
    return fitted(blocks, max_chars)


def _summary(report: Report) -> Iterator[Block]:
    yield Block(["## Summary", "", f"**Bottleneck: {outline.verdict(report)}.** {prose(report.summary.headline)}"])
    lines = [f"- **Culprit:** {prose(report.summary.culprit)}"] if report.summary.culprit else []
    lines.append(f"- **Step time:** {outline.step_sentence(report)}")
    if known := brief(report):
        lines.append(f"- **Throughput and utilisation:** {known}")
    if report.findings:
        top = report.findings[0]
        lines.append(f"- **Top finding:** {prose(top.title)} ({outline.headroom(report, top)})")
    if report.recommendations:
        first = report.recommendations[0]
        lines.append(f"- **Do first:** {prose(first.action)} ({outline.prediction(report, first)})")
    damaged = sum(outline.is_damaged(i) for i in report.inputs)
    if damaged:
        lines.append(f"- **Damaged:** {figure(damaged)} of {figure(len(report.inputs))} recordings, see below")
    lines.append(f"- **Recording:** {prose(outline.recording(report))}")
    yield Block(lines, title="What to do first", weight=Weight.ADVICE)
    yield Block(_budget(report), title="Budget", weight=Weight.ADVICE)


def _budget(report: Report) -> list[str]:
    parts = outline.budget(report)
    if not parts:
        return ["No GPU work was measured, so there is no budget of the time."]
    scale = scale_for(outline.step_ms(report) or 0.0, "ms")
    whole = outline.whole(report)
    head, rows = table(
        [f"Where the {whole} goes", f"Time ({scale.label})", f"Share of {whole}"],
        [False, True, True],
        [
            (f"idle: {p.label}" if p.within else p.label, number(scaled(p.ms, scale)), figure(p.share, "share"))
            for p in parts
        ],
    )
    drawn = [f"{row} {text_bar(part.share)} |" for row, part in zip(rows, parts, strict=True)]
    total = f"| **{whole}** | **{number(scaled(outline.step_ms(report) or 0.0, scale))}** | **100%** | |"
    return [f"{head[0]} |", f"{head[1]} --- |", *drawn, total]


def _metrics(report: Report) -> Iterator[Block]:
    yield Block(["## Metrics"])
    if key := quoted(report):
        yield _facts(TITLE, key, Weight.ADVICE)
    if report.metrics.step_time_ms is not None:
        yield _table("Step time", [outline.shown_step_time(report.metrics.step_time_ms)], report, Weight.FIGURES)
        chart = step_time_chart(report.tables.get("steps", []))
        if chart:
            yield Block(chart, title="Chart of the step times", weight=Weight.CHART)
    yield _facts("Figures of a step", outline.step_figures(report), Weight.FIGURES)
    if report.devices:
        devices = "Devices, over the whole recording"
        yield _table(devices, report.devices, report, Weight.FIGURES, folded=len(report.devices) > OPEN_ROWS)
    for title, facts in outline.step_groups(report):
        yield _facts(title, facts, Weight.GROUP, folded=True)
    for name, rows in report.tables.items():
        if rows:
            title, chart = outline.table_title(name), table_chart(name, rows)
            yield _table(title, rows, report, Weight.TABLE, chart, folded=True)


def _facts(title: str, facts: list[outline.Fact], weight: Weight, *, folded: bool = False) -> Block:
    head, rows = table(["Metric", "Value"], [False, True], [(fact.label, fact.value) for fact in facts])
    return _titled(Block(head, rows, title=title, weight=weight, least_rows=len(rows)), folded)


def _table(
    title: str, rows: Sequence[Any], report: Report, weight: Weight, chart: Sequence[str] = (), *, folded: bool = False
) -> Block:
    grid = make_grid(rows, outline.moments_origin(report))
    head, lines = grid_table(grid)
    remarks = [line for remark in grid.remarks for line in ("", prose(remark))]
    drawn = [*chart, ""] if chart else []
    return _titled(Block([*drawn, *head], lines, remarks, title=title, weight=weight), folded)


def _titled(block: Block, folded: bool) -> Block:
    if not folded:
        return replace(block, before=[f"### {block.title}", "", *block.before])
    count = f" ({figure(len(block.rows))} rows)" if len(block.rows) > 1 else ""
    summary = f"<details><summary><b>{block.title}</b>{count}</summary>"
    return replace(block, before=[summary, "", *block.before], after=[*block.after, "", "</details>"])


def _findings(report: Report) -> Iterator[Block]:
    yield Block(["## Findings"])
    if not report.findings:
        yield Block(["No finding: the recording supports none."])
    else:
        yield _advice("Findings", [_finding(report, i, f) for i, f in enumerate(report.findings, 1)])


def _advice(title: str, rows: list[str]) -> Block:
    return Block([], rows, noun=title.lower(), title=title, weight=Weight.ADVICE, least_rows=LEAST_ADVICE)


def _finding(report: Report, position: int, finding: Finding) -> str:
    lines = [
        f"### {position}. {prose(finding.title)}",
        "",
        f"{finding.severity} · {finding.cls} · {cell(finding.id)} · {outline.headroom(report, finding)}",
    ]
    if finding.evidence:
        rows = [(e.metric, outline.evidence_value(e), e.where) for e in finding.evidence]
        head, cells = table(["Evidence", "Value", "Where"], [False, True, False], rows)
        lines += ["", *head, *cells]
    return "\n".join([*lines, ""])


def _recommendations(report: Report) -> Iterator[Block]:
    yield Block(["## Recommendations"])
    titles = {f.id: f.title for f in report.findings}
    rows = []
    for position, advice in enumerate(report.recommendations, 1):
        against = f" Against: {prose(titles[advice.id])}." if advice.id in titles else ""
        gain = f"   {outline.prediction(report, advice)}. Estimated as: {prose(advice.basis)}.{against}"
        rows.append(f"{position}. **{prose(advice.action)}**\n{gain}")
    if not rows:
        yield Block([outline.no_advice(report)])
    else:
        yield _advice("Recommendations", rows)
    without_gain = outline.without_gain(report)
    if without_gain:
        yield Block([prose(without_gain)])


def _health(report: Report) -> Iterator[Block]:
    inputs = [(i.path, i.kind, "-" if i.rank is None else str(i.rank), outline.damage(i)) for i in report.inputs]
    head, rows = table(["Recording", "Kind", "Rank", "What was read"], [False, False, True, False], inputs)
    before = ["## Recording health", "", *(head if rows else ["No recording was read."])]
    yield Block(before, rows, noun="recordings", title="Recording health", weight=Weight.HEALTH)
    notes = [*report.notes, *(note for i in report.inputs for note in i.health.notes)]
    if notes:
        lines = [f"- {prose(note)}" for note in dict.fromkeys(notes)]
        yield Block([], lines, noun="notes", title="Notes", weight=Weight.HEALTH)
