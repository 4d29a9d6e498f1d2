"""The memory report as one HTML file that opens anywhere: the sections of the other forms, and the curve over time,
which zooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer import __version__
from traceanalyzer.report.format import figure as figure_text
from traceanalyzer.report.html.charts import Chart, figure, line, name_of
from traceanalyzer.report.html.frame import chart_place, chart_scripts, framed
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.tables import table
from traceanalyzer.report.memory.document import sections_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.memory.consumers import Consumer
    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.report.memory.document import Section
    from traceanalyzer.report.memory.model import MemoryReport

ROWS = 100
GIGA = 1e9
AROUND = 120
"""Points of the curve on each side of the peak that are in view at first: a few steps."""
SCRIPTS = ("page.js", "charts.js")


def render_html(report: MemoryReport) -> str:
    """The report as a self-contained HTML document."""
    charts = [chart for device in report.memory for chart in _curves(device)]
    sections = sections_of(report)
    links = [tag("a", section.title, href=f"#s{i}") for i, section in enumerate(sections)]
    drawn = [_section(section, i, charts if i == 0 else []) for i, section in enumerate(sections)]
    return framed(
        f"GPU memory: {report.headline}",
        tag("header", tag("nav", *links, aria_label="Sections")),
        tag("main", *drawn),
        tag("footer", f"Made by traceanalyzer {__version__} from files alone."),
        chart_scripts(charts, SCRIPTS),
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


def _curves(device: MemoryOfDevice) -> Iterator[Chart]:
    """Memory over time by category and by line of the program, below what is reserved; the peak marked."""
    if not device.curve:
        return
    seconds = [round(at, 6) for at, _, _ in device.curve]
    reserved = line(seconds, [round(held / GIGA, 6) for _, _, held in device.curve], "reserved")
    reserved["line"] = {"shape": "hv", "color": "--idle-other", "width": 1.5}
    whose = f"the {device.peak_phase} phase" if device.peak_phase else "the peak"
    highest = max(range(len(seconds)), key=lambda i: device.curve[i][1])
    allocated = device.curve[highest][1]
    view = [seconds[max(highest - AROUND, 0)], seconds[min(highest + AROUND, len(seconds) - 1)]]
    text = f"{figure_text(allocated, 'bytes')}: {whose}"
    peak = {"type": "scatter", "mode": "markers+text", "name": "peak", "x": [seconds[highest]],
            "y": [round(allocated / GIGA, 6)], "text": [text], "textposition": "top left",
            "marker": {"size": 9, "symbol": "diamond"}}  # fmt: skip
    for kind, title in (("category", "by category"), ("line", "by line of the program")):
        areas = [_area(seconds, one) for one in device.consumers if one.kind == kind]
        caption = (
            f"GPU {device.device} over {device.events:,} events of the allocator: what is allocated {title}, what is "
            "reserved, and the peak with the phase that sets it. Drag to zoom, double-click to see all."
        )
        yield Chart(
            f"memory-{device.device}-{kind}",
            f"Memory over time {title}",
            caption,
            _zoomed(figure([*areas, reserved, peak], "s since the first event", "GB", dragmode="zoom"), view),
        )


def _zoomed(drawn: dict[str, Any], view: list[float]) -> dict[str, Any]:
    """The figure with this part of its horizontal axis in view at first."""
    if view[0] < view[1]:
        drawn["layout"]["xaxis"]["range"] = view
    return drawn


def _area(seconds: list[float], one: Consumer) -> dict[str, Any]:
    area = line(seconds, [round(size / GIGA, 6) for size in one.bytes], name_of(_label(one)))
    return {**area, "stackgroup": one.kind, "line": {"shape": "hv", "width": 0.5}}


def _label(one: Consumer) -> str:
    return one.name.replace("_", " ") if one.kind == "category" else one.name
