"""The report as a page: its sections in order, each left out where the report has nothing for it."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.report.document import Bullets, Document, Drawing, Fact, Facts, Fold, Part, Section, Table, TextTable
from traceanalyzer.report.format import NOT_AVAILABLE, figure
from traceanalyzer.report.html import event_charts, rank_charts, step_charts, work_charts
from traceanalyzer.report.html.answer import advice, answer
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.finding_section import findings, link_to, of_moment, predicted
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.table_parts import definition_list, term
from traceanalyzer.report.html.timeline_section import SCRIPTS, timeline
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import opening, step_facts
from traceanalyzer.report.whole import TITLE, quoted

MAX_NOTES = 100  # notes that are shown: a run of a thousand ranks may have one for each
IN_TABLES = " The figures are in the tables of this page."
ELSEWHERE = (step_facts.STEP_GROUPS["communication"], step_facts.STEP_GROUPS["roofline"])
"""Groups of figures that have a section of their own."""


@dataclass(frozen=True)
class Page:
    """What a page is of."""

    report: Report
    details: Details


def page_document(report: Report, details: Details, more: Sequence[Section] = ()) -> Document:
    """The report with timelines, memory and ceilings, and what else is to stand at its end."""
    page, title = Page(report, details), f"{opening.verdict(report)}: {opening.recording(report)}"
    first = Section("Summary", [Drawing(partial(answer, report))], untitled=True, id="answer")
    sections = [first, *(Section(name, make(page), id=id_) for id_, name, make in SECTIONS), *more]
    scripts = SCRIPTS if details.timelines else ()
    return Document(title, sections, scripts, f"{report.tool.name} {report.tool.version}")


def _chart(chart: Chart | None) -> Drawing | None:
    return None if chart is None else Drawing(partial(chart_place, chart, IN_TABLES))


def _pair(*charts: Chart | None) -> Drawing:
    """Charts side by side where there is room."""
    drawn = [chart_place(chart, IN_TABLES) for chart in charts if chart is not None]
    return Drawing(lambda: tag("div", *drawn, class_="pair") if drawn else None)


def _table(page: Page, name: str, link: Callable[[Any], Markup | None] | None = None, *, folded: bool = False) -> Table:
    return Table(
        page.report.tables.get(name, []), step_facts.table_title(name), command=step_facts.table_command(name),
        origin_ns=step_facts.moments_origin(page.report), link=link, folded=folded,
    )  # fmt: skip


def _folded(page: Page, *names: str) -> list[Table]:
    return [_table(page, name, folded=True) for name in names]


def _findings(page: Page) -> list[Part | None]:
    if not page.report.findings:
        return ["No finding: the recording supports none."]
    return [Drawing(partial(findings, page.report, page.details.timeline))]


def _advice(page: Page) -> list[Part | None]:
    return [Drawing(partial(advice, page.report)), _chart(predicted(page.report))]


def _key_figures(page: Page) -> list[Part | None]:
    """Of a log nearly none is known, and no option of the recording would tell it."""
    key = quoted(page.report)
    return [Facts(_known(key)[0] if page.report.metrics.budget_ms is None else key)]


def _step(page: Page) -> list[Part | None]:
    time = page.report.metrics.step_time_ms
    times = [] if time is None else step_facts.facts_of(step_facts.shown_step_time(time))
    known, unknown = _known([*times, *step_facts.step_figures(page.report)])
    if page.report.metrics.budget_ms is None:
        unknown += _known(quoted(page.report))[1]
    groups = (one for one in step_facts.step_groups(page.report) if one[0] not in ELSEWHERE)
    return [
        _chart(event_charts.logged(page.details) or step_charts.step_budget(page.report, page.details)),
        _chart(event_charts.step_times(page.report)),
        Facts(known),
        Drawing(partial(_not_known, unknown)) if unknown else None,
        *(Fold(title, [Facts(facts)]) for title, facts in groups),
        *_folded(page, "steps", "critical_path", "phases", "modules"),
    ]


def _known(facts: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The facts that have a value, and those that have none."""
    unknown = [fact for fact in facts if fact.value.startswith(NOT_AVAILABLE)]
    return [fact for fact in facts if fact not in unknown], unknown


def _not_known(facts: Sequence[Fact]) -> Markup:
    terms = [term(fact.label, fact.definition) for fact in {fact.label: fact for fact in facts}.values()]
    return tag("p", "Not known from this recording: ", Markup(", ".join(terms)), ".", class_="quiet")


def _idle(page: Page) -> list[Part | None]:
    report = page.report

    def link(row: Any) -> Markup | None:
        return link_to(of_moment(page.details.timeline, row.start_ns, row.duration_ns))

    return [
        _pair(step_charts.idle_causes(report), step_charts.gap_lengths(report, page.details)),
        _chart(event_charts.idle_places(report)),
        _chart(event_charts.idle_icicle(page.details)),
        _chart(event_charts.launch_queue(page.details)),
        *_folded(page, "gap_places", "gap_histogram"),
        _table(page, "gaps", link, folded=True),
        _table(page, "syncs"),
    ]


def _timeline(page: Page) -> list[Part | None]:
    return [Drawing(partial(timeline, page.details.timelines, of_ranks=bool(page.report.tables.get("ranks"))))]


def _work(page: Page) -> list[Part | None]:
    if not any(page.report.tables.get(name) for name in ("kernel_classes", "kernels", "ops", "copies")):
        return []
    return [
        _chart(event_charts.icicle(page.details)),
        _chart(work_charts.kernel_classes(page.report)),
        _chart(event_charts.kernel_lengths(page.report, page.details)),
        _table(page, "kernel_classes", folded=True),
        _table(page, "kernels"),
        _table(page, "ops"),
        _table(page, "copies", folded=True),
    ]


def _roofline(page: Page) -> list[Part | None]:
    step, chart = page.report.metrics.roofline, _chart(work_charts.roofline(page.report, page.details))
    if step is None:
        return [chart]
    return [
        chart or "No kernel has both its operations and its traffic known, or the GPU is not known.",
        Facts(step_facts.facts_of(step)),
    ]


def _communication(page: Page) -> list[Part | None]:
    total = page.report.metrics.communication
    if not page.report.tables.get("collectives") and not (total is not None and total.total_ms):
        return []
    return [
        Facts(step_facts.facts_of(total)) if total is not None else None,
        _chart(rank_charts.overlap(page.details)),
        _chart(work_charts.communication(page.report)),
        _chart(rank_charts.bandwidths(page.report)),
        _table(page, "collectives"),
        _table(page, "skew", folded=True),
    ]


def _memory(page: Page) -> list[Part | None]:
    chart = _chart(work_charts.memory(page.details))
    if chart is None:
        return []
    peaks = [
        ("host" if t.device < 0 else f"GPU {t.device}", figure(t.peak, "bytes"), figure(int(t.reserved.max()), "bytes"))
        for t in page.details.memory
    ]
    return [chart, TextTable(["Device", "Most allocated", "Most reserved"], [False, True, True], peaks, "Peak memory")]


def _ranks(page: Page) -> list[Part | None]:
    if not page.report.tables.get("ranks"):
        return []
    maps = [make(page.details) for make in (rank_charts.ranks_by_step, rank_charts.waiting_by_step)]
    return [
        _chart(step_charts.ranks(page.report, page.details)),
        _pair(*maps) if all(maps) else _chart(maps[0]),
        _chart(rank_charts.traffic(page.report)),
        _table(page, "ranks"),
        _table(page, "traffic", folded=True),
    ]


def _recording(page: Page) -> list[Part | None]:
    report, notes, inputs = page.report, opening.all_notes(page.report), []
    for path, kind, rank, what, item in opening.files(report):
        counted = Counter(device.name or f"GPU {device.id}" for device in item.devices)
        gpus = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counted.items())
        inputs.append((path, kind, rank, gpus, what))
    heads, left = ["Recording", "Kind", "Rank", "GPUs", "What was read"], len(notes) - MAX_NOTES
    return [
        TextTable(heads, [False, False, True, False, False], inputs, "Recordings"),
        Bullets(notes[:MAX_NOTES]),
        f"{left} more notes left out." if left > 0 else None,
        _table(page, "conditions"),
        Table(report.devices, "Devices, over the whole recording"),
        *_folded(page, *(name for name in report.tables if name not in SHOWN_ABOVE)),
    ]


def _definitions(page: Page) -> list[Part | None]:
    def drawn() -> Markup:
        groups = [*step_facts.definition_groups(page.report), *step_facts.table_definition_groups(page.report)]
        return join(*(join(tag("h3", title), definition_list(pairs)) for title, pairs in groups if pairs))

    return [Fold("All of them (each is shown for a name that has the focus, too)", [Drawing(drawn)])]


SHOWN_ABOVE = (
    "steps", "critical_path", "phases", "modules", "gap_places", "gap_histogram", "gaps", "syncs", "kernel_classes",
    "kernels", "ops", "copies", "collectives", "skew", "ranks", "traffic", "conditions",
)  # fmt: skip
"""Tables that have their place; the others stand with the recording."""
SECTIONS: tuple[tuple[str, str, Callable[[Page], list[Part | None]]], ...] = (
    ("key-figures", TITLE, _key_figures),
    ("findings", "Findings", _findings),
    ("change", "Recommendations", _advice),
    ("step", "Metrics", _step),
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
