"""Charts of the page, and what they are put together from. Every chart is of bounded size whatever the recording."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.format import figure, measured, plain, shorten
from traceanalyzer.report.html.pictures.plot import Axis, Plot, Rects, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.trace import F64

MAX_NAME = 60
"""Characters of a name beside an axis."""
BAR = 0.85
"""Of the room that an axis has for a place, this much is bar."""
ROW_PX, EDGES_PX = 38, 74
"""Height of a row whose name stands above its bar, and of what is around the rows."""
NAME_SHARE = 0.45
"""Of a row this is its name."""


@dataclass(frozen=True)
class Chart:
    """A picture with what it shows in words; its numbers stand in a table of the page, too."""

    id: str
    title: str
    caption: str
    plot: Plot
    height: int = 300


@dataclass(frozen=True)
class Series:
    """A value for each place, of one sort: None where there is none."""

    name: str
    colour: str
    values: Sequence[float | None]
    said: Sequence[str] = ()
    """What is said of each where it is pointed at; without: place, name and value in `unit`."""


def stacked(places: Sequence[str], series: Sequence[Series], x: str, y: str, unit: str = "ms") -> Plot:
    """Bars from left to right, the values of a place on top of each other."""
    marks, base = [], np.zeros(len(places))
    for one in series:
        values = np.array([v if measured(v) else 0.0 for v in one.values], float)
        marks.append(_bars(one, places, values, base, unit))
        base = base + values
    return Plot(marks, Axis(x, names=[name_of(p) for p in places]), Axis(y))


def _bars(one: Series, places: Sequence[str], values: F64, base: F64, unit: str) -> Rects:
    kept = np.flatnonzero(values)
    said = _said(one, places, values, unit)
    return Rects(
        one.name,
        one.colour,
        (kept - BAR / 2).tolist(),
        (kept + BAR / 2).tolist(),
        base[kept].tolist(),
        (base + values)[kept].tolist(),
        [said[i] for i in kept.tolist()],
    )


def _said(one: Series, places: Sequence[str], values: F64, unit: str) -> Sequence[str]:
    if one.said:
        return one.said
    return [f"{place}: {one.name} {figure(float(v), unit)}" for place, v in zip(places, values, strict=True)]


def side_by_side(places: Sequence[str], series: Sequence[Series], y: str, unit: str = "ms") -> Plot:
    """Bars from left to right, the values of a place beside each other."""
    width, marks = BAR / max(len(series), 1), []
    for i, one in enumerate(series):
        values = np.array([v if measured(v) else 0.0 for v in one.values], float)
        bars = _bars(one, places, values, np.zeros(len(places)), unit)
        left = [x + i * width for x in bars.x0]
        marks.append(replace(bars, x0=left, x1=[x + width for x in left]))
    return Plot(marks, Axis(names=[name_of(p) for p in places]), Axis(y))


def rows(
    names: Sequence[str], series: Sequence[Series], x: str, ends: Sequence[str] = (), unit: str = "ms",
    colours: Sequence[str] = (),
) -> Plot:  # fmt: skip
    """Bars from top to bottom, each below its name; the values of a place behind each other, `ends` after them."""
    marks: list[Rects | Words] = []
    base, top = np.zeros(len(names)), np.arange(len(names)) - 0.5 + NAME_SHARE
    for one in series:
        values = np.array([v if measured(v) else 0.0 for v in one.values], float)
        said = _said(one, names, values, unit)
        marks.append(
            Rects(one.name, one.colour, base.tolist(), (base + values).tolist(), top.tolist(),
                  (top + 1 - NAME_SHARE).tolist(), said, colours=colours)
        )  # fmt: skip
        base = base + values
    marks.append(Words([0.0] * len(names), (top - NAME_SHARE / 2).tolist(), [name_of(n) for n in names]))
    if ends:
        marks.append(Words(base.tolist(), (top + (1 - NAME_SHARE) / 2).tolist(), ends))
    reach = 1.18 if ends else 1.0
    return Plot(
        marks, Axis(x, range=(0.0, float(base.max(initial=0.0)) * reach)), Axis(names=names, hidden=True), down=True
    )


def height_of(count: int) -> int:
    """The height of a chart of so many `rows`."""
    return EDGES_PX + ROW_PX * count


def means(values: Sequence[float | None], block: int) -> list[float]:
    """The mean of every `block` values that follow each other; NaN where one of them is not known."""
    known = [math.nan if v is None else v for v in values]
    return [float(np.mean(known[i : i + block])) for i in range(0, len(known), block)]


def name_of(text: str) -> str:
    """A name that fits beside an axis."""
    return shorten(plain(text), MAX_NAME)
