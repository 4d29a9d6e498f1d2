"""The section of the findings: each with its evidence, linked to its place on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.html import places
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.finding_page import explained
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.parts import link_to
from traceanalyzer.report.html.pictures.summary import predictions
from traceanalyzer.report.html.tables import plain_table, term

if TYPE_CHECKING:
    from traceanalyzer.report.html.parts import Page
    from traceanalyzer.report.model import Finding, Report
    from traceanalyzer.report.timeline.lanes import Timeline

GLOSSARY = dict(outline.GLOSSARY)
ELSEWHERE = (
    ("straggler", "ranks", "the ranks side by side"),
    ("condition-", "recording", "about the recording"),
    ("profiler-cost", "recording", "about the recording"),
)
"""Findings, by how their ids begin, that are about more than a step, and the sections that show them."""


def findings(page: Page) -> Markup:
    """Every finding, in the report's order."""
    if not page.report.findings:
        return tag("p", "No finding: the recording supports none.")
    found = [_finding(page, i, f) for i, f in enumerate(page.report.findings, 1)]
    return join(page.chart(_predictions(page.report)), *found)


def _predictions(report: Report) -> Chart | None:
    """The ladder from today's step down to what the GPU could do."""
    made = predictions(report)
    if made is None:
        return None
    caption = (
        "The step after each recommended change alone, and its 90 % range; gains of several do not add up "
        "(traceanalyzer whatif predicts combinations)."
    )
    return Chart("ladder", "What each change alone would bring", caption, *made)


def _finding(page: Page, position: int, finding: Finding) -> Markup:
    timeline = page.details.timeline
    link = link_to(places.of_finding(timeline, finding))
    about = join(
        tag("span", finding.severity, class_=f"severity {finding.severity}"),
        f" · {finding.cls} · ",
        term(finding.id, outline.EXPLAINED.format(finding.id)),
        " · ",
        term("headroom", GLOSSARY["headroom"]),
        outline.headroom(page.report, finding).removeprefix("headroom") + " ",
        tag("span", "· ", link, " on the timeline") if link else _elsewhere(finding),
    )
    return tag(
        "article",
        tag("h3", f"{position}. {finding.title}"),
        tag("p", about),
        tag("details", tag("summary", "Evidence"), _evidence(timeline, finding), open=position == 1, class_="evidence"),
        explained(finding.id),
        class_="finding",
        id=f"finding-{position}",
    )


def _elsewhere(finding: Finding) -> Markup | None:
    """Where to look for what is not on one rank's timeline."""
    for id_, section, words in ELSEWHERE:
        if finding.id.startswith(id_):
            return tag("span", "· ", tag("a", words, href=f"#{section}"))
    return None


def _evidence(timeline: Timeline | None, finding: Finding) -> Markup:
    """What supports the finding, as a table; a column of links where there are any."""
    links = [link_to(places.of_evidence(timeline, item)) for item in finding.evidence]
    columns = 4 if any(links) else 3
    rows = [
        (item.metric, outline.evidence_value(item), item.where, link)[:columns]
        for item, link in zip(finding.evidence, links, strict=True)
    ]
    heads, numeric = ("Evidence", "Value", "Where", "Timeline"), (False, True, False, False)
    return plain_table(f"Evidence: {finding.title}", heads[:columns], rows, numeric[:columns])
