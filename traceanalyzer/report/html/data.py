"""What the page's scripts draw, as JSON that can stand inside an HTML document, in bounded size."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from traceanalyzer.report.format import plain
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.timeline.lanes import Category, Events, Shown, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.html.charts import Chart

MAX_TIMELINE_BYTES = 1_200_000
"""Of the 2 MB that all charts may take; the others are bounded by their own limits and stay under a tenth of it."""
FEW = 100
"""Events that are shown however long their names are."""
ROOMY = 10
"""A step's host range this many times longer than its window is not shown whole at first."""
COLOURS = {Category.WAIT: "--idle-sync", Category.PATH_WAIT: "--idle-sync"}
"""Categories whose colour is not named after themselves; what is not idle on the path is coloured as if it were."""


def json_block(id_: str, value: Any) -> Markup:
    """A value for the page's scripts. Nothing in it can end the element that it stands in."""
    encoded = orjson.dumps(_valid(value), option=orjson.OPT_SERIALIZE_NUMPY).decode()
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(encoded), type="application/json", id=id_)


def _valid(value: Any) -> Any:
    """The value with all text as valid Unicode on one line."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list) else value


def charts_block(charts: Sequence[Chart]) -> Markup:
    """The figures by their ids."""
    return json_block("charts", {chart.id: chart.figure for chart in charts})


def timeline_block(timeline: Timeline) -> Markup:
    """The timeline by columns; the shortest events are left out until it fits."""
    block = json_block("timeline-data", _columns(timeline))
    while len(block.encode()) > MAX_TIMELINE_BYTES and len(timeline.events) > FEW:
        timeline = shortened(timeline, max(len(timeline.events) // 2, FEW))
        block = json_block("timeline-data", _columns(timeline))
    return block


def shortened(timeline: Timeline, count: int) -> Timeline:
    """The timeline with its `count` longest events alone."""
    events = timeline.events
    kept = events.take(np.sort(np.argsort(events.start - events.end, kind="stable")[:count]))
    names, name = _used(timeline.names, kept.name)
    detail, told = _used(timeline.detail, kept.detail)
    columns = {f.name: getattr(kept, f.name) for f in dataclasses.fields(Events)} | {"name": name, "detail": told}
    share = len(kept) / max(len(events), 1)
    shown = [Shown(s.what, min(s.shown, round(s.shown * share)), s.total) for s in timeline.shown]
    return dataclasses.replace(timeline, names=names, detail=detail, events=Events.from_columns(columns), shown=shown)


def _used(texts: list[str], codes: Any) -> tuple[list[str], Any]:
    """The texts that the codes mean, and their new codes."""
    used, index = np.unique(codes[codes >= 0], return_inverse=True)
    renewed = np.full(len(codes), -1)
    renewed[codes >= 0] = index
    return [texts[i] for i in used.tolist()], renewed


def _columns(timeline: Timeline) -> dict[str, Any]:
    events = timeline.events
    used = np.unique(events.category).tolist()
    return {
        "extent": timeline.extent,
        "window": timeline.window,
        "first": first_view(timeline),
        "lanes": [[lane.title, lane.level] for lane in timeline.lanes],
        "categories": {str(code): [Category(code).label, colour(Category(code))] for code in map(int, used)},
        "names": timeline.names,
        "detail": timeline.detail,
        "lane": events.lane,
        "category": events.category,
        "start": events.start,
        "length": events.end - events.start,
        "name": events.name,
        "told": events.detail,
    }


def first_view(timeline: Timeline) -> tuple[int, int]:
    """What is shown at first: all of it, or the step's window where the host's part would dwarf it."""
    (low, high), (start, end) = timeline.extent, timeline.window
    margin = (end - start) // 2
    dwarfed = high - low > ROOMY * max(end - start, 1)
    return (max(low, start - margin), min(high, end + margin)) if dwarfed else (low, high)


def colour(category: Category) -> str:
    """The CSS variable of a category's colour."""
    named = category.name.lower().replace("path_", "idle_").replace("_", "-")
    return COLOURS.get(category, f"--{named}")
