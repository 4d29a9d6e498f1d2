"""What the page's scripts draw, as JSON that can stand inside an HTML document, in bounded size."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import orjson

from traceanalyzer.report.format import figure, plain
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.timeline.lanes import DrawnEvents, Shown, Timeline
from traceanalyzer.trace import I32, I64

T = TypeVar("T")

FIRST_BYTES = 650_000  # of the representative step, of any other: a page stays below 2 MB
REST_BYTES = 300_000
FEW = 100  # events that are shown however long their names are


def json_block(id_: str, value: Any) -> Markup:
    """A value for the page's scripts. Nothing in it can end the element that it stands in."""
    encoded = _encoded(value).decode()
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(encoded), type="application/json", id=id_)


def _encoded(value: Any) -> bytes:
    return orjson.dumps(_valid(value), option=orjson.OPT_SERIALIZE_NUMPY)


def _valid(value: Any) -> Any:
    """The value with all text as valid Unicode on one line, and columns of one value written
    out."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list | tuple) else value


def timelines_block(timelines: Sequence[Timeline]) -> Markup:
    """The timelines, each by columns and in bounded size: of those with too many events the
    shortest are left out."""
    blocks: list[orjson.Fragment] = []
    for timeline in timelines:
        limit = REST_BYTES if blocks else FIRST_BYTES
        encoded = _encoded(_columns(timeline))
        while len(encoded) > limit and len(timeline.events) > FEW:
            timeline = shortened(timeline, max(len(timeline.events) * 2 // 3, FEW))
            encoded = _encoded(_columns(timeline))
        blocks.append(orjson.Fragment(encoded))
    return json_block("timeline-data", blocks)


def shortened(timeline: Timeline, count: int) -> Timeline:
    """The timeline with its `count` longest events alone."""
    events = timeline.events
    kept = events.take(
        np.sort(
            np.argsort(
                events.start - events.end,
                kind="stable",
            )[:count]
        )
    )
    names, name = _used(timeline.names, kept.name)
    detail, details = _used(timeline.detail, kept.detail)
    facts, about = _used(timeline.facts, kept.facts)
    events = dataclasses.replace(kept, name=name, detail=details, facts=about)
    share = len(kept) / max(len(timeline.events), 1)
    shown = [
        Shown(
            s.what,
            min(s.shown, round(s.shown * share)),
            s.total,
        )
        for s in timeline.shown
    ]
    return dataclasses.replace(
        timeline, names=names, detail=detail, facts=facts, events=events, shown=shown
    )


def _used(texts: list[T], codes: I32) -> tuple[list[T], I32]:
    """The texts that the codes mean, and their new codes."""
    used, index = np.unique(codes[codes >= 0], return_inverse=True)
    renewed = np.full(len(codes), -1, np.int32)
    renewed[codes >= 0] = index
    return [texts[i] for i in used.tolist()], renewed


def _columns(timeline: Timeline) -> dict[str, Any]:
    """Events by lane and start; starts count from the one before in the lane, codes from 1, and 0
    is none."""
    events = timeline.events.take(np.lexsort((timeline.events.start, timeline.events.lane)))
    first = np.append(
        True,
        events.lane[1:] != events.lane[:-1],
    )[: len(events)]
    before = np.where(
        first,
        timeline.extent[0],
        np.append(0, events.start[:-1])[: len(events)],
    )
    seldom = {
        "told": (events.detail + 1, 0),
        "about": (events.facts + 1, 0),
        "link": (_linked(events) + 1, 0),
        "onPath": (events.on_path, 0),
        "filled": (events.filled, 100),
    }
    unusual = {}
    for column, (values, usual) in seldom.items():
        if np.any(values != usual):
            unusual[column] = values
    return {
        "title": timeline.title,
        "extent": timeline.extent,
        "window": timeline.window,
        "first": first_view(timeline),
        "shown": _count(timeline),
        "lanes": [[lane.title, lane.level] for lane in timeline.lanes],
        "counts": np.bincount(events.lane, minlength=len(timeline.lanes)),
        "names": timeline.names,
        "detail": timeline.detail,
        "facts": timeline.facts,
        "category": events.category,
        "start": events.start - before,
        "length": events.end - events.start,
        "name": events.name + 1,
        "path": timeline.path,
        **unusual,
    }


def _linked(events: DrawnEvents) -> I64:
    """For each event the index of the one that it is linked to, -1 without."""
    order = np.argsort(events.own, kind="stable")
    own = events.own[order]
    at = np.minimum(np.searchsorted(own, events.link), len(own) - 1)
    found = np.zeros(0, bool)
    if len(own):
        found = (events.link >= 0) & (own[at] == events.link)
    return np.where(found, order[at], -1)


def _count(timeline: Timeline) -> str:
    parts = [
        f"{figure(s.shown)} of {figure(s.total)} {s.what}"
        if s.shown < s.total
        else f"all {figure(s.total)} {s.what}"
        for s in timeline.shown
    ]
    left = "; the shortest are left out" if any(s.shown < s.total for s in timeline.shown) else ""
    blocks = (
        " Neighbours too short to be told apart are one block."
        if (timeline.events.filled < 100).any()
        else ""
    )
    return (
        f"Shown: {', '.join(parts)}{left}.{blocks} What is shorter than a pixel is drawn a pixel wide until you zoom "
        "in, the paler, the less of the pixel it fills."
    )


def first_view(timeline: Timeline) -> tuple[int, int]:
    """What is shown at first: all of it, or the step's window where the host's part would dwarf
    it."""
    (low, high) = timeline.extent
    (start, end) = timeline.window
    margin = (end - start) // 2
    dwarfed = high - low > 3 * max(end - start, 1)
    return (max(low, start - margin), min(high, end + margin)) if dwarfed else (low, high)
