"""The report as Markdown for a GitHub issue: the answer first, long tables folded, never too long to post."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.format import figure, number, scale_for, scaled
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.markdown_text import cell, grid_table, prose, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from traceanalyzer.report.model import Finding, Report

GITHUB_LIMIT = 65_536
"""Characters of an issue or a comment."""
ROOM = 4_096
"""Left for the words of the person who posts it."""
MARKER_LENGTH = 60
"""Room for the line that says how many rows were left out."""
OPEN_ROWS = 8
"""Of the tables at the top, those up to this long stay open; all others are folded."""


@dataclass
class Block:
    """A stretch of the document. `rows` may be dropped from the bottom; the other lines stay."""

    before: list[str]
    rows: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    noun: str = "rows"
    left_out: int = 0

    def text(self) -> str:
        """Its lines, with a word about the rows left out."""
        marker = ["", f"*{figure(self.left_out)} more {self.noun} left out.*"] if self.left_out else []
        return "\n".join([*self.before, *self.rows, *marker, *self.after, ""])


def render_markdown(report: Report) -> str:
    """The report as GitHub Markdown of at most 65,536 characters; rows of the longest tables go first."""
    blocks = [
        *_summary(report),
        *_metrics(report),
        *_findings(report),
        *_recommendations(report),
        *_health(report),
        *_definitions(report),
    ]
    _fit(blocks, GITHUB_LIMIT - ROOM)
    return "\n".join(block.text() for block in blocks)


def _fit(blocks: list[Block], limit: int) -> None:
    """Drop rows, always from the bottom of the block whose rows are longest together, until all fits."""
    lengths = [sum(len(row) + 1 for row in block.rows) for block in blocks]
    total = sum(len(block.text()) + 1 + MARKER_LENGTH for block in blocks)
    while total > limit and max(lengths) > 0:
        longest = lengths.index(max(lengths))
        dropped = len(blocks[longest].rows.pop()) + 1
        blocks[longest].left_out += 1
        lengths[longest] -= dropped
        total -= dropped


def _summary(report: Report) -> Iterator[Block]:
    lines = [
        "## Summary",
        "",
        f"**Bottleneck: {outline.verdict(report)}.** {prose(report.summary.headline)}",
        "",
        f"- **Step time:** {outline.step_sentence(report)}",
    ]
    if report.findings:
        top = report.findings[0]
        lines.append(f"- **Top finding:** {prose(top.title)} ({outline.headroom(report, top)})")
    if report.recommendations:
        first = report.recommendations[0]
        lines.append(f"- **Do first:** {prose(first.action)} ({outline.prediction(report, first)})")
    damaged = sum(outline.is_damaged(i) for i in report.inputs)
    if damaged:
        lines.append(f"- **Damaged:** {figure(damaged)} of {figure(len(report.inputs))} recordings, see below")
    yield Block([*lines, f"- **Recording:** {prose(outline.recording(report))}", "", *_budget(report)])


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
    total = f"| **{whole}** | **{number(scaled(outline.step_ms(report) or 0.0, scale))}** | **100%** |"
    return [*head, *rows, total]


def _metrics(report: Report) -> Iterator[Block]:
    yield Block(["## Metrics"])
    if report.metrics.step_time_ms is not None:
        yield _table("Step time", [report.metrics.step_time_ms], report, folded=False)
    yield _facts("Figures of a step", outline.step_figures(report), folded=False)
    if report.devices:
        devices = "Devices, over the whole recording"
        yield _table(devices, report.devices, report, folded=len(report.devices) > OPEN_ROWS)
    for title, facts in outline.step_groups(report):
        yield _facts(title, facts, folded=True)
    for name, rows in report.tables.items():
        if rows:
            yield _table(outline.table_title(name), rows, report, folded=True)


def _facts(title: str, facts: list[outline.Fact], *, folded: bool) -> Block:
    head, rows = table(["Metric", "Value"], [False, True], [(fact.label, fact.value) for fact in facts])
    return _titled(title, head, rows, [], folded)


def _table(title: str, rows: Sequence[Any], report: Report, *, folded: bool) -> Block:
    grid = make_grid(rows, outline.moments_origin(report))
    head, lines = grid_table(grid)
    remarks = [line for remark in grid.remarks for line in ("", prose(remark))]
    return _titled(title, head, lines, remarks, folded)


def _titled(title: str, head: list[str], rows: list[str], after: list[str], folded: bool) -> Block:
    if not folded:
        return Block([f"### {title}", "", *head], rows, after)
    count = f" ({figure(len(rows))} rows)" if len(rows) > 1 else ""
    summary = f"<details><summary><b>{title}</b>{count}</summary>"
    return Block([summary, "", *head], rows, [*after, "", "</details>"])


def _findings(report: Report) -> Iterator[Block]:
    before = ["## Findings", ""]
    if not report.findings:
        before.append("No finding: the recording supports none.")
    yield Block(before, [_finding(report, i, f) for i, f in enumerate(report.findings, 1)], noun="findings")


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
    before = ["## Recommendations", ""]
    if not report.recommendations:
        before.append("No recommendation: it needs a finding with evidence for its cause.")
    titles = {f.id: f.title for f in report.findings}
    rows = []
    for position, advice in enumerate(report.recommendations, 1):
        against = f" Against: {prose(titles[advice.id])}." if advice.id in titles else ""
        gain = f"   {outline.prediction(report, advice)}. Estimated as: {prose(advice.basis)}.{against}"
        rows.append(f"{position}. **{prose(advice.action)}**\n{gain}")
    yield Block(before, rows, noun="recommendations")


def _health(report: Report) -> Iterator[Block]:
    inputs = [(i.path, i.kind, "-" if i.rank is None else str(i.rank), outline.damage(i)) for i in report.inputs]
    head, rows = table(["Recording", "Kind", "Rank", "What was read"], [False, False, True, False], inputs)
    yield Block(["## Recording health", "", *(head if rows else ["No recording was read."])], rows, noun="recordings")
    notes = [*report.notes, *(note for i in report.inputs for note in i.health.notes)]
    if notes:
        yield Block([], [f"- {prose(note)}" for note in dict.fromkeys(notes)], noun="notes")


def _definitions(report: Report) -> Iterator[Block]:
    yield Block(["## Definitions"])
    for title, defined in [*outline.definition_groups(report), *outline.table_definition_groups(report)]:
        lines = [f"- **{cell(name)}**: {prose(definition)}" for name, definition in defined]
        yield Block([f"<details><summary><b>{title}</b></summary>", ""], lines, ["", "</details>"])
    tool = report.tool
    yield Block([f"*Made by {tool.name} {tool.version} from files alone.*"])
