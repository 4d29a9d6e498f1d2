"""The sections of the page, in order: each is made of what the report has, and left out where it has nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.metric import definitions
from traceanalyzer.analysis.step_timeline import Category
from traceanalyzer.report import outline
from traceanalyzer.report.format import figure, label
from traceanalyzer.report.html import figures, places
from traceanalyzer.report.html.data import colour, timeline_block
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.tables import definition_list, facts, plain_table, table
from traceanalyzer.report.model import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.step_timeline import Timeline
    from traceanalyzer.report.html.details import Details
    from traceanalyzer.report.html.figures import Chart
    from traceanalyzer.report.model import Evidence, Finding, Report

MAX_NOTES = 100
NO_TIMELINE = "The recording holds no events of host or device, so there is no timeline."


@dataclass
class Page:
    """A page being written: what it is of, how many rows its tables have, and the charts met so far."""

    report: Report
    details: Details
    rows: int
    charts: list[Chart] = dataclasses.field(default_factory=list)

    def chart(self, chart: Chart | None) -> Markup | None:
        """The place of a chart, filled by the page's scripts."""
        if chart is None:
            return None
        self.charts.append(chart)
        plot = tag(
            "div", class_="plot", id=f"chart-{chart.id}", data_chart=chart.id, role="img",
            aria_label=f"{chart.title}. {chart.caption} The figures are in the table of this section.",
            style=f"height:{chart.height}px",
        )  # fmt: skip
        return tag("figure", tag("h3", chart.title), plot, tag("figcaption", chart.caption))

    def table(
        self, name: str, link: Callable[[Any], Markup | None] | None = None, *, folded: bool = False
    ) -> Markup | None:
        """A table of the report."""
        rows = self.report.tables.get(name, [])
        if not rows:
            return None
        command = outline.TABLE_COMMANDS.get(name)
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


def _step(page: Page) -> Markup | None:
    metrics = page.report.metrics
    time = metrics.step_time_ms
    shown = _figures(time) if time is not None else []
    single = [f for f in definitions(Metrics) if f.name not in NESTED]
    shown += [
        (label(d.name, d.unit), figure(getattr(metrics, d.name), d.unit), d.definition)
        for d in single
        if getattr(metrics, d.name) is not None
    ]
    groups = [
        tag("details", tag("summary", outline.STEP_GROUPS[name]), facts(_figures(getattr(metrics, name))))
        for name in outline.STEP_GROUPS
        if name not in ELSEWHERE and getattr(metrics, name) is not None
    ]
    return join(
        page.chart(figures.step_budget(page.report)),
        facts(shown),
        *groups,
        *(page.table(name, folded=True) for name in ("steps", "critical_path", "phases")),
    )


ELSEWHERE = ("communication", "roofline")
"""Groups of figures that have a section of their own."""
NESTED = ("step_time_ms", "budget_ms", "idle_ms", *outline.STEP_GROUPS)


def _figures(value: Any) -> list[tuple[str, str, str]]:
    """Name, value and definition of each figure of a measurement."""
    return [
        (label(d.name, d.unit), figure(getattr(value, d.name), d.unit), d.definition) for d in definitions(type(value))
    ]


def _idle(page: Page) -> Markup | None:
    report = page.report

    def link(row: Any) -> Markup | None:
        return _link(page.details.timeline, lambda t: places.of_moment(t, row.start_ns, row.duration_ns))

    charts = [page.chart(figures.idle_causes(report)), page.chart(figures.gap_lengths(report))]
    return join(
        tag("div", *charts, class_="pair") if any(charts) else None,
        page.table("gap_histogram", folded=True),
        page.table("gaps", link, folded=True),
        page.table("syncs"),
    )


def _timeline(page: Page) -> Markup | None:
    timeline = page.details.timeline
    if timeline is None:
        return tag("p", NO_TIMELINE)
    what = "Everything recorded: no steps were found" if timeline.step is None else (
        f"Step {timeline.step}, the steady step whose time is closest to the median"
    )  # fmt: skip
    block = timeline_block(timeline)
    return join(
        tag(
            "p",
            f"{what}. Drag to zoom, double-click for all of it; with the timeline in focus, the arrow keys move and "
            "+ and - zoom.",
        ),
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
        block,
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


def _link(timeline: Timeline | None, find: Callable[[Timeline], places.Place | None]) -> Markup | None:
    place = find(timeline) if timeline is not None else None
    return tag("a", "show", href=place.anchor) if place else None


def _findings(page: Page) -> Markup | None:
    if not page.report.findings:
        return tag("p", "No finding: the recording supports none.")
    return join(*(_finding(page, i, f) for i, f in enumerate(page.report.findings, 1)))


def _finding(page: Page, position: int, finding: Finding) -> Markup:
    timeline = page.details.timeline
    link = _link(timeline, lambda t: places.of_finding(t, finding))
    about = join(
        tag("span", finding.severity, class_=f"severity {finding.severity}"),
        f" {finding.cls} · {outline.headroom(page.report, finding)} ",
        tag("span", "· ", link, " on the timeline") if link else None,
    )
    rows = [_evidence(timeline, item) for item in finding.evidence]
    heads, numeric = ["Evidence", "Value", "Where", "Timeline"], [False, True, False, False]
    linked = any(row[3] for row in rows)
    shown = [row if linked else row[:3] for row in rows]
    made = (
        plain_table(f"Evidence: {finding.title}", heads[: 3 + linked], shown, numeric[: 3 + linked]) if rows else None
    )
    return tag(
        "article",
        tag("h3", f"{position}. {finding.title}"),
        tag("p", about),
        tag("details", tag("summary", "Evidence"), made, open=position == 1) if made else None,
        class_="finding",
        id=f"finding-{position}",
    )


def _evidence(timeline: Timeline | None, item: Evidence) -> list[str | None]:
    return [
        item.metric,
        outline.evidence_value(item),
        item.where,
        _link(timeline, lambda t: places.of_evidence(t, item)),
    ]


def _work(page: Page) -> Markup | None:
    if not any(page.report.tables.get(name) for name in ("kernel_classes", "kernels", "ops", "copies")):
        return None
    return join(
        page.chart(figures.kernel_classes(page.report)),
        page.table("kernel_classes", folded=True),
        page.table("kernels"),
        page.table("ops"),
        page.table("copies", folded=True),
    )


def _roofline(page: Page) -> Markup | None:
    step = page.report.metrics.roofline
    chart = page.chart(figures.roofline(page.report, page.details))
    if step is None and chart is None:
        return None
    missing = (
        None if chart else tag("p", "No kernel has both its operations and its traffic known, or the GPU is not known.")
    )
    return join(chart, missing, facts(_figures(step)) if step is not None else None)


def _communication(page: Page) -> Markup | None:
    total = page.report.metrics.communication
    if not page.report.tables.get("collectives") and not (total is not None and total.total_ms):
        return None
    return join(
        facts(_figures(total)) if total is not None else None,
        page.chart(figures.communication(page.report)),
        page.table("collectives"),
        page.table("skew", folded=True),
    )


def _memory(page: Page) -> Markup | None:
    chart = page.chart(figures.memory(page.details))
    if chart is None:
        return None
    peaks = [
        ("host" if t.device < 0 else f"GPU {t.device}", figure(t.peak, "bytes"), figure(int(t.reserved.max()), "bytes"))
        for t in page.details.memory
    ]
    rows = plain_table("Peak memory", ["Device", "Most allocated", "Most reserved"], peaks, [False, True, True])
    return join(chart, rows)


def _ranks(page: Page) -> Markup | None:
    if not page.report.tables.get("ranks"):
        return None
    return join(page.chart(figures.ranks(page.report)), page.table("ranks"))


def _recording(page: Page) -> Markup | None:
    report = page.report
    inputs = [
        (i.path, i.kind, "-" if i.rank is None else str(i.rank), ", ".join(d.name or f"GPU {d.id}" for d in i.devices),
         outline.damage(i))
        for i in report.inputs[: page.rows]
    ]  # fmt: skip
    heads = ["Recording", "Kind", "Rank", "GPUs", "What was read"]
    notes = list(dict.fromkeys([*report.notes, *(note for i in report.inputs for note in i.health.notes)]))
    left = len(notes) - MAX_NOTES
    known = {"tables", "conditions"}
    other = [n for n in report.tables if n not in SHOWN and n not in known and report.tables[n]]
    return join(
        plain_table("Recordings", heads, inputs, [False, False, True, False, False]),
        tag("ul", *(tag("li", note) for note in notes[:MAX_NOTES])) if notes else None,
        tag("p", f"{left} more notes left out.") if left > 0 else None,
        page.table("conditions"),
        table("Devices, over the whole recording", report.devices, limit=page.rows) if report.devices else None,
        *(page.table(name, folded=True) for name in other),
    )


SHOWN = (
    "steps", "critical_path", "phases", "gap_histogram", "gaps", "syncs", "kernel_classes", "kernels", "ops", "copies",
    "collectives", "skew", "ranks",
)  # fmt: skip
"""Tables that a section has asked for; those of later versions follow with the recording."""


def _definitions(page: Page) -> Markup | None:
    groups = [*outline.definition_groups(page.report), *outline.table_definition_groups(page.report)]
    return join(*(tag("details", tag("summary", title), definition_list(pairs)) for title, pairs in groups if pairs))


SECTIONS: tuple[tuple[str, str, Callable[[Page], Markup | None]], ...] = (
    ("findings", "Findings", _findings),
    ("step", "Where the time goes", _step),
    ("idle-time", "Idle time", _idle),
    ("timeline", "Timeline", _timeline),
    ("work", "GPU work", _work),
    ("rooflines", "Roofline", _roofline),
    ("communication", "Communication", _communication),
    ("memory", "Memory", _memory),
    ("ranks", "Ranks", _ranks),
    ("recording", "The recording", _recording),
    ("definitions", "Definitions", _definitions),
)
"""Id, title and content of the sections after the first screen."""
