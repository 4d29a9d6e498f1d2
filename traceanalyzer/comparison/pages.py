"""A comparison as a page and as a picture: a waterfall from A's step to B's, and a step of both on one time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.comparison.outline import changes_shown, sections
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place, framed, page_scripts
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.standalone import Panel, standalone
from traceanalyzer.report.html.pictures.waterfall import waterfall
from traceanalyzer.report.html.tables import table
from traceanalyzer.report.html.timeline_section import SCRIPTS, explorer
from traceanalyzer.report.timeline.several import joined
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.comparison.outline import Section
    from traceanalyzer.report.html.pictures.plot import Plot
    from traceanalyzer.report.timeline.lanes import Timeline

ROWS = 100
TITLE = "From A to B"


def render_html(comparison: Comparison, steps: Sequence[Timeline | None] = ()) -> str:
    """The comparison as a self-contained HTML document."""
    parts = sections(comparison)
    timelines = _both(steps)
    names = [*(part.title for part in parts), *(["Timelines"] if timelines else [])]
    links = [tag("a", name, href=f"#s{i}") for i, name in enumerate(names)]
    drawn = [_section(comparison, part, i) for i, part in enumerate(parts)]
    if timelines:
        drawn.append(_timelines(timelines, len(parts)))
    return framed(
        comparison.headline,
        tag("header", tag("nav", *links, aria_label="Sections")),
        tag("main", *drawn),
        tag("footer", f"Made by traceanalyzer {__version__} from files alone."),
        page_scripts(*(SCRIPTS if timelines else ())),
    )


def picture(comparison: Comparison) -> str:
    """The waterfall as an SVG file."""
    return standalone("A compared with B", [comparison.headline], [Panel(TITLE, *_waterfall(comparison))])


def _section(comparison: Comparison, section: Section, number: int) -> Markup:
    first = number == 0
    lines = [tag("p", line, class_="headline" if first and not i else None) for i, line in enumerate(section.lines)]
    chart = chart_place(_chart(comparison)) if first else None
    rows = table(section.title, section.rows, limit=ROWS) if section.rows else None
    title = tag("h1" if first else "h2", section.title, id=f"s{number}-title")
    body = join(*lines, chart, rows)
    if section.folded:
        body = tag("details", tag("summary", "What it is made of"), body)
    return tag("section", title, body, id=f"s{number}", tabindex=-1, aria_labelledby=f"s{number}-title")


def _chart(comparison: Comparison) -> Chart:
    plot, height = _waterfall(comparison)
    caption = "Each bar begins where the one above it ends: the parts sum to the whole difference of the mean steps."
    return Chart("waterfall", TITLE, caption, plot, height)


def _waterfall(comparison: Comparison) -> tuple[Plot, int]:
    shown = changes_shown(comparison)
    rest = comparison.step.difference_ms - sum(change.difference_ms for change in shown)
    parts = [(change.title, change.difference_ms) for change in shown]
    left = len(comparison.changes) - len(shown)
    if left:
        parts.append((f"the rest ({left} smaller or unchanged)", rest))
    a, b = comparison.a, comparison.b
    return waterfall((f"A: {a.name}", comparison.step.a_ms), parts, (f"B: {b.name}", comparison.step.b_ms))


def _both(steps: Sequence[Timeline | None]) -> list[Timeline]:
    """The steps below each other, each from its own start; none where neither was recorded."""
    known = [(name, step, 0) for name, step in zip(("A: ", "B: "), steps, strict=False) if step is not None]
    return [joined(known, "A and B")] if known else []


def _timelines(timelines: Sequence[Timeline], number: int) -> Markup:
    words = "A step of each, the one whose time is closest to the median, both from their starts."
    title = tag("h2", "Timelines", id="timeline-title")
    inner = tag("div", title, tag("p", words), explorer(timelines), id="timeline")
    return tag("section", inner, id=f"s{number}", tabindex=-1, aria_labelledby="timeline-title")
