"""The page being written, and what its sections have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traceanalyzer.report import outline
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.html.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.report.html.charts import Chart
    from traceanalyzer.report.html.details import Details
    from traceanalyzer.report.html.places import Place
    from traceanalyzer.report.model import Report


@dataclass
class Page:
    """A page being written: what it is of, how many rows its tables have, the tables met so far."""

    report: Report
    details: Details
    rows: int
    shown: set[str] = field(default_factory=set)

    def chart(self, chart: Chart | None) -> Markup | None:
        """A chart, where there is one."""
        if chart is None:
            return None
        return chart_place(chart, " The figures are in the tables of this page.")

    def table(
        self, name: str, link: Callable[[Any], Markup | None] | None = None, *, folded: bool = False
    ) -> Markup | None:
        """A table of the report."""
        rows = self.report.tables.get(name, [])
        self.shown.add(name)
        if not rows:
            return None
        command = outline.table_command(name)
        title = outline.table_title(name)
        made = table(
            title,
            rows,
            limit=self.rows,
            origin_ns=outline.moments_origin(self.report),
            link=link,
            more=f"; `traceanalyzer {command}` prints all" if command else "",
        )
        return tag("details", tag("summary", f"{title} ({figure(len(rows))})"), made) if folded else made


def link_to(place: Place | None) -> Markup | None:
    """A link to a place on the timeline, None where there is none."""
    return tag("a", "show", href=place.anchor, aria_label="Show it on the timeline") if place else None
