"""The section of the timelines: their tools, their colours, the place that scripts draw them in, a table of events."""

from collections.abc import Sequence

from traceanalyzer.report.format import figure
from traceanalyzer.report.html.data import colour, first_view, timelines_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.standalone import strip
from traceanalyzer.report.html.pictures.svg import drawn
from traceanalyzer.report.timeline.lanes import Category, Timeline
from traceanalyzer.trace import distinct

SCRIPTS = ("timeline_data.js", "timeline_canvas.js", "timeline_perfetto.js", "timeline.js")  # what makes them move
PERFETTO = (
    "Opens ui.perfetto.dev in a window of its own and hands it the events of this timeline, which it reads within the "
    "browser. Nothing else leaves this page."
)
NO_TIMELINE = "The recording holds no events of host or device, so there is no timeline."
KEYS = (
    ("Ctrl and wheel, W, S, + and -", "zoom"),
    ("A, D, left and right, shift and wheel", "move"),
    ("0", "all of it"),
    ("drag", "measures; Z zooms to what is measured, marked or pinned"),
    ("click, or Enter for the longest in view", "pins an event; up, down, comma and full stop go on from it"),
    ("Escape", "lets it go"),
)
"""What keys and pointer do, shown below the timeline."""


def timeline(several: Sequence[Timeline], *, of_ranks: bool) -> Markup:
    """The representative step (of the critical one `of_ranks`), event by event, and what else can be chosen."""
    if not several:
        return tag("p", NO_TIMELINE)
    first = several[0]
    elsewhere = (tag("code", "traceanalyzer open"), " shows the whole recording with these findings in Perfetto.")
    return join(tag("p", f"{_what(first, of_ranks)}.{_ahead(first)} ", *elsewhere), explorer(several))


def explorer(several: Sequence[Timeline]) -> Markup:
    """Timelines to choose from and to explore, with all that their scripts work on."""
    first = several[0]
    return join(
        _tools(several),
        _legend(several),
        tag("figure", _place(first), tag("figcaption", id="timeline-shown")),
        tag("p", id="timeline-status", role="status", class_="quiet"),
        tag("div", id="timeline-pinned", class_="pinned", role="region", aria_label="Pinned event", hidden=True),
        _keys(),
        tag("details", tag("summary", "Longest events in view, as a table"), _events_table()),
        timelines_block(several),
    )


def _what(timeline: Timeline, of_ranks: bool) -> str:
    if timeline.step is None:
        return "Everything recorded: nothing marks a step"
    of_rank = " of the critical rank" if of_ranks else ""
    return f"Step {timeline.step}{of_rank}, the steady step whose time is closest to the median"


def _ahead(timeline: Timeline) -> str:
    """A word about the host's part of the step where it is not in view at first."""
    lead = first_view(timeline)[0] - timeline.extent[0]
    return (
        f" The host began to issue it {figure(lead, 'ns')} before what is in view: 'All of it' shows that."
        if lead
        else ""
    )


def _place(timeline: Timeline) -> Markup:
    """Where it is drawn: titles of the lanes and a canvas on the screen, on paper and without scripts a picture."""
    plot, height = strip(timeline)
    canvas = tag(
        "div", id="timeline-plot", role="application", tabindex=0, aria_describedby="timeline-keys",
        aria_label="Timeline of a step. Enter pins the longest event in view, which is then described.",
    )  # fmt: skip
    still = drawn(plot, height, "The step: GPU work and idle time by cause.")
    return join(
        tag("div", tag("div", id="timeline-lanes"), canvas, id="timeline-area", class_="area"),
        tag("div", still, id="timeline-still"),
    )


def _tools(several: Sequence[Timeline]) -> Markup:
    names = (("in", "Zoom in"), ("out", "Zoom out"), ("earlier", "Earlier"), ("later", "Later"), ("all", "All of it"))
    buttons = [tag("button", name, type="button", data_move=move) for move, name in names]
    find = tag("input", type="search", id="timeline-find", aria_label="Find an event by its name")
    options = [tag("option", one.title or f"timeline {i}", value=i) for i, one in enumerate(several)]
    return tag(
        "p",
        tag("label", "Show ", tag("select", *options, id="timeline-pick")) if len(several) > 1 else None,
        *buttons,
        tag("label", "Find ", find),
        tag("button", "Next", type="button", data_move="next"),
        tag("label", tag("input", type="checkbox", checked=True, id="timeline-path"), " critical path"),
        tag("button", "Open in Perfetto", type="button", id="timeline-perfetto", data_def=PERFETTO),
        class_="tools",
    )


def _legend(several: Sequence[Timeline]) -> Markup:
    used = sorted({code for one in several for code in distinct(one.events.category).tolist()})
    keys = [
        tag(
            "label",
            tag("input", type="checkbox", checked=True, data_category=code, data_colour=colour(Category(code))),
            tag("span", class_="key", style=f"background:var({colour(Category(code))})", aria_hidden="true"),
            tag("span", Category(code).label),
        )
        for code in used
    ]
    return tag("fieldset", tag("legend", "Shown events"), *keys, class_="keys")


def _keys() -> Markup:
    pairs = [tag("div", tag("dt", keys), tag("dd", what)) for keys, what in KEYS]
    return tag("details", tag("summary", "Keys and pointer"), tag("dl", *pairs, class_="hints"), id="timeline-keys")


def _events_table() -> Markup:
    heads = [tag("th", name, scope="col") for name in ("Event", "Where", "What", "Start (ms)", "Length (us)", "Detail")]
    inner = tag("table", tag("caption", "Longest events in view"), tag("thead", tag("tr", *heads)), tag("tbody"))
    return tag("div", inner, id="timeline-table", class_="scroll", role="group", aria_label="Longest events")
