"""Pictures that need no page: SVG files for issues and READMEs, which show no HTML; among them a
step as a still picture, in a few hundred boxes."""

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TypeAlias

import numpy as np

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.report.format import plain, shorten
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures.colours import light, of_category
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.report.html.pictures.svg import CHARACTER_PX, drawn
from traceanalyzer.report.timeline.lanes import Category, Timeline
from traceanalyzer.trace import I64, distinct

BOXES = 400  # across a lane: less than a pixel of a wide screen each
MAX_LANES = 10
ROW_PX = 22
EDGES_PX = 66
ON_HOST = (
    Category.OPERATOR,
    Category.ANNOTATION,
    Category.LIBRARY,
    Category.API_CALL,
    Category.WAIT,
    Category.COMPILE,
)
WIDTH = 900  # as wide as a column of an issue shows without shrinking it
EDGE = 20
LINE_PX = 20
TITLE_PX = 30
LEGEND_PX = 20
MOST_LINE = 122  # characters of a line of text that fit the width
MOST_LINES = 4  # of one text: names can be endless
KEY_PX = 24  # of a legend's key: its square and the room around it
SQUARE_KEY = (2, 11, 2)
"""A key's place below the line's top, height and rounding, in px."""
KEY_FORMS = {"dot": (2, 11, 6), "line": (6, 3, 0)}
"""Keys of other marks than boxes."""


Panel: TypeAlias = tuple[str, Plot, int]  # one picture of several: title, what it shows, height


def strip(timeline: Timeline) -> tuple[Plot, int]:
    """The picture of a timeline's window and its height. Of the host the outermost level of the
    first thread."""
    shown = _shown_lanes(timeline)
    rects = [mark for place, lane in enumerate(shown) for mark in _of_lane(timeline, lane, place)]
    names = [timeline.lanes[lane].title for lane in shown]
    low, high = (moment / NS_PER_MS for moment in timeline.window)
    # A cause has one colour on the path and between the ops, and stands in the legend once.
    path_first = sorted(rects, key=lambda mark: not mark.name.startswith("path"))
    names_of = {mark.colour: mark.name for mark in path_first}
    keys = [(name, colour, "") for colour, name in names_of.items()]
    plot = Plot(
        rects,
        Axis("ms since the step's start", range=(low, high)),
        Axis(names=names),
        down=True,
        keys=keys,
    )
    return plot, EDGES_PX + ROW_PX * len(shown)


def _shown_lanes(timeline: Timeline) -> list[int]:
    """The lanes of the device, and the first one of the host."""
    on_host = np.zeros(len(timeline.lanes), bool)
    on_host[timeline.events.lane[np.isin(timeline.events.category, ON_HOST)]] = True
    device: list[int] = np.flatnonzero(~on_host).tolist()[: MAX_LANES - 1]
    outer_host = [i for i, lane in enumerate(timeline.lanes) if on_host[i] and lane.level == 0]
    return device + outer_host[:1]


def _of_lane(timeline: Timeline, lane: int, place: int) -> list[Rects]:
    """Boxes of each sort: neighbours nearer than a box are one."""
    events = timeline.events
    (low, high) = timeline.window
    marks = []
    width = max((high - low) // BOXES, 1)
    in_window = (events.end > low) & (events.start < high)
    rows = np.flatnonzero((events.lane == lane) & in_window)
    for code in distinct(events.category[rows]).tolist():
        of_kind = rows[events.category[rows] == code]
        start = np.maximum(events.start[of_kind], low)
        end = np.minimum(events.end[of_kind], high)
        boxes = _merged_boxes(start, end, width, place)
        marks.append(Rects(Category(code).label, of_category(Category(code)), boxes))
    return marks


def _merged_boxes(start: I64, end: I64, width: int, place: int) -> list[Box]:
    """Boxes of events (ns, ordered by start), neighbours nearer than half a `width` in one."""
    end = np.maximum(np.maximum.accumulate(end), start + width // 2)
    apart = start[1:] > end[:-1] + width // 2
    first = np.flatnonzero(np.append(True, apart))
    last = np.append(first[1:] - 1, len(end) - 1)
    begins = start[first] / NS_PER_MS
    ends = end[last] / NS_PER_MS
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    return [Box(begin, finish, place - 0.4, place + 0.4) for begin, finish in pairs]


def standalone(title: str, lines: Sequence[str], panels: Sequence[Panel]) -> str:
    """An SVG file: a title, lines of text, and pictures below each other, on a light ground
    wherever it is shown."""
    parts = [_text(title, 34, 17, bold=True)]
    y = 34
    for line in (part for text in lines for part in wrap(plain(text), MOST_LINE)[:MOST_LINES]):
        y += LINE_PX
        parts.append(_text(line, y, 13))
    for name, plot, tall in panels:
        y += TITLE_PX
        parts.append(_text(name, y, 14, bold=True))
        legend, rows = _legend(plot, y + 8)
        y += 8 + LEGEND_PX * rows
        picture = drawn(plot, tall, name, WIDTH - 2 * EDGE)
        parts += [
            legend,
            tag("svg", picture, x=EDGE, y=y, width=WIDTH - 2 * EDGE, height=tall),
        ]
        y += tall
    height = y + EDGE
    ground = tag("rect", width=WIDTH, height=height, rx=8, style="fill:var(--page)")
    svg = tag(
        "svg",
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_label=" ".join([title, *lines]),
        font_family="system-ui, sans-serif",
        style="fill:var(--text)",
    )
    # Programs that draw SVG know no variables: the colours stand in the file, and what a page would
    # say is a title.
    coloured = re.sub(r"var\(--([\w-]+)\)", lambda name: light()[name[1]], svg)
    coloured = re.sub(r"light-dark\((#\w+),#\w+\)", r"\1", coloured)
    return (
        re.sub(r' data-def="([^"]*)"></(rect|circle)>', r"><title>\1</title></\2>", coloured) + "\n"
    )


def _text(words: str, y: int, size: int, *, bold: bool = False) -> Markup:
    shown = shorten(words, MOST_LINE * 13 // size)
    return tag("text", shown, x=EDGE, y=y, font_size=size, font_weight="bold" if bold else None)


def _legend(plot: Plot, y: int) -> tuple[Markup, int]:
    """Squares and names in rows, and how many rows they take."""
    parts = []
    x = EDGE
    row = 0
    for name, colour, form in plot.legend:
        width = KEY_PX + round(len(name) * CHARACTER_PX) + 8
        if x + width > WIDTH - EDGE and x > EDGE:
            x = EDGE
            row = row + 1
        top = y + row * LEGEND_PX
        below, high, round_ = KEY_FORMS.get(form, SQUARE_KEY)
        parts.append(
            tag(
                "rect",
                x=x,
                y=top + below,
                width=11,
                height=high,
                rx=round_,
                style=f"fill:var(--{colour})",
            )
        )
        parts.append(tag("text", name, x=x + 16, y=top + 12, font_size=12))
        x += width
    return join(*parts), row + 1 if parts else 0
