"""The section of the findings: each with its evidence, linked to its place on the timeline.

Evidence names its place in words: an API call, an operator path, a kernel with its end cut off, a
cause. The longest event of the timeline that the words name is the place; a finding of idle time is
at its longest gap of that cause. Where there is no timeline there are no places."""

import numpy as np
from markdown_it import MarkdownIt

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import Evidence, Finding
from traceanalyzer.diagnosis.pages import finding_page
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.summary import predictions_ladder
from traceanalyzer.report.html.table_parts import plain_table, term
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import gains, step_facts
from traceanalyzer.report.timeline.lanes import Category, Timeline
from traceanalyzer.trace import Bool

SECTION = "\n## "
ELSEWHERE = (
    ("straggler", "ranks", "the ranks side by side"),
    ("condition-", "recording", "about the recording"),
    ("profiler-cost", "recording", "about the recording"),
)
"""Findings, by how their ids begin, that are about more than a step, and the sections that show
them."""
LEAST = 8  # characters that a shortened name needs to stand for one
OF_CLASS = {
    "launch": Category.IDLE_LAUNCH,
    "sync": Category.IDLE_SYNC,
    "input": Category.IDLE_INPUT,
    "host": Category.IDLE_HOST,
    "communication": Category.COMMUNICATION,
    "transfer": Category.COPY,
}
"""What on the timeline a finding of a class is about; others are where their evidence says."""
DETAIL = {
    "launch-latency": "the next op was already queued"
}  # the details of gaps that alone a finding is about
NOWHERE = ("profiler-cost", "condition-")  # findings about the whole recording


def drawn_findings(report: Report, timeline: Timeline | None) -> Markup:
    """Every finding, what the verdict rests on first."""
    numbered = enumerate(gains.findings_to_read(report), 1)
    return join(*(_finding(report, timeline, number, found) for number, found in numbered))


def predicted_chart(report: Report) -> Chart | None:
    """The ladder from today's step down to what the GPU could do."""
    ladder = predictions_ladder(report)
    if ladder is None:
        return None
    caption = (
        "The step after each recommended change alone, and its 90 % range; gains of several do not add up "
        "(traceanalyzer whatif predicts combinations)."
    )
    return Chart("ladder", "What each change alone would bring", caption, *ladder)


def link_to(place: "TimelinePlace | None") -> Markup | None:
    """A link to a place on the timeline, None where there is none."""
    return (
        tag("a", "show", href=place.anchor, aria_label="Show it on the timeline") if place else None
    )


def _finding(report: Report, timeline: Timeline | None, position: int, finding: Finding) -> Markup:
    link = link_to(of_finding(timeline, finding))
    # Where to look for what is not on one rank's timeline.
    elsewhere = next((one for id_, *one in ELSEWHERE if finding.id.startswith(id_)), None)
    other = (
        tag("span", "· ", tag("a", elsewhere[1], href=f"#{elsewhere[0]}")) if elsewhere else None
    )
    about = join(
        tag("span", finding.severity, class_=f"severity {finding.severity}"),
        f" · {finding.cls} · ",
        term(finding.id, step_facts.EXPLAINED.format(finding.id)),
        _headroom(report, finding, is_first=position == 1),
        tag("span", "· ", link, " on the timeline") if link else other,
    )
    return tag(
        "article",
        tag("h3", f"{position}. {finding.title}"),
        *(tag("p", text) for text in (about, *gains.leads(report, finding))),
        tag(
            "details",
            tag("summary", "Evidence"),
            _evidence(timeline, finding),
            open=position == 1,
            class_="evidence",
        ),
        finding_text(finding.id),
        class_="finding",
        id=f"finding-{position}",
    )


def _headroom(report: Report, finding: Finding, *, is_first: bool) -> Markup:
    """What removing its cause would save, where it has such a time."""
    text = gains.headroom(report, finding)
    if not text:
        return Markup(" ")
    name = term("headroom", dict(step_facts.GLOSSARY)["headroom"] if is_first else "")
    return join(" · ", name, text.removeprefix("headroom") + " ")


def _evidence(timeline: Timeline | None, finding: Finding) -> Markup:
    """What supports the finding, as a table; a column of links where there are any."""
    links = [link_to(of_evidence(timeline, item)) for item in finding.evidence]
    columns = 4 if any(links) else 3
    rows = [
        (item.metric, gains.evidence_value(item), item.where, link)[:columns]
        for item, link in zip(finding.evidence, links, strict=True)
    ]
    heads = ("Evidence", "Value", "Where", "Timeline")
    numeric = (False, True, False, False)
    return plain_table(f"Evidence: {finding.title}", heads[:columns], rows, numeric[:columns])


def finding_text(finding_id: str) -> Markup | None:
    """The page without its title and its example: the report's own finding is one; None where there
    is no page."""
    page = finding_page(finding_id)
    if page is None:
        return None
    text = (
        (SECTION + page.text.partition(SECTION)[2])
        .partition(f"{SECTION}Example\n")[0]
        .replace(SECTION, "\n#### ")
    )
    drawn = Markup(MarkdownIt("commonmark", {"html": False}).render(text))
    return tag(
        "details",
        tag("summary", "What it means, how it was decided, what to do"),
        tag("div", drawn),
    )


@dataclass(frozen=True)
class TimelinePlace:
    """A stretch of the timeline, ns from its origin."""

    start: int
    end: int

    @property
    def anchor(self) -> str:
        """The address of it within the page."""
        return f"#at={self.start}-{self.end}"


def of_finding(timeline: Timeline | None, finding: Finding) -> TimelinePlace | None:
    """The place of a finding: the longest event of what its class is about, else the first that
    evidence names."""
    if timeline is None or finding.id.startswith(NOWHERE):
        return None
    chosen = timeline.events.category == OF_CLASS.get(finding.cls, -1)
    if finding.id in DETAIL:
        about = [text.startswith(DETAIL[finding.id]) for text in timeline.detail]
        chosen &= np.append(np.array(about, bool), False)[timeline.events.detail]
    named = (of_evidence(timeline, item) for item in finding.evidence)
    return _longest(timeline, chosen) or next((place for place in named if place), None)


def of_evidence(timeline: Timeline | None, item: Evidence) -> TimelinePlace | None:
    """The longest event that the words of `where` name, None where they name none."""
    return None if timeline is None else _longest(timeline, _named(timeline, item.where))


def of_moment(timeline: Timeline | None, start_ns: int, duration_ns: int) -> TimelinePlace | None:
    """A stretch of the recording, None where the timeline does not show it."""
    if timeline is None:
        return None
    start = start_ns - timeline.origin_ns
    inside = timeline.extent[0] <= start and start + duration_ns <= timeline.extent[1]
    return TimelinePlace(start, start + duration_ns) if inside else None


def _longest(timeline: Timeline, chosen: Bool) -> TimelinePlace | None:
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    start, end = (
        np.clip(times[rows], *timeline.extent)
        for times in (timeline.events.start, timeline.events.end)
    )
    best = int((end - start).argmax())
    return TimelinePlace(int(start[best]), int(end[best]))


def _named(timeline: Timeline, where: str) -> Bool:
    """Which events have a name, or a name in full, that the words are."""
    head = where.split(" in ")[0].split(" (")[0].strip()
    beginning = head.rstrip("….").strip()
    cut = head != beginning and len(beginning) >= LEAST

    def matching(texts: list[str]) -> Bool:
        found = [text in (head, where) or (cut and text.startswith(beginning)) for text in texts]
        return np.array([*found, False], bool)

    return (
        matching(timeline.names)[timeline.events.name]
        | matching(timeline.detail)[timeline.events.detail]
    )
