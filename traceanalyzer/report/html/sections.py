"""The report as one HTML file that opens anywhere: its sections in order, each left out where the
report has nothing for it. No request leaves it, its size is bounded, scripts only add; one button
opens Perfetto's page, and hands it what the timeline shows."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Fact,
    Facts,
    FoldedParts,
    Part,
    Section,
    Table,
    TextTable,
)
from traceanalyzer.report.format import NOT_AVAILABLE, figure
from traceanalyzer.report.html import event_charts, rank_charts, render, step_charts, work_charts
from traceanalyzer.report.html.answer import advice, answer_section
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.finding_section import (
    drawn_findings,
    link_to,
    of_moment,
    predicted_chart,
)
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.table_parts import Link, definition_list, term
from traceanalyzer.report.html.timeline_section import SCRIPTS, timeline
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import opening, step_facts
from traceanalyzer.report.parts.in_brief import environment, how_to_reproduce, rows_in_report
from traceanalyzer.report.whole import NO_FINDING, figures_quoted

RECORDED = "In the recording, with the profiler:"
MAX_NOTES = 100  # notes that are shown: a run of a thousand ranks may have one for each
IN_TABLES = " The figures are in the tables of this page."
ELSEWHERE = [
    step_facts.STEP_GROUPS[name] for name in ("communication", "roofline")
]  # have a section of their own


OF_TIME = ("step", "timeline")
"""Sections that a page without any recording of time does not have."""
FIRST_PARTS = 4  # summary, metrics, findings, recommendations
MAX_BYTES = 3_000_000  # of the file
ROWS = (
    300,
    100,
    30,
    10,
)  # that a table shows; fewer are tried until the file is small enough, the last is taken


SHOWN_ABOVE = (
    "steps",
    "critical_path",
    "phases",
    "modules",
    "gap_places",
    "gap_histogram",
    "gaps",
    "syncs",
    "kernel_classes",
    "kernels",
    "ops",
    "copies",
    "collectives",
    "skew",
    "ranks",
    "traffic",
    "conditions",
)
"""Tables that have their place; the others stand with the recording."""


def render_html(
    report: Report, details: Details | None = None, more: Sequence[Section] = ()
) -> str:
    """The report as a self-contained HTML document of less than 3 MB; `details` adds timelines,
    memory and ceilings, `more` sections at its end, or below the advice where the report is on
    nothing else."""
    details = details or Details()
    first = Section(
        "Summary", [Drawing(partial(answer_section, report))], untitled=True, id="answer"
    )
    sections = [
        first,
        *(
            Section(name, make(report, details), id=id_)
            for id_, name, make in _sections()
            if id_ not in OF_TIME or not opening.companion(report)
        ),
    ]
    at = FIRST_PARTS if opening.companion(report) else len(sections)
    sections[at:at] = more
    title = f"{opening.verdict(report)}: {opening.recording(report)}"
    scripts = SCRIPTS if details.timelines else ()
    document = Document(title, sections, scripts, f"{report.tool.name} {report.tool.version}")
    for rows in ROWS:
        page = render.document_html(document, rows)
        if len(page.encode("utf-8", "replace")) < MAX_BYTES:
            break
    return page


def _sections() -> tuple[tuple[str, str, Callable[[Report, Details], list[Part | None]]], ...]:
    """Id, title and content of the sections after the first screen."""
    return (
        ("metrics", "Metrics", _metrics),
        (
            "findings",
            "Findings",
            lambda report, details: [
                Drawing(partial(drawn_findings, report, details.timeline))
                if report.findings
                else NO_FINDING
            ],
        ),
        (
            "change",
            "Recommendations",
            lambda report, _: [Drawing(partial(advice, report)), _chart(predicted_chart(report))],
        ),
        ("step", "The step", _step),
        ("idle-time", "Idle time", _idle),
        (
            "timeline",
            "Timeline",
            lambda report, details: [
                Drawing(
                    partial(timeline, details.timelines, of_ranks=bool(report.tables.get("ranks")))
                )
            ],
        ),
        ("work", "GPU work", _work),
        ("rooflines", "Roofline", _roofline),
        ("communication", "Communication", _communication),
        ("memory", "Memory", _memory),
        ("ranks", "Ranks", _ranks),
        ("recording", "The recording", _recording),
        ("reproduce", "How to reproduce", _reproduced),
        ("definitions", "Definitions", _definitions),
    )


def _chart(chart: Chart | None) -> Drawing | None:
    return None if chart is None else Drawing(partial(chart_place, chart, IN_TABLES))


def _pair(*charts: Chart | None) -> Drawing:
    """Charts side by side where there is room."""
    drawn = [chart_place(chart, IN_TABLES) for chart in charts if chart is not None]
    return Drawing(lambda: tag("div", *drawn, class_="pair") if drawn else None)


def _table(
    report: Report,
    name: str,
    link: Link | None = None,
    *,
    folded: bool = False,
) -> Table:
    return Table(
        rows_in_report(report, name),
        step_facts.table_title(name),
        command=step_facts.command_of_table(name),
        origin_ns=step_facts.moments_origin(report),
        link=link,
        folded=folded,
    )


def _folded(report: Report, *names: str) -> list[Table]:
    return [_table(report, name, folded=True) for name in names]


def _metrics(report: Report, details: Details) -> list[Part | None]:
    """Key figures and where it ran. Of a log nearly none is known, and no option of the recording
    would tell it."""
    key = figures_quoted(report)
    shown = _known(key)[0] if report.metrics.budget_ms is None else key
    where = [part for section in environment(report) for part in section.parts]
    return [Facts(shown), *(FoldedParts("Environment", [part]) for part in where)]


def _step(report: Report, details: Details) -> list[Part | None]:
    time = report.metrics.step_time_ms
    times = [] if time is None else step_facts.facts_of(step_facts.shown_step_time(time))
    known, unknown = _known([*times, *step_facts.step_figures(report)])
    if report.metrics.budget_ms is None:
        unknown += _known(figures_quoted(report))[1]
    groups = (one for one in step_facts.step_groups(report) if one[0] not in ELSEWHERE)
    return [
        _chart(event_charts.logged_chart(details) or step_charts.step_budget(report, details)),
        _chart(event_charts.step_times_chart(report)),
        RECORDED if known and report.metrics.unprofiled is not None else None,
        Facts(known),
        Drawing(partial(_not_known, unknown)) if unknown else None,
        *(
            FoldedParts(step_facts.with_basis(report, title), [Facts(facts)])
            for title, facts in groups
        ),
        *_folded(report, "steps", "critical_path", "phases", "modules"),
    ]


def _known(facts: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    unknown = [fact for fact in facts if fact.value.startswith(NOT_AVAILABLE)]
    return [fact for fact in facts if fact not in unknown], unknown


def _not_known(facts: Sequence[Fact]) -> Markup:
    terms = [
        term(fact.label, fact.definition) for fact in {fact.label: fact for fact in facts}.values()
    ]
    return tag(
        "p", "Not known from this recording: ", Markup(", ".join(terms)), ".", class_="quiet"
    )


def _idle(report: Report, details: Details) -> list[Part | None]:
    def link(row: Any) -> Markup | None:
        return link_to(of_moment(details.timeline, row.start_ns, row.duration_ns))

    return [
        _pair(step_charts.idle_causes(report), step_charts.gap_lengths(report, details)),
        _chart(event_charts.idle_places(report)),
        _chart(event_charts.idle_icicle(details)),
        _chart(event_charts.launch_queue_chart(details)),
        *_folded(report, "gap_places", "gap_histogram"),
        _table(report, "gaps", link, folded=True),
        _table(report, "syncs"),
    ]


def _work(report: Report, details: Details) -> list[Part | None]:
    if not any(report.tables.get(name) for name in ("kernel_classes", "kernels", "ops", "copies")):
        return []
    return [
        _chart(event_charts.icicle(details)),
        _chart(work_charts.kernel_classes(report)),
        _chart(event_charts.kernel_lengths_chart(report, details)),
        *_folded(report, "kernel_classes"),
        _table(report, "kernels"),
        _table(report, "ops"),
        *_folded(report, "copies"),
    ]


def _roofline(report: Report, details: Details) -> list[Part | None]:
    step = report.metrics.roofline
    chart = _chart(work_charts.roofline(report, details))
    no_dots = "No kernel has both its operations and its traffic known, or the GPU is not known."
    return [chart] if step is None else [chart or no_dots, Facts(step_facts.facts_of(step))]


def _communication(report: Report, details: Details) -> list[Part | None]:
    total = report.metrics.communication
    if not report.tables.get("collectives") and not (total is not None and total.total_ms):
        return []
    return [
        Facts(step_facts.facts_of(total)) if total is not None else None,
        _chart(rank_charts.overlap(details)),
        _chart(work_charts.communication(report)),
        _chart(rank_charts.bandwidths(report)),
        _table(report, "collectives"),
        *_folded(report, "skew"),
    ]


def _memory(report: Report, details: Details) -> list[Part | None]:
    chart = _chart(work_charts.memory_chart(details))
    if chart is None:
        return []
    peaks = [
        (
            "host" if t.device < 0 else f"GPU {t.device}",
            figure(t.peak, "bytes"),
            figure(int(t.reserved.max()), "bytes"),
        )
        for t in details.memory
    ]
    return [
        chart,
        TextTable(
            ["Device", "Most allocated", "Most reserved"], [False, True, True], peaks, "Peak memory"
        ),
    ]


def _ranks(report: Report, details: Details) -> list[Part | None]:
    if not report.tables.get("ranks"):
        return []
    maps = [make(details) for make in (rank_charts.ranks_by_step, rank_charts.waiting_by_step)]
    return [
        _chart(step_charts.rank_bars(report, details)),
        _pair(*maps) if all(maps) else _chart(maps[0]),
        _chart(rank_charts.traffic_chart(report)),
        _table(report, "ranks"),
        *_folded(report, "traffic"),
    ]


def _recording(report: Report, details: Details) -> list[Part | None]:
    notes = opening.all_notes(report)
    inputs = []
    for path, kind, rank, what, item in opening.files(report):
        counted = Counter(device.name or f"GPU {device.id}" for device in item.devices)
        gpus = ", ".join(
            f"{count} x {name}" if count > 1 else name for name, count in counted.items()
        )
        inputs.append((path, kind, rank, gpus, what))
    heads = ["Recording", "Kind", "Rank", "GPUs", "What was read"]
    left = len(notes) - MAX_NOTES
    return [
        TextTable(heads, [False, False, True, False, False], inputs, "Recordings"),
        Bullets(notes[:MAX_NOTES]),
        f"{left} more notes left out." if left > 0 else None,
        _table(report, "conditions"),
        Table(report.devices, "Devices, over the whole recording"),
        *_folded(report, *(name for name in report.tables if name not in SHOWN_ABOVE)),
    ]


def _reproduced(report: Report, details: Details) -> list[Part | None]:
    return [part for section in how_to_reproduce(report) for part in section.parts]


def _definitions(report: Report, details: Details) -> list[Part | None]:
    def drawn() -> Markup:
        groups = [
            *step_facts.definition_groups(report),
            *step_facts.table_definition_groups(report),
        ]
        return join(
            *(join(tag("h3", title), definition_list(pairs)) for title, pairs in groups if pairs)
        )

    return [
        FoldedParts(
            "All of them (each is shown for a name that has the focus, too)", [Drawing(drawn)]
        )
    ]
