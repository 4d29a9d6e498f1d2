"""Where on the timeline the evidence of a finding stands.

Evidence names its place in words: an API call, an operator path, a kernel with its end cut off, a cause. The longest
event of the timeline that the words name is the place; a finding of idle time is at its longest gap of that cause.
Where there is no timeline there are no places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.timeline.lanes import Category

if TYPE_CHECKING:
    from traceanalyzer.report.model import Evidence, Finding
    from traceanalyzer.report.timeline.lanes import Timeline
    from traceanalyzer.trace import Bool

LEAST = 8
"""Characters that a shortened name needs to stand for one."""
OF_CLASS = {
    "launch": Category.IDLE_LAUNCH,
    "sync": Category.IDLE_SYNC,
    "input": Category.IDLE_INPUT,
    "host": Category.IDLE_HOST,
    "communication": Category.COMMUNICATION,
    "transfer": Category.COPY,
}
"""What on the timeline a finding of a class is about; others are where their evidence says."""
SAID = {"launch-latency": "the next op was already queued"}
"""What is said of the gaps that a finding is about, where not all gaps of its class are."""
NOWHERE = ("profiler-cost", "condition-")
"""Findings about the whole recording."""


@dataclass(frozen=True)
class Place:
    """A stretch of the timeline, ns from its origin."""

    start: int
    end: int

    @property
    def anchor(self) -> str:
        """The address of it within the page."""
        return f"#at={self.start}-{self.end}"


def of_finding(timeline: Timeline | None, finding: Finding) -> Place | None:
    """The place of a finding: the longest event of what its class is about, else the first that evidence names."""
    if timeline is None or finding.id.startswith(NOWHERE):
        return None
    chosen = timeline.events.category == OF_CLASS.get(finding.cls, -1)
    if finding.id in SAID:
        said = [text.startswith(SAID[finding.id]) for text in timeline.detail]
        chosen &= np.append(np.array(said, bool), False)[timeline.events.detail]
    named = (of_evidence(timeline, item) for item in finding.evidence)
    return _longest(timeline, chosen) or next((place for place in named if place), None)


def of_evidence(timeline: Timeline | None, item: Evidence) -> Place | None:
    """The longest event that the words of `where` name, None where they name none."""
    return None if timeline is None else _longest(timeline, _named(timeline, item.where))


def of_moment(timeline: Timeline | None, start_ns: int, duration_ns: int) -> Place | None:
    """A stretch of the recording, None where the timeline does not show it."""
    if timeline is None:
        return None
    start = start_ns - timeline.origin_ns
    inside = timeline.extent[0] <= start and start + duration_ns <= timeline.extent[1]
    return Place(start, start + duration_ns) if inside else None


def _longest(timeline: Timeline, chosen: Bool) -> Place | None:
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    start, end = (np.clip(times[rows], *timeline.extent) for times in (timeline.events.start, timeline.events.end))
    best = int((end - start).argmax())
    return Place(int(start[best]), int(end[best]))


def _named(timeline: Timeline, where: str) -> Bool:
    """Which events have a name, or a name in full, that the words are."""
    names = _matching(timeline.names, where)
    details = _matching(timeline.detail, where)
    result: Bool = np.append(names, False)[timeline.events.name] | np.append(details, False)[timeline.events.detail]
    return result


def _matching(texts: list[str], where: str) -> Bool:
    head = where.split(" in ")[0].split(" (")[0].strip()
    beginning = head.rstrip("….").strip()
    cut = head != beginning and len(beginning) >= LEAST
    found = [text in (head, where) or (cut and text.startswith(beginning)) for text in texts]
    return np.array(found, bool)
