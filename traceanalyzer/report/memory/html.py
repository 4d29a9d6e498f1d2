"""The memory report as one HTML file that opens anywhere: the sections of the other forms, and the curve over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer import __version__
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place, framed, page_scripts
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.plot import Axis, Lines, Plot
from traceanalyzer.report.html.tables import table
from traceanalyzer.report.memory.document import sections_of

if TYPE_CHECKING:
    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.report.memory.document import Section
    from traceanalyzer.report.memory.model import MemoryReport

ROWS = 100
GIGA = 1e9


def render_html(report: MemoryReport) -> str:
    """The report as a self-contained HTML document."""
    charts = [chart for device in report.memory if (chart := _curve(device)) is not None]
    sections = sections_of(report)
    links = [tag("a", section.title, href=f"#s{i}") for i, section in enumerate(sections)]
    drawn = [_section(section, i, charts if i == 0 else []) for i, section in enumerate(sections)]
    return framed(
        f"GPU memory: {report.headline}",
        tag("header", tag("nav", *links, aria_label="Sections")),
        tag("main", *drawn),
        tag("footer", f"Made by traceanalyzer {__version__} from files alone."),
        page_scripts(),
    )


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
        *(chart_place(chart) for chart in charts),
        tag("ol", *items) if items else None,
        table(section.title, section.rows, limit=ROWS) if section.rows else None,
        id=f"s{number}",
        tabindex=-1,
        aria_labelledby=f"s{number}-title",
    )


def _curve(device: MemoryOfDevice) -> Chart | None:
    """Allocated and reserved over time, each point the highest of its stretch."""
    if not device.curve:
        return None
    seconds = [at for at, _, _ in device.curve]
    lines = [
        Lines(name, colour, seconds, [values[column] / GIGA for values in device.curve], steps=True)
        for column, name, colour in ((1, "allocated", "compute"), (2, "reserved", "idle-other"))
    ]
    caption = f"Memory of GPU {device.device} over the recorded history of {device.events:,} events."
    plot = Plot(lines, Axis("s since the first event"), Axis("GB"))
    return Chart(f"memory-{device.device}", "Memory over time", caption, plot)
