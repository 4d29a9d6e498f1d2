"""The section of the timelines: their tools, their colours, the place that scripts draw them in, a
table of events."""

from collections.abc import Sequence

from traceanalyzer.report.format import figure
from traceanalyzer.report.html.data import first_view, timelines_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.colours import of_category
from traceanalyzer.report.html.pictures.standalone import strip
from traceanalyzer.report.html.pictures.svg import drawn
from traceanalyzer.report.timeline.lanes import Category, Timeline
from traceanalyzer.trace import distinct

SCRIPTS = (
    "timeline_data.js",
    "timeline_canvas.js",
    "timeline_perfetto.js",
    "timeline.js",
)  # what makes them move
PERFETTO = (
    "Opens ui.perfetto.dev in a window of its own and hands it the events of this timeline, which it reads within the "
    "browser. Nothing else leaves this page."
)
KEYS = (
    ("Ctrl and wheel, W, S, + and -", "zoom"),
    ("A, D, left and right, shift and wheel", "move"),
    ("0", "all of it"),
    ("drag", "measures; Z zooms to what is measured, marked or pinned"),
    (
        "click, or Enter for the longest in view",
        "pins an event; up, down, comma and full stop go on from it",
    ),
    ("Escape", "lets it go"),
)
"""What keys and pointer do, shown below the timeline."""


def timeline(several: Sequence[Timeline], *, of_ranks: bool) -> Markup:
    """The representative step (of the critical one `of_ranks`), event by event, and what else can
    be chosen."""
    if not several:
        return tag("p", "The recording holds no events of host or device, so there is no timeline.")
    what = "Everything recorded: nothing marks a step"
    of_rank = " of the critical rank" if of_ranks else ""
    step = several[0].step
    if step is not None:
        what = f"Step {step}{of_rank}, the steady step whose time is closest to the median"
    # The host's part of the step may not be in view at first.
    lead = first_view(several[0])[0] - several[0].extent[0]
    ahead = (
        f" The host began to issue it {figure(lead, 'ns')} before what is in view: 'All of "
        "it' shows that."
    )
    elsewhere = (
        tag("code", "traceanalyzer export --open"),
        " shows the whole recording with these findings in Perfetto.",
    )
    return join(tag("p", f"{what}.{ahead if lead else ''} ", *elsewhere), explorer(several))


def explorer(several: Sequence[Timeline]) -> Markup:
    """Timelines to choose from and to explore, with all that their scripts work on."""
    pairs = [tag("div", tag("dt", keys), tag("dd", what)) for keys, what in KEYS]
    hints = tag("dl", *pairs, class_="hints")
    heads = [
        tag("th", name, scope="col")
        for name in ("Event", "Where", "What", "Start (ms)", "Length (us)", "Detail")
    ]
    events = tag(
        "table",
        tag("caption", "Longest events in view"),
        tag("thead", tag("tr", *heads)),
        tag("tbody"),
    )
    longest = tag(
        "div",
        events,
        id="timeline-table",
        class_="scroll",
        role="group",
        tabindex=0,  # it scrolls where the page is narrow
        aria_label="Longest events",
    )
    return join(
        _tools(several),
        _legend(several),
        tag("figure", _place(several[0]), tag("figcaption", id="timeline-shown")),
        tag("p", id="timeline-status", role="status", class_="quiet"),
        tag(
            "div",
            id="timeline-pinned",
            class_="pinned",
            role="region",
            aria_label="Pinned event",
            hidden=True,
        ),
        tag("details", tag("summary", "Keys and pointer"), hints, id="timeline-keys"),
        tag("details", tag("summary", "Longest events in view, as a table"), longest),
        timelines_block(several),
    )


def _place(timeline: Timeline) -> Markup:
    """Where it is drawn: titles of the lanes and a canvas on the screen, on paper and without
    scripts a picture."""
    plot, height = strip(timeline)
    canvas = tag(
        "div",
        id="timeline-plot",
        role="application",
        tabindex=0,
        aria_describedby="timeline-keys",
        aria_label=(
            "Timeline of a step. Enter pins the longest event in view, which is then described."
        ),
    )
    still = drawn(plot, height, "The step: GPU work and idle time by cause.")
    return join(
        tag("div", tag("div", id="timeline-lanes"), canvas, id="timeline-area", class_="area"),
        tag("div", still, id="timeline-still"),
    )


def _tools(several: Sequence[Timeline]) -> Markup:
    names = (
        ("in", "Zoom in"),
        ("out", "Zoom out"),
        ("earlier", "Earlier"),
        ("later", "Later"),
        ("all", "All of it"),
    )
    buttons = [tag("button", name, type="button", data_move=move) for move, name in names]
    find = tag("input", type="search", id="timeline-find", aria_label="Find an event by its name")
    options = [
        tag("option", one.title or f"timeline {i}", value=i) for i, one in enumerate(several)
    ]
    return tag(
        "p",
        tag("label", "Show ", tag("select", *options, id="timeline-pick"))
        if len(several) > 1
        else None,
        *buttons,
        tag("label", "Find ", find),
        tag("button", "Next", type="button", data_move="next"),
        tag(
            "label",
            tag("input", type="checkbox", checked=True, id="timeline-path"),
            " critical path",
        ),
        tag("button", "Open in Perfetto", type="button", id="timeline-perfetto", data_def=PERFETTO),
        class_="tools",
    )


def _legend(several: Sequence[Timeline]) -> Markup:
    used = sorted({code for one in several for code in distinct(one.events.category).tolist()})
    keys = []
    for code in used:
        colour = f"--{of_category(Category(code))}"
        box = tag("input", type="checkbox", checked=True, data_category=code, data_colour=colour)
        key = tag("span", class_="key", style=f"background:var({colour})", aria_hidden="true")
        keys.append(tag("label", box, key, tag("span", Category(code).label)))
    return tag("fieldset", tag("legend", "Shown events"), *keys, class_="keys")
