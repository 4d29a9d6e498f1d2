"""The whole report for a terminal: the first screen, then everything else, tables cut to their first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.report import outline
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.quoted import TITLE, quoted
from traceanalyzer.report.terminal.drawing import DEFAULT_WIDTH, INDENT, Page
from traceanalyzer.report.terminal.screen import render_screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.model import Finding, Recommendation, Report

TABLE_ROWS = 5
"""Rows of a table within the report; the table's own command prints all."""
ONE_BY_ONE = ("steps", "gaps")
"""Lists of single events, whose first rows say little; they have commands."""
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "low": "", "info": "dim"}


def render_terminal(report: Report, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
    """The report as text `width` columns wide. Definitions are in `explain`."""
    page = Page(width, colour)
    _findings(page, report)
    _recommendations(page, report)
    _metrics(page, report)
    _health(page, report)
    return render_screen(report, width, colour, next_step=False) + page.text()


def _metrics(page: Page, report: Report) -> None:
    page.heading("Metrics")
    if report.metrics.step_time_ms is not None:
        _table(page, "Step time", [outline.shown_step_time(report.metrics.step_time_ms)], report)
    key = [(TITLE, quoted(report))] if quoted(report) else []
    groups = [*key, ("Figures of a step", outline.step_figures(report)), *outline.step_groups(report)]
    for title, facts in groups:
        page.title(title)
        page.facts([(fact.label, fact.value) for fact in facts])
    _table(page, "Devices, over the whole recording", report.devices, report)
    for name, rows in report.tables.items():
        if name not in ONE_BY_ONE:
            _table(page, outline.table_title(name), rows, report, outline.table_command(name))


def _table(page: Page, title: str, rows: Sequence[Any], report: Report, command: str | None = None) -> None:
    if not rows:
        return
    page.title(title)
    page.grid(make_grid(rows, outline.moments_origin(report)).head(TABLE_ROWS))
    if len(rows) > TABLE_ROWS:
        where = f"traceanalyzer {command} prints all" if command else "--format json has all"
        page.line(f"First {TABLE_ROWS} of {len(rows):,} rows; {where}.", "dim", INDENT)


def _findings(page: Page, report: Report) -> None:
    page.heading("Findings")
    if not report.findings:
        page.line("No finding: the recording supports none.")
    for position, finding in enumerate(report.findings, 1):
        _finding(page, report, position, finding)
    if report.findings:
        page.line(outline.EXPLAINED.format(report.findings[0].id), "dim")


def _finding(page: Page, report: Report, position: int, finding: Finding) -> None:
    page.item(f"{position}.", finding.title, "bold")
    about = f"{finding.severity} · {finding.cls} · {finding.id} · {outline.headroom(report, finding)}"
    page.line(about, SEVERITY_STYLES.get(finding.severity, ""), INDENT + 1)
    for item in finding.evidence:
        where = f", {item.where}" if item.where else ""
        page.item("-", f"{item.metric}: {outline.evidence_value(item)}{where}", indent=INDENT + 1)
    page.line("")


def _recommendations(page: Page, report: Report) -> None:
    page.heading("Recommendations")
    if not report.recommendations:
        page.line(outline.no_advice(report))
    for position, advice in enumerate(report.recommendations, 1):
        _advice(page, report, position, advice)
    without_gain = outline.without_gain(report)
    if without_gain:
        page.line(without_gain, "dim")


def _advice(page: Page, report: Report, position: int, advice: Recommendation) -> None:
    page.item(f"{position}.", advice.action, "bold")
    page.line(outline.prediction(report, advice), "green", INDENT + 1)
    page.line(f"Estimated as: {advice.basis}", indent=INDENT + 1)
    page.line("")


def _health(page: Page, report: Report) -> None:
    page.heading("Recording health")
    for item in report.inputs:
        rank = "" if item.rank is None else f", rank {item.rank}"
        page.line(
            f"{item.path} ({item.kind}{rank}): {outline.damage(item)}", "yellow" if outline.is_damaged(item) else ""
        )
    for note in dict.fromkeys([*report.notes, *(note for i in report.inputs for note in i.health.notes)]):
        page.item("-", note)
