"""The section of the timeline: its tools, its colours, its place, and its events as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.report.format import figure
from traceanalyzer.report.html.data import colour, first_view, timeline_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.timeline.lanes import Category

if TYPE_CHECKING:
    from traceanalyzer.report.html.parts import Page
    from traceanalyzer.report.timeline.lanes import Timeline

HELP = "Drag to zoom, double-click for all of it; with the timeline in focus, the arrow keys move and + and - zoom."
NO_TIMELINE = "The recording holds no events of host or device, so there is no timeline."


def timeline(page: Page) -> Markup:
    """The representative step, event by event."""
    timeline = page.details.timeline
    if timeline is None:
        return tag("p", NO_TIMELINE)
    of_rank = " of the critical rank" if page.report.tables.get("ranks") else ""
    what = f"Step {timeline.step}{of_rank}, the steady step whose time is closest to the median"
    if timeline.step is None:
        what = "Everything recorded: no steps were found"
    return join(
        tag("p", f"{what}.{_ahead(timeline)} {HELP}"),
        _tools(),
        _legend(timeline),
        tag(
            "figure",
            tag(
                "div",
                class_="plot",
                id="timeline-plot",
                data_chart="timeline",
                role="application",
                tabindex=0,
                aria_label="Timeline of one step. The table below lists the longest events in view.",
            ),
            tag("figcaption", _count(timeline), id="timeline-shown"),
        ),
        tag("p", id="timeline-status", role="status", class_="quiet"),
        tag("details", tag("summary", "Longest events in view, as a table"), _events_table()),
        timeline_block(timeline),
    )


def _ahead(timeline: Timeline) -> str:
    """A word about the host's part of the step where it is not in view at first."""
    lead = first_view(timeline)[0] - timeline.extent[0]
    return (
        f" The host began to issue it {figure(lead, 'ns')} before what is in view: 'All of it' shows that."
        if lead
        else ""
    )


def _tools() -> Markup:
    names = (("in", "Zoom in"), ("out", "Zoom out"), ("earlier", "Earlier"), ("later", "Later"), ("all", "All of it"))
    buttons = [tag("button", name, type="button", data_move=move) for move, name in names]
    find = tag("input", type="search", id="timeline-find", aria_label="Find an event by its name")
    return tag(
        "p",
        *buttons,
        tag("label", "Find ", find),
        tag("button", "Next", type="button", data_move="next"),
        class_="tools",
    )


def _legend(timeline: Timeline) -> Markup:
    """The colours, each with a box that hides its events."""
    keys = [
        tag(
            "label",
            tag("input", type="checkbox", checked=True, data_category=code),
            tag("span", class_="key", style=f"background:var({colour(Category(code))})", aria_hidden="true"),
            Category(code).label,
        )
        for code in np.unique(timeline.events.category).tolist()
    ]
    return tag("fieldset", tag("legend", "Shown events"), *keys, class_="keys")


def _events_table() -> Markup:
    heads = [tag("th", name, scope="col") for name in ("Event", "Where", "What", "Start (ms)", "Length (us)", "Detail")]
    inner = tag("table", tag("caption", "Longest events in view"), tag("thead", tag("tr", *heads)), tag("tbody"))
    return tag(
        "div", inner, id="timeline-table", class_="scroll", role="region", aria_label="Longest events", tabindex=0
    )


def _count(timeline: Timeline) -> str:
    parts = [
        f"{figure(s.shown)} of {figure(s.total)} {s.what}" if s.shown < s.total else f"all {figure(s.total)} {s.what}"
        for s in timeline.shown
    ]
    cut = any(s.shown < s.total for s in timeline.shown)
    left = "; the shortest are left out" if cut else ""
    return f"Shown: {', '.join(parts)}{left}. What is shorter than a pixel is drawn a pixel wide until you zoom in."
