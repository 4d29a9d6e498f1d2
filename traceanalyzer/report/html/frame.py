"""What every HTML file has around its content: the head, the places of charts, and what the page
does by itself."""

import json
from functools import cache
from pathlib import Path

from traceanalyzer.base import regex
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.plot import scale_of
from traceanalyzer.report.html.pictures.svg import drawn

ASSETS = Path(__file__).parent / "assets"
SENTENCE = regex(r"(?<=\.) (?=[A-Z])")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)
"""A browser that keeps to it cannot be made to send a request by anything in a recording."""


def framed(title: str, *body: Markup | None, policy: str = POLICY) -> str:
    """A self-contained HTML document."""
    meta = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
    )
    head = tag(
        "head", *meta, tag("title", title), tag("style", asset("colours.css"), asset("page.css"))
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", *body), lang="en")


def chart_place(chart: Chart, remark: str = "") -> Markup:
    """A chart with title, legend and caption; `remark` is for screen readers, after the caption."""
    keys = [
        tag(
            "li",
            tag(
                "span",
                class_=f"key {form}",
                style=f"background:var(--{colour})",
                aria_hidden="true",
            ),
            name,
        )
        for name, colour, form in chart.plot.legend
    ]
    legend = tag("ul", *keys, class_="keys") if keys else None
    picture = drawn(chart.plot, chart.height, f"{chart.title}. {chart.caption}{remark}".strip())
    caption = tag("figcaption", chart.caption) if chart.caption else None
    return tag(
        "figure",
        tag("h3", chart.title),
        legend,
        picture,
        caption,
        id=f"chart-{chart.id}",
        data_zoom=_zoom(chart) if chart.views else None,
    )


def _zoom(chart: Chart) -> str:
    """What `zoom.js` needs of a chart."""
    across = scale_of(chart.plot.x, chart.plot.marks, "x")
    views = [[view.name, view.low, view.high] for view in chart.views]
    ends = [across.low, across.high]
    places = [[at, name] for at, name in chart.places]
    return json.dumps({"ends": ends, "views": views, "places": places})


def heading(answer: str) -> Markup:
    """The heading of a page: the first sentence of its answer, the others below it."""
    first, *others = SENTENCE.split(answer, 1)
    return join(tag("h1", first), *(tag("p", text, class_="headline") for text in others))


def page_scripts(*names: str) -> Markup:
    """The end of a body: the tool tip, and the scripts of these names after the one that every page
    has."""
    return join(
        tag("div", id="tip", role="tooltip", hidden=True),
        *(tag("script", asset(name)) for name in ("page.js", *names)),
    )


@cache
def asset(name: str) -> Markup:
    """A file of the page's own."""
    return Markup((ASSETS / name).read_text(encoding="utf-8"))
