"""Charts of the page, and what they are put together from. Every chart is of bounded size whatever
the recording."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.report.format import is_figure, plain, shorten, step_figure
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, PlotTexts, Rects
from traceanalyzer.trace import F64

MAX_NAME = 60  # characters of a name at an axis
BAR = 0.85  # of the room that an axis has for a place, this much is bar
ROW_PX = 38  # height of a row whose name stands above its bar, and of what is around the rows
EDGES_PX = 74
NAME_SHARE = 0.45  # of a row this is its name


@dataclass(frozen=True)
class View:
    """A stretch of a chart's horizontal axis that its page can be told to show alone."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """A picture with what it shows in words; its numbers stand in a table of the page, too."""

    id: str
    title: str
    caption: str
    plot: Plot
    height: int = 300
    # what `zoom.js` offers; it shows the first of them. Without: the axis cannot be zoomed
    views: Sequence[View] = ()
    places: Sequence[tuple[float, str]] = ()  # along the axis, named above it where there is room


@dataclass(frozen=True)
class Series:
    """A value for each place, of one sort: None where there is none."""

    name: str
    colour: str
    values: Sequence[float | None]
    hints: Sequence[
        str
    ] = ()  # shown where a value is pointed at; without: place, name and value in ms

    def known(self) -> F64:
        """The values, 0 where there is none."""
        return np.array([v if is_figure(v) else 0.0 for v in self.values], float)

    def hints_of(self, places: Sequence[str]) -> Sequence[str]:
        """The hint of each value."""
        values = zip(places, self.known().tolist(), strict=True)
        return self.hints or [
            f"{place}: {self.name} {step_figure(value)}" for place, value in values
        ]


def stacked(places: Sequence[str], series: Sequence[Series], x: str, y: str) -> Plot:
    """Bars from left to right, the values of a place on top of each other."""
    plot = side_by_side(places, [series], y)
    return replace(plot, x=replace(plot.x, title=x))


def side_by_side(places: Sequence[str], groups: Sequence[Sequence[Series]], y: str) -> Plot:
    """Bars from left to right, the groups of a place next to each other, the values of a group on
    top of each other."""
    marks = []
    width = BAR / max(len(groups), 1)
    for n, group in enumerate(groups):
        base = np.zeros(len(places))
        left = n * width
        for series in group:
            after = base + series.known()
            bars = zip(base.tolist(), after.tolist(), series.hints_of(places), strict=True)
            boxes = [
                Box(i - BAR / 2 + left, i - BAR / 2 + left + width, low, high, hint)
                for i, (low, high, hint) in enumerate(bars)
                if high != low
            ]
            marks.append(Rects(series.name, series.colour, boxes))
            base = after
    return Plot(marks, Axis(names=[axis_name(p) for p in places]), Axis(y))


def rows(
    names: Sequence[str],
    series: Sequence[Series],
    x: str,
    ends: Sequence[str] = (),
    colours: Sequence[str] = (),
) -> Plot:
    """Bars from top to bottom, each below its name; the values of a place behind each other, `ends`
    after them."""
    marks: list[Rects | PlotTexts] = []
    base = np.zeros(len(names))
    top = [i - 0.5 + NAME_SHARE for i in range(len(names))]
    for values in series:
        after = base + values.known()
        looks = zip(values.hints_of(names), colours or [""] * len(names), strict=True)
        marks.append(Rects(values.name, values.colour, _bars(base, after, top, looks)))
        base = after
    titles = zip(top, names, strict=True)
    marks.append(PlotTexts([(0.0, y - NAME_SHARE / 2, axis_name(name)) for y, name in titles]))
    if ends:
        after_bars = zip(base.tolist(), top, ends, strict=True)
        marks.append(PlotTexts([(x, y + (1 - NAME_SHARE) / 2, end) for x, y, end in after_bars]))
    longest = float(base.max(initial=0.0))
    across = Axis(x, range=(0.0, longest * (1.18 if ends else 1.0)))
    return Plot(marks, across, Axis(names=names, hidden=True), down=True)


def _bars(
    begins: F64,
    ends: F64,
    top: Sequence[float],
    looks: Iterable[tuple[str, str]],
) -> list[Box]:
    """Bars between these values, with the hint and colour of each."""
    places = zip(begins.tolist(), ends.tolist(), top, looks, strict=True)
    return [
        Box(low, high, y, y + 1 - NAME_SHARE, hint, colour=colour)
        for low, high, y, (hint, colour) in places
    ]


def height_of(count: int) -> int:
    """The height of a chart of so many `rows`."""
    return EDGES_PX + ROW_PX * count


def means(values: Sequence[float | None], block: int) -> list[float]:
    """The mean of every `block` values that follow each other; NaN where one of them is not
    known."""
    known = [math.nan if v is None else v for v in values]
    starts = range(0, len(known), block)
    return [float(np.mean(known[first : first + block])) for first in starts]


def axis_name(text: str) -> str:
    """A name that fits at an axis."""
    return shorten(plain(text), MAX_NAME)
