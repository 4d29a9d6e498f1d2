"""The section of the findings: each with its evidence, linked to its place on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.html import places
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.parts import link_to
from traceanalyzer.report.html.tables import plain_table

if TYPE_CHECKING:
    from traceanalyzer.analysis.timeline import Timeline
    from traceanalyzer.report.html.parts import Page
    from traceanalyzer.report.model import Evidence, Finding


def findings(page: Page) -> Markup:
    """Every finding, in the report's order."""
    if not page.report.findings:
        return tag("p", "No finding: the recording supports none.")
    return join(*(_finding(page, i, f) for i, f in enumerate(page.report.findings, 1)))


def _finding(page: Page, position: int, finding: Finding) -> Markup:
    timeline = page.details.timeline
    link = link_to(timeline, lambda t: places.of_finding(t, finding))
    about = join(
        tag("span", finding.severity, class_=f"severity {finding.severity}"),
        f" {finding.cls} · {outline.headroom(page.report, finding)} ",
        tag("span", "· ", link, " on the timeline") if link else None,
    )
    rows = [_evidence(timeline, item) for item in finding.evidence]
    heads, numeric = ["Evidence", "Value", "Where", "Timeline"], [False, True, False, False]
    linked = any(row[3] for row in rows)
    shown = [row if linked else row[:3] for row in rows]
    made = (
        plain_table(f"Evidence: {finding.title}", heads[: 3 + linked], shown, numeric[: 3 + linked]) if rows else None
    )
    return tag(
        "article",
        tag("h3", f"{position}. {finding.title}"),
        tag("p", about),
        tag("details", tag("summary", "Evidence"), made, open=position == 1) if made else None,
        class_="finding",
        id=f"finding-{position}",
    )


def _evidence(timeline: Timeline | None, item: Evidence) -> list[str | None]:
    return [
        item.metric,
        outline.evidence_value(item),
        item.where,
        link_to(timeline, lambda t: places.of_evidence(t, item)),
    ]
