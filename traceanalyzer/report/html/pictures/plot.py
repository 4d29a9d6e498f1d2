"""What a picture shows, as values: marks on two axes. A colour is the name of a CSS variable without its dashes.

Everything that has an extent is a rectangle: bars, cells of a heat map, boxes of an icicle. Marks are in the units of
the axes; places of an axis with names are 0, 1, 2, ..., each taking the room from half before to half after it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers: TypeAlias = "Sequence[float]"


@dataclass(frozen=True)
class Axis:
    """One direction of a picture."""

    title: str = ""
    names: Sequence[str] | None = None
    """What stands at 0, 1, 2, ...; None: the axis has numbers."""
    range: tuple[float, float] | None = None
    """Ends; None: from zero to the largest mark."""
    log: bool = False
    hidden: bool = False
    """Without numbers, names and lines."""


@dataclass(frozen=True)
class Rects:
    """Rectangles of one sort, each from (x0, y0) to (x1, y1)."""

    name: str
    colour: str
    x0: Numbers
    x1: Numbers
    y0: Numbers
    y1: Numbers
    said: Sequence[str] = ()
    """What is said of each where it is pointed at."""
    texts: Sequence[str] = ()
    """What is written into each, as far as there is room."""
    colours: Sequence[str] = ()
    """Of each, where they differ."""
    strength: Numbers = ()
    """How strong the colour of each is, 0 to 1."""


@dataclass(frozen=True)
class Lines:
    """A line through points."""

    name: str
    colour: str
    x: Numbers
    y: Numbers
    dash: str = ""
    """As SVG writes it."""
    steps: bool = False
    """Whether a value holds until the next point."""
    said: Sequence[str] = ()
    """What is said of each point where it is pointed at; of an area one text for all of it."""
    base: Numbers = ()
    """What an area is filled down to; without: a line."""


@dataclass(frozen=True)
class Dots:
    """Points with a size."""

    name: str
    colour: str
    x: Numbers
    y: Numbers
    radius_px: Numbers
    said: Sequence[str] = ()
    texts: Sequence[str] = ()
    """What is written beside each; an empty text for most."""


@dataclass(frozen=True)
class Words:
    """Texts at points: to the right of them, or above their middle."""

    x: Numbers
    y: Numbers
    texts: Sequence[str]
    above: bool = False


Mark: TypeAlias = "Rects | Lines | Dots | Words"


@dataclass(frozen=True)
class Plot:
    """Marks on two axes, the first ones behind the others."""

    marks: Sequence[Mark]
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    down: bool = False
    """Whether the vertical axis begins at the top."""
    keys: Sequence[tuple[str, str]] | None = None
    """Names and colours of the legend; None: those of the marks, where there are several."""

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Names and colours, each once."""
        if self.keys is not None:
            return list(self.keys)
        named = [(m.name, m.colour) for m in self.marks if not isinstance(m, Words) and m.name]
        return list(dict.fromkeys(named)) if len(named) > 1 else []
