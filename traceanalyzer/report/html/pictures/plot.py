"""What a picture shows, as values: marks on two axes, and where these are on it. A colour is the
name of a CSS variable without its dashes.

Everything that has an extent is a rectangle: bars, cells of a heat map, boxes of an icicle. Marks
are in the units of the axes; places of an axis with names are 0, 1, 2, ..., each taking the room
from half before to half after it."""

import math
from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, NamedTuple, TypeAlias

from traceanalyzer.base import dataclass
from traceanalyzer.report.format import number

Numbers: TypeAlias = "Sequence[float]"
TICKS = 6  # lines across a picture at most: more make it no easier to read
NAMED = 24  # Names along an axis at most; of more, every second, third, ... one is written.
LEAST = 1e-290  # values that differ by less are one: no line fits between them
MOST = 1e300  # what is larger is not drawn


@dataclass(frozen=True)
class Axis:
    """One direction of a picture."""

    title: str = ""
    names: Sequence[str] | None = None  # what stands at 0, 1, 2, ...; None: the axis has numbers
    range: tuple[float, float] | None = None  # ends; None: from zero to the largest mark
    log: bool = False
    hidden: bool = False  # without numbers, names and lines


class Box(NamedTuple):
    """A rectangle from (x0, y0) to (x1, y1)."""

    x0: float
    x1: float
    y0: float
    y1: float
    hint: str = ""  # shown where it is pointed at
    text: str = ""  # written into it, as far as there is room
    colour: str = ""  # its own, where it is not that of all
    strength: float = 1.0  # how strong its colour is, 0 to 1


class Dot(NamedTuple):
    """A point with a size, and the text to the right of it."""

    x: float
    y: float
    radius_px: float
    hint: str = ""
    text: str = ""


@dataclass(frozen=True)
class Rects:
    """Rectangles of one sort."""

    name: str
    colour: str
    boxes: Sequence[Box]
    form: ClassVar[str] = ""  # in a legend

    @property
    def drawn(self) -> set[tuple[str, str]]:
        """The colours that can be seen of it, each with the form that it has in a legend."""
        return {
            (b.colour or self.colour, self.form)
            for b in self.boxes
            if b.x0 != b.x1 and b.y0 != b.y1
        }

    def values(self, direction: str) -> Sequence[float]:
        """Where it is along an axis (`x` or `y`)."""
        return [getattr(box, direction + end) for end in "01" for box in self.boxes]


@dataclass(frozen=True)
class Lines:
    """A line through points."""

    name: str
    colour: str
    x: Numbers
    y: Numbers
    dash: str = ""  # as SVG writes it
    steps: bool = False  # whether a value holds until the next point
    hints: Sequence[
        str
    ] = ()  # shown where a point is pointed at; of an area one text for all of it
    base: Numbers = ()  # what an area is filled down to; without: a line
    fine: bool = False  # whether it can be looked at many times as wide as it is drawn

    @property
    def form(self) -> str:
        """In a legend."""
        return "" if self.base else "line"

    @property
    def drawn(self) -> set[tuple[str, str]]:
        """Its extent on this axis, as `Rects` has it."""
        return {(self.colour, self.form)} if len(self.x) else set()

    def values(self, direction: str) -> Sequence[float]:
        """Its extent on this axis, as `Rects` has it."""
        return self.x if direction == "x" else self.y


@dataclass(frozen=True)
class Dots:
    """Points of one sort."""

    name: str
    colour: str
    dots: Sequence[Dot]
    form: ClassVar[str] = "dot"

    @property
    def drawn(self) -> set[tuple[str, str]]:
        """Its extent on this axis, as `Rects` has it."""
        return {(self.colour, self.form)} if self.dots else set()

    def values(self, direction: str) -> Sequence[float]:
        """Its extent on this axis, as `Rects` has it."""
        return [getattr(dot, direction) for dot in self.dots]


@dataclass(frozen=True)
class PlotTexts:
    """Texts (x, y, text) to the right of points."""

    words: Sequence[tuple[float, float, str]]
    name = colour = form = ""
    drawn: ClassVar[set[tuple[str, str]]] = set()

    def values(self, _: str) -> Sequence[float]:
        """They take no room."""
        return ()


Mark: TypeAlias = "Rects | Lines | Dots | PlotTexts"
# of a legend: name, colour, and form: empty for a box, else `dot` or `line`
Key: TypeAlias = "tuple[str, str, str]"


@dataclass(frozen=True)
class Plot:
    """Marks on two axes, the first ones behind the others."""

    marks: Sequence[Mark]
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    down: bool = False  # whether the vertical axis begins at the top
    # of the legend; None: those of the marks, where there are several
    keys: Sequence[Key] | None = None

    @property
    def legend(self) -> list[Key]:
        """Names, colours and forms of what is drawn, each once."""
        if self.keys is not None:
            drawn = set[tuple[str, str]]().union(*(mark.drawn for mark in self.marks))
            return [key for key in self.keys if key[1:] in drawn]
        named = [
            (mark.name, mark.colour, mark.form) for mark in self.marks if mark.name and mark.drawn
        ]
        return list(dict.fromkeys(named)) if len(named) > 1 else []


@dataclass(frozen=True)
class AxisScale:
    """Where the values of an axis are."""

    low: float
    high: float
    log: bool

    def at(self, value: float) -> float:
        """How far along the axis a value is, 0 to 1; what lies beyond an end is at it."""
        ends = (self.low, self.high, value)
        low, high, value = (math.log10(max(v, 1e-300)) for v in ends) if self.log else ends
        return min(max((value - low) / (high - low), 0.0), 1.0)


def scale_of(axis: Axis, marks: Sequence[Mark], direction: str) -> AxisScale:
    """The scale of an axis (`x` or `y`), over all marks unless its range is given."""
    if axis.names is not None:
        return AxisScale(-0.5, max(len(axis.names), 1) - 0.5, False)
    low, high = axis.range or _ends(
        axis.log,
        [v for mark in marks for v in mark.values(direction)],
    )
    low = max(low, -MOST)
    high = min(high, MOST)
    if not high - low > LEAST:
        if axis.log and low > 0:
            low, high = low / 2, low * 2
        else:
            high = low + max(abs(low), 1.0)
    return AxisScale(low, high, axis.log)


def _ends(log: bool, values: Sequence[float]) -> tuple[float, float]:
    """The least and the largest value that can be drawn; zero is among those of an axis that has
    it."""
    known = [v for v in values if (LEAST if log else -MOST) < v < MOST] or [1.0]
    if log:
        return min(known), max(known)
    return min(0.0, *known), max(0.0, *known)


def ticks(axis: Axis, scale: AxisScale) -> list[tuple[float, str]]:
    """Where lines stand, with what is written at them."""
    if axis.names is not None:
        every = -(-len(axis.names) // NAMED)
        return [(float(i), name) for i, name in enumerate(axis.names) if i % every == 0]
    low = scale.low
    high = scale.high
    if scale.log:
        return [
            (value, _written(value)) for value in _in_decades(low, high) if low <= value <= high
        ]
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= rough)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(n * step, _written(n * step)) for n in numbers]


def _in_decades(low: float, high: float) -> list[float]:
    first = math.log10(low)
    last = math.log10(high)
    every = max(round((last - first) / TICKS), 1)
    factors = (1, 2, 5) if last - first < 2.0 else (1,)  # of few decades 2 and 5 are written, too
    return [
        f * 10.0**n
        for n in range(
            math.floor(first),
            math.ceil(last) + 1,
            every,
        )
        for f in factors
    ]


def _written(value: float) -> str:
    """A round figure without the zeros that measured ones end in."""
    text = number(float(value))
    is_bound = text.startswith(("<", ">"))
    if "." not in text or is_bound:
        return text
    return text.rstrip("0").rstrip(".")
