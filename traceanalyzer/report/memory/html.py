"""The memory report as one HTML file that opens anywhere: the sections of the other forms, and the curve over time,
which zooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer import __version__
from traceanalyzer.report.html.charts import Chart, figure, line
from traceanalyzer.report.html.data import charts_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.page import POLICY
from traceanalyzer.report.html.scripts import asset, plotly
from traceanalyzer.report.html.tables import table
from traceanalyzer.report.memory.document import sections_of

if TYPE_CHECKING:
    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.report.memory.document import Section
    from traceanalyzer.report.memory.model import MemoryReport

ROWS = 100
GIGA = 1e9
SCRIPTS = ("page.js", "charts.js")


def render_html(report: MemoryReport) -> str:
    """The report as a self-contained HTML document."""
    charts = [chart for device in report.memory if (chart := _curve(device)) is not None]
    sections = sections_of(report)
    links = [tag("a", section.title, href=f"#s{i}") for i, section in enumerate(sections)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"GPU memory: {report.headline}"),
        tag("style", asset("page.css")),
    )
    drawn = [_section(section, i, charts if i == 0 else []) for i, section in enumerate(sections)]
    body = tag(
        "body",
        tag("header", tag("nav", *links, aria_label="Sections")),
        tag("main", *drawn),
        tag("footer", f"Made by traceanalyzer {__version__} from files alone."),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("noscript", tag("p", "The charts need JavaScript; all figures are in the tables.")),
        charts_block(charts),
        *(tag("script", asset(name)) for name in SCRIPTS),
        tag("script", plotly()),
        tag("script", Markup("drawCharts();")),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en")


def _section(section: Section, number: int, charts: list[Chart]) -> Markup:
    facts = [join(tag("dt", name), tag("dd", value)) for name, value in section.facts]
    items = [
        tag("li", tag("p", tag("strong", title)), tag("ul", *(tag("li", detail) for detail in details)))
        for title, details in section.items
    ]
    return tag(
        "section",
        tag("h2", section.title, id=f"s{number}-title"),
        *(tag("p", text) for text in section.lines),
        tag("dl", *facts) if facts else None,
        *(_figure(chart) for chart in charts),
        tag("ol", *items) if items else None,
        table(section.title, section.rows, limit=ROWS) if section.rows else None,
        id=f"s{number}",
        tabindex=-1,
        aria_labelledby=f"s{number}-title",
    )


def _figure(chart: Chart) -> Markup:
    plot = tag(
        "div", class_="plot", id=f"chart-{chart.id}", data_chart=chart.id, role="img",
        aria_label=f"{chart.title}. {chart.caption}", style=f"height:{chart.height}px",
    )  # fmt: skip
    return tag("figure", tag("h3", chart.title), plot, tag("figcaption", chart.caption))


def _curve(device: MemoryOfDevice) -> Chart | None:
    """Allocated and reserved over time, each point the highest of its stretch."""
    if not device.curve:
        return None
    seconds = [round(at, 6) for at, _, _ in device.curve]
    traces = [
        {**line(seconds, [round(values[column] / GIGA, 6) for values in device.curve], name),
         "line": {"shape": "hv", "color": f"--{colour}", "width": 1.5}}
        for column, name, colour in ((1, "allocated", "compute"), (2, "reserved", "idle-other"))
    ]  # fmt: skip
    caption = f"Memory of GPU {device.device} over the recorded history of {device.events:,} events. Drag to zoom."
    return Chart(
        f"memory-{device.device}",
        "Memory over time",
        caption,
        figure(traces, "s since the first event", "GB", dragmode="zoom"),
    )
