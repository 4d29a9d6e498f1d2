"""Charts as Plotly figures in plain JSON, and what they are put together from.

A colour is the name of a CSS variable (`--compute`): the page resolves it, so that one figure serves light, dark
and paper. Every figure is of bounded size whatever the recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.report.format import measured, plain, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

Figure = dict[str, Any]

MAX_NAME = 60
"""Characters of a name beside an axis."""


@dataclass(frozen=True)
class Chart:
    """A figure with what it shows in words; its numbers stand in a table of the page, too."""

    id: str
    title: str
    caption: str
    figure: Figure
    height: int = 320


def figure(data: list[Figure], x: str, y: str, **layout: Any) -> Figure:
    """Data on two axes with these titles; `layout` is Plotly's."""
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": data, "layout": {**axes, **layout}}


def bar(x: Sequence[Any], y: Sequence[float | None], name: str, colour: str, *, across: bool = False) -> Figure:
    """Bars of one sort: times in ms at the places `x`, from left to right or, `across`, from top to bottom."""
    places, values = [name_of(v) if isinstance(v, str) else v for v in x], [short(v) for v in y]
    return {
        "type": "bar",
        "name": name,
        "x": values if across else places,
        "y": places if across else values,
        "orientation": "h" if across else "v",
        "marker": {"color": f"--{colour.replace('_', '-')}"},
        "hovertemplate": f"%{{{'y' if across else 'x'}}}: {name} %{{{'x' if across else 'y'}:.4g}} ms<extra></extra>",
    }


def line(x: Sequence[Any], y: Sequence[Any], name: str) -> Figure:
    """A line through points."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": {"width": 1.5}}


def span(start: float, end: float) -> Figure:
    """A shaded stretch of the horizontal axis."""
    shaded = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}, "layer": "below"}
    return {**shaded, "x0": start, "x1": end, "fillcolor": "--shade"}


def log_axis(title: str, low: float | None, high: float | None) -> Figure:
    """A logarithmic axis, over all of the data unless its ends are given."""
    axis: Figure = {"type": "log", "title": {"text": title}}
    if low is not None and high is not None:
        axis["range"] = [float(np.log10(low)), float(np.log10(high))]
    return axis


def means(values: Sequence[float | None], block: int) -> list[float]:
    """The mean of every `block` values that follow each other; NaN where one of them is not known."""
    known = [math.nan if v is None else v for v in values]
    return [float(np.mean(known[i : i + block])) for i in range(0, len(known), block)]


def short(value: float | None) -> float | None:
    """Six digits: more are noise, and take room."""
    return float(f"{value:.6g}") if measured(value) else None


def name_of(text: str) -> str:
    """A name as Plotly may show it: short, and nothing in it is one of its own tags."""
    return shorten(plain(text), MAX_NAME).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
