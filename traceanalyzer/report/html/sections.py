"""The sections of the page, in order: each is made of what the report has, and left out where it has nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from traceanalyzer.report import outline
from traceanalyzer.report.format import NOT_AVAILABLE, figure
from traceanalyzer.report.html import event_charts, places, rank_charts, step_charts, work_charts
from traceanalyzer.report.html.finding_section import findings
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.parts import link_to
from traceanalyzer.report.html.tables import definition_list, facts, plain_table, table, term
from traceanalyzer.report.html.timeline_section import timeline
from traceanalyzer.report.quoted import TITLE, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.report.html.parts import Page
    from traceanalyzer.report.model import Input

MAX_NOTES = 100
"""Notes that are shown: a run of a thousand ranks may have one for each."""


def _step(page: Page) -> Markup | None:
    time = page.report.metrics.step_time_ms
    figures = [
        *(outline.facts_of(outline.shown_step_time(time)) if time is not None else []),
        *outline.step_figures(page.report),
    ]
    shown = [fact for fact in figures if not fact.value.startswith(NOT_AVAILABLE)]
    key = quoted(page.report)
    if page.report.metrics.budget_ms is None:
        # Of a log nearly none is known, and no option of the recording would tell it.
        figures = [*figures, *(fact for fact in key if fact.value.startswith(NOT_AVAILABLE))]
        key = [fact for fact in key if not fact.value.startswith(NOT_AVAILABLE)]
    missing = {fact.label: fact for fact in figures if fact.value.startswith(NOT_AVAILABLE)}
    unknown = [term(label, fact.definition) for label, fact in missing.items()]
    groups = [
        tag("details", tag("summary", title), facts(figures))
        for title, figures in outline.step_groups(page.report)
        if title not in ELSEWHERE
    ]
    return join(
        tag("h3", TITLE) if key else None,
        facts(key) if key else None,
        page.chart(event_charts.logged(page.details) or step_charts.step_budget(page.report)),
        page.chart(event_charts.step_times(page.report)),
        facts(shown),
        tag("p", "Not known from this recording: ", Markup(", ".join(unknown)), ".", class_="quiet")
        if unknown
        else None,
        *groups,
        *(page.table(name, folded=True) for name in ("steps", "critical_path", "phases", "modules")),
    )


ELSEWHERE = (outline.STEP_GROUPS["communication"], outline.STEP_GROUPS["roofline"])
"""Groups of figures that have a section of their own."""


def _idle(page: Page) -> Markup | None:
    report = page.report

    def link(row: Any) -> Markup | None:
        return link_to(places.of_moment(page.details.timeline, row.start_ns, row.duration_ns))

    charts = [page.chart(step_charts.idle_causes(report)), page.chart(step_charts.gap_lengths(report))]
    return join(
        tag("div", *charts, class_="pair") if any(charts) else None,
        page.chart(event_charts.idle_places(report)),
        page.chart(event_charts.idle_icicle(page.details)),
        page.chart(event_charts.launch_queue(page.details)),
        page.table("gap_places", folded=True),
        page.table("gap_histogram", folded=True),
        page.table("gaps", link, folded=True),
        page.table("syncs"),
    )


def _work(page: Page) -> Markup | None:
    if not any(page.report.tables.get(name) for name in ("kernel_classes", "kernels", "ops", "copies")):
        return None
    return join(
        page.chart(event_charts.icicle(page.details)),
        page.chart(work_charts.kernel_classes(page.report)),
        page.chart(event_charts.kernel_lengths(page.report, page.details)),
        page.table("kernel_classes", folded=True),
        page.table("kernels"),
        page.table("ops"),
        page.table("copies", folded=True),
    )


def _roofline(page: Page) -> Markup | None:
    step = page.report.metrics.roofline
    chart = page.chart(work_charts.roofline(page.report, page.details))
    if step is None and chart is None:
        return None
    missing = (
        None if chart else tag("p", "No kernel has both its operations and its traffic known, or the GPU is not known.")
    )
    return join(chart, missing, facts(outline.facts_of(step)) if step is not None else None)


def _communication(page: Page) -> Markup | None:
    total = page.report.metrics.communication
    if not page.report.tables.get("collectives") and not (total is not None and total.total_ms):
        return None
    return join(
        facts(outline.facts_of(total)) if total is not None else None,
        page.chart(rank_charts.overlap(page.details)),
        page.chart(work_charts.communication(page.report)),
        page.chart(rank_charts.bandwidths(page.report)),
        page.table("collectives"),
        page.table("skew", folded=True),
    )


def _memory(page: Page) -> Markup | None:
    chart = page.chart(work_charts.memory(page.details))
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
    maps = [page.chart(make(page.details)) for make in (rank_charts.ranks_by_step, rank_charts.waiting_by_step)]
    return join(
        page.chart(step_charts.ranks(page.report)),
        tag("div", *maps, class_="pair") if all(maps) else maps[0],
        page.chart(rank_charts.traffic(page.report)),
        page.table("ranks"),
        page.table("traffic", folded=True),
    )


def _recording(page: Page) -> Markup | None:
    report = page.report
    inputs = [
        (i.path, i.kind, "-" if i.rank is None else str(i.rank), _gpus(i), outline.damage(i))
        for i in report.inputs[: page.rows]
    ]  # fmt: skip
    heads = ["Recording", "Kind", "Rank", "GPUs", "What was read"]
    notes = list(dict.fromkeys([*report.notes, *(note for i in report.inputs for note in i.health.notes)]))
    left = len(notes) - MAX_NOTES
    return join(
        plain_table("Recordings", heads, inputs, [False, False, True, False, False]),
        tag("ul", *(tag("li", note) for note in notes[:MAX_NOTES])) if notes else None,
        tag("p", f"{left} more notes left out.") if left > 0 else None,
        page.table("conditions"),
        table("Devices, over the whole recording", report.devices, limit=page.rows) if report.devices else None,
        *(page.table(name, folded=True) for name in report.tables if name not in page.shown),
    )


def _gpus(item: Input) -> str:
    """The GPUs of a recording, alike ones counted."""
    counted = Counter(d.name or f"GPU {d.id}" for d in item.devices)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counted.items())


def _definitions(page: Page) -> Markup | None:
    groups = [*outline.definition_groups(page.report), *outline.table_definition_groups(page.report)]
    lists = [join(tag("h3", title), definition_list(pairs)) for title, pairs in groups if pairs]
    return tag("details", tag("summary", "All of them (each is shown for a name that has the focus, too)"), *lists)


SECTIONS: tuple[tuple[str, str, Callable[[Page], Markup | None]], ...] = (
    ("findings", "Findings", findings),
    ("step", "Metrics", _step),
    ("idle-time", "Idle time", _idle),
    ("timeline", "Timeline", timeline),
    ("work", "GPU work", _work),
    ("rooflines", "Roofline", _roofline),
    ("communication", "Communication", _communication),
    ("memory", "Memory", _memory),
    ("ranks", "Ranks", _ranks),
    ("recording", "The recording", _recording),
    ("definitions", "Definitions", _definitions),
)
"""Id, title and content of the sections after the first screen."""
