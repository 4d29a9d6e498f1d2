"""From one figure to another by the parts of their difference, and from a figure to what it could become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.report.format import figure, plain, shorten
from traceanalyzer.report.html.pictures.plot import Axis, Plot, Rects, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

ROW_PX, EDGES_PX = 36, 52
MAX_NAME = 90
TOP, BOTTOM, MIDDLE = -0.06, 0.44, -0.28
"""Within a row of 1: its bar, and its name above."""
REACH = 1.14
"""Room for the figure after the longest bar."""


def waterfall(
    first: tuple[str, float], parts: Sequence[tuple[str, float]], last: tuple[str, float]
) -> tuple[Plot, int]:
    """A bar for the first figure (ms), one for each signed part where the one before ends, one for the last; and the
    height. The parts sum to the difference."""
    steps = np.array([value for _, value in parts], float)
    ends = first[1] + np.cumsum(steps)
    begins = ends - steps
    rows = [(first[0], 0.0, first[1], "neutral", figure(first[1], "ms"))]
    rows += [
        (name, begin, end, "less" if value < 0 else "more", f"{'+' if value > 0 else ''}{figure(value, 'ms')}")
        for (name, value), begin, end in zip(parts, begins.tolist(), ends.tolist(), strict=True)
    ]
    rows.append((last[0], 0.0, last[1], "neutral", figure(last[1], "ms")))
    keys = [("less time", "less"), ("more time", "more")]
    return _rows(rows, keys), EDGES_PX + ROW_PX * len(rows)


def ladder(
    today: tuple[str, float], changes: Sequence[tuple[str, float, tuple[float, float] | None]],
    floor: tuple[str, float] | None,
) -> tuple[Plot, int]:  # fmt: skip
    """Today's step, the step after each change alone with its range, the least that it could be (ms); and the
    height."""
    rows = [(today[0], 0.0, today[1], "neutral", figure(today[1], "ms"))]
    for name, value, likely in changes:
        said = "" if likely is None else f" ({figure(likely[0], 'ms')} to {figure(likely[1], 'ms')})"
        rows.append((name, 0.0, value, "less", f"{figure(value, 'ms')}{said}, {figure(today[1] / value, 'x')}"))
    if floor is not None:
        rows.append((floor[0], 0.0, floor[1], "floor", figure(floor[1], "ms")))
    past = [today[1], *(max(value, likely[1] if likely else 0.0) for _, value, likely in changes)]
    past += [] if floor is None else [floor[1]]
    plot = _rows(rows, [("today", "neutral"), ("predicted, and its range", "less")], 1.45, past)
    ranges = [(place, *likely) for place, (_, _, likely) in enumerate(changes, 1) if likely is not None]
    whiskers = Rects(
        "", "text", [low for _, low, _ in ranges], [high for _, _, high in ranges],
        [p + 0.17 for p, _, _ in ranges], [p + 0.21 for p, _, _ in ranges],
    )  # fmt: skip
    return Plot([*plot.marks, whiskers], plot.x, plot.y, down=True, keys=plot.keys), EDGES_PX + ROW_PX * len(rows)


def _rows(
    rows: Sequence[tuple[str, float, float, str, str]],
    keys: Sequence[tuple[str, str]],
    reach: float = REACH,
    past: Sequence[float] = (),
) -> Plot:
    """Bars from top to bottom: name, begin, end, colour, and what stands after it, or `past` more than it."""
    names = [shorten(plain(name), MAX_NAME) for name, *_ in rows]
    low, high = ([side(begin, end) for _, begin, end, _, _ in rows] for side in (min, max))
    places = np.arange(len(rows))
    said = [f"{name}: {text}" for name, (*_, text) in zip(names, rows, strict=True)]
    bars = Rects(
        "", "neutral", low, high, (places + TOP).tolist(), (places + BOTTOM).tolist(), said,
        colours=[colour for *_, colour, _ in rows],
    )  # fmt: skip
    above = Words([0.0] * len(rows), (places + MIDDLE).tolist(), names)
    after = Words(past or high, (places + (TOP + BOTTOM) / 2).tolist(), [text for *_, text in rows])
    axis = Axis("ms a step", range=(min([0.0, *low]), max([0.0, *high]) * reach))
    return Plot([bars, above, after], axis, Axis(names=names, hidden=True), down=True, keys=keys)
