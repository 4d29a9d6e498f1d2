"""What every HTML file has around its content: the head, the places of charts, and what fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.html.data import charts_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.scripts import asset, plotly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.html.charts import Chart

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""A browser that keeps to it cannot be made to send a request by anything in a recording."""


def framed(title: str, *body: Markup, policy: str = POLICY) -> str:
    """A self-contained HTML document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", asset("page.css")),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", *body), lang="en")


def chart_place(chart: Chart, remark: str = "") -> Markup:
    """The place of a chart, filled by the scripts; readers of the screen are told `remark` after its caption."""
    plot = tag(
        "div", class_="plot", id=f"chart-{chart.id}", data_chart=chart.id, role="img",
        aria_label=f"{chart.title}. {chart.caption}{remark}", style=f"height:{chart.height}px",
    )  # fmt: skip
    return tag("figure", tag("h3", chart.title), plot, tag("figcaption", chart.caption))


def chart_scripts(charts: Sequence[Chart], scripts: Sequence[str]) -> Markup:
    """The end of a body with charts: the tool tip, the charts' data, and what draws them."""
    return join(
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("noscript", tag("p", "The charts need JavaScript; all figures are in the tables.")),
        charts_block(charts),
        *(tag("script", asset(name)) for name in scripts),
        tag("script", plotly()),
        tag("script", Markup("drawCharts();")),
    )
