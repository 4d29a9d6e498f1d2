"""From figures to places on a picture: how far along an axis, and where its lines stand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.format import number
from traceanalyzer.report.html.pictures.plot import Axis, Dots, Lines, Rects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.html.pictures.plot import Mark

TICKS = 6
"""Lines across a picture at most: more make it no easier to read."""
NAMED = 24
"""Names along an axis at most; of more, every second, third, ... one is written."""
FEW_DECADES = 2.0
"""Of fewer, a logarithmic axis has 2 and 5 written, too."""
HALF = 0.5


@dataclass(frozen=True)
class Scale:
    """Where the values of an axis are."""

    low: float
    high: float
    log: bool

    def at(self, value: float) -> float:
        """How far along the axis a value is, 0 to 1; what lies beyond an end is at it."""
        low, high, value = (self._linear(v) for v in (self.low, self.high, value))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def _linear(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value


def scale_of(axis: Axis, marks: Sequence[Mark], direction: str) -> Scale:
    """The scale of an axis (`x` or `y`), over all marks unless its range is given."""
    if axis.names is not None:
        return Scale(-HALF, max(len(axis.names), 1) - HALF, False)
    if axis.range is not None:
        low, high = axis.range
    else:
        values = [
            v for mark in marks for v in _values(mark, direction) if math.isfinite(v) and not (axis.log and v <= 0)
        ]
        low, high = min(values, default=0.0), max(values, default=1.0)
        if not axis.log:
            low, high = min(low, 0.0), max(high, 0.0)
    if not high > low:
        low, high = (low / 2, low * 2) if axis.log and low > 0 else (low, low + 1.0)
    return Scale(low, high, axis.log)


def _values(mark: Mark, direction: str) -> Sequence[float]:
    if isinstance(mark, Rects):
        return [*getattr(mark, f"{direction}0"), *getattr(mark, f"{direction}1")]
    return getattr(mark, direction) if isinstance(mark, Lines | Dots) else ()


def ticks(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    """Where lines stand, with what is written at them."""
    if axis.names is not None:
        every = -(-len(axis.names) // NAMED)
        return [(float(i), name) for i, name in enumerate(axis.names) if i % every == 0]
    values = _decades(scale) if scale.log else _round_values(scale.low, scale.high)
    return [(value, _written(value)) for value in values]


def _round_values(low: float, high: float) -> list[float]:
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= rough)
    return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decades(scale: Scale) -> list[float]:
    first, last = math.log10(scale.low), math.log10(scale.high)
    every = max(round((last - first) / TICKS), 1)
    factors = (1, 2, 5) if last - first < FEW_DECADES else (1,)
    values = [f * 10.0**n for n in range(math.floor(first), math.ceil(last) + 1, every) for f in factors]
    return [v for v in values if scale.low <= v <= scale.high]


def _written(value: float) -> str:
    """A round figure without the zeros that measured ones end in."""
    text = number(float(value))
    return text.rstrip("0").rstrip(".") if "." in text and not text.startswith(("<", ">")) else text
