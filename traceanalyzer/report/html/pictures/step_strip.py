"""A step as a still picture: critical path, idle time by cause, and the work of each stream, in a few hundred boxes."""

from __future__ import annotations

import numpy as np

from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.report.html.pictures.colours import of_category
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.report.timeline.lanes import Category, Timeline
from traceanalyzer.trace.distinct import distinct

BOXES = 400
"""Across a lane: less than a pixel of a wide screen each."""
MAX_LANES = 10
ROW_PX, EDGES_PX = 22, 66
ON_HOST = (Category.OPERATOR, Category.ANNOTATION, Category.LIBRARY, Category.API_CALL, Category.WAIT, Category.COMPILE)


def strip(timeline: Timeline) -> tuple[Plot, int]:
    """The picture of a timeline's window and its height. Of the host the outermost level of the first thread."""
    shown = _lanes(timeline)
    rects = [mark for place, lane in enumerate(shown) for mark in _of_lane(timeline, lane, place)]
    names = [timeline.lanes[lane].title for lane in shown]
    low, high = (moment / NS_PER_MS for moment in timeline.window)
    # A cause has one colour on the path and between the ops, and stands in the legend once.
    names_of = {mark.colour: mark.name for mark in sorted(rects, key=lambda mark: not mark.name.startswith("path"))}
    keys = [(name, colour) for colour, name in names_of.items()]
    plot = Plot(rects, Axis("ms since the step's start", range=(low, high)), Axis(names=names), down=True, keys=keys)
    return plot, EDGES_PX + ROW_PX * len(shown)


def _lanes(timeline: Timeline) -> list[int]:
    """The lanes of the device, and the first one of the host."""
    on_host = np.zeros(len(timeline.lanes), bool)
    on_host[timeline.events.lane[np.isin(timeline.events.category, ON_HOST)]] = True
    device = [i for i in range(len(timeline.lanes)) if not on_host[i]][: MAX_LANES - 1]
    host = [i for i, lane in enumerate(timeline.lanes) if on_host[i] and lane.level == 0][:1]
    return [*device, *host]


def _of_lane(timeline: Timeline, lane: int, place: int) -> list[Rects]:
    """Boxes of each sort: neighbours nearer than a box are one."""
    events = timeline.events
    low, high = timeline.window
    width = max((high - low) // BOXES, 1)
    made = []
    rows = np.flatnonzero((events.lane == lane) & (events.end > low) & (events.start < high))
    for code in distinct(events.category[rows]).tolist():
        here = rows[events.category[rows] == code]
        start = np.maximum(events.start[here], low)
        end = np.maximum(np.maximum.accumulate(np.minimum(events.end[here], high)), start + width // 2)
        first = np.flatnonzero(np.append(True, start[1:] > end[:-1] + width // 2))
        begins, ends = start[first] / NS_PER_MS, end[np.append(first[1:] - 1, len(end) - 1)] / NS_PER_MS
        category = Category(code)
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        boxes = [Box(begin, finish, place - 0.4, place + 0.4) for begin, finish in pairs]
        made.append(Rects(category.label, of_category(category), boxes))
    return made
