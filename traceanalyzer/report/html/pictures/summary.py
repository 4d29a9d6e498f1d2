"""A report as one picture: the verdict, the step's budget, the timeline, what changes would bring;
and one figure to another by the parts of their difference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.report.brief import in_few_words
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.format import figure, is_figure, plain, shorten, step_figure
from traceanalyzer.report.html.pictures.plot import Axis, Box, Key, Plot, PlotTexts, Rects
from traceanalyzer.report.html.pictures.standalone import standalone, strip
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown, opening
from traceanalyzer.report.timeline.lanes import Timeline

ROW_PX = 36
EDGES_PX = 52
MAX_NAME = 90
TOP = -0.06  # within a row of 1: its bar, and its name above
BOTTOM = 0.44
MIDDLE = -0.28
MOST_CHANGES = 5
NEGLIGIBLE = 0.001  # parts of the step below this are no wider than a line


@dataclass(frozen=True)
class _Row:
    """A bar with its name above and a text after it."""

    name: str
    begin: float  # ms
    end: float
    colour: str
    text: str

    @classmethod
    def of_step(cls, name: str, ms: float) -> "_Row":
        """A step as it is."""
        return cls(name, 0.0, ms, "neutral", step_figure(ms))

    def box(self, y: int, name: str) -> Box:
        """The bar, in row y."""
        left, right = sorted((self.begin, self.end))
        hint = f"{name}: {self.text}"
        return Box(left, right, y + TOP, y + BOTTOM, hint, colour=self.colour)


def waterfall(
    first: tuple[str, float], parts: Sequence[tuple[str, float]], last: tuple[str, float]
) -> tuple[Plot, int]:
    """A bar for the first figure (ms), one for each signed part where the one before ends, one for
    the last; and the height. The parts sum to the difference."""
    steps = np.array([value for _, value in parts], float)
    ends = first[1] + np.cumsum(steps)
    begins = ends - steps
    rows = [_Row.of_step(*first)]
    places = zip(parts, begins.tolist(), ends.tolist(), strict=True)
    for (name, value), begin, end in places:
        sign = "+" if value > 0 else ""
        colour = "less" if value < 0 else "more"
        rows.append(_Row(name, begin, end, colour, sign + step_figure(value)))
    rows.append(_Row.of_step(*last))
    keys = [("less time", "less", ""), ("more time", "more", "")]
    return _rows(rows, keys), EDGES_PX + ROW_PX * len(rows)


def ladder(
    today: tuple[str, float],
    changes: Sequence[tuple[str, float, tuple[float, float] | None]],
    floor: tuple[str, float] | None,
) -> tuple[Plot, int]:
    """Today's step, the step after each change alone with its range, the least it could be (ms);
    and the height."""
    rows = [_Row.of_step(*today)]
    past = [today[1]]
    for name, value, likely in changes:
        low, high = likely or (0.0, 0.0)
        between = "" if likely is None else f" ({step_figure(low)} to {step_figure(high)})"
        text = f"{step_figure(value)}{between}, {figure(today[1] / value, 'x')}"
        rows.append(_Row(name, 0.0, value, "less", text))
        past.append(max(value, high))
    if floor is not None:
        name, value = floor
        rows.append(_Row(name, 0.0, value, "floor", step_figure(value)))
        past.append(value)
    plot = _rows(
        rows, [("today", "neutral", ""), ("predicted, and its range", "less", "")], 1.45, past
    )
    ranges = [
        Box(*likely, y + 0.17, y + 0.21)
        for y, (_, _, likely) in enumerate(changes, 1)
        if likely is not None
    ]
    marked = replace(plot, marks=[*plot.marks, Rects("", "text", ranges)])
    return marked, EDGES_PX + ROW_PX * len(rows)


def _rows(
    rows: Sequence[_Row],
    keys: Sequence[Key],
    reach: float = 1.14,
    past: Sequence[float] = (),
) -> Plot:
    """Bars from top to bottom: name, begin, end, colour, and what stands after it, or `past` more
    than it; `reach` is room for the figure after the longest."""
    names = [shorten(plain(row.name), MAX_NAME) for row in rows]
    boxes = [row.box(y, name) for y, (row, name) in enumerate(zip(rows, names, strict=True))]
    above = PlotTexts([(0.0, y + MIDDLE, name) for y, name in enumerate(names)])
    least = min([0.0, *(box.x0 for box in boxes)])
    most = max([0.0, *(box.x1 for box in boxes)])
    return Plot(
        [Rects("", "neutral", boxes), above, _after_bars(rows, past)],
        Axis("ms a step", range=(least, most * reach)),
        Axis(names=names, hidden=True),
        down=True,
        keys=keys,
    )


def _after_bars(rows: Sequence[_Row], past: Sequence[float]) -> PlotTexts:
    """The texts after the bars, or after what lies `past` them."""
    ends = past or [max(row.begin, row.end) for row in rows]
    middle = (TOP + BOTTOM) / 2
    places = zip(ends, rows, strict=True)
    return PlotTexts([(end, y + middle, row.text) for y, (end, row) in enumerate(places)])


def picture(report: Report, timeline: Timeline | None = None) -> str:
    """The report as an SVG file."""
    panels = []
    spent = budget_bar(report)
    if spent is not None:
        panels.append((f"Where the {step_times.figure_unit(report)} goes", spent, 66))
    if timeline is not None:
        panels.append((timeline.title or "Timeline", *strip(timeline)))
    could = predictions_ladder(report)
    if could is not None:
        panels.append(("What each change alone would bring", *could))
    lines = [
        report.summary.headline,
        f"Step time: {opening.step_sentence(report)}",
        opening.recording(report),
    ]
    return standalone(opening.verdict(report), lines, panels)


def budget_bar(report: Report) -> Plot | None:
    """The step's budget as one bar, idle time by cause; None without device work."""
    marks = []
    at = 0.0
    for share in breakdown.finest(breakdown.budget(report)):
        if not is_figure(share.share) or share.share < NEGLIGIBLE:
            continue
        text = f"{share.name} {figure(share.share, 'share')}"
        box = Box(at, at + share.ms, 0.0, 1.0, f"{text}, {step_figure(share.ms)}", text)
        marks.append(Rects(text, share.colour, [box]))
        at += share.ms
    if not marks:
        return None
    keys = [(mark.name, mark.colour, "") for mark in marks]
    return Plot(
        marks,
        Axis("ms", range=(0.0, at)),
        Axis(hidden=True, range=(0.0, 1.0)),
        keys=keys,
    )


def predictions_ladder(report: Report) -> tuple[Plot, int] | None:
    """Today's step, the step after each recommended change alone, and the roofline's floor; None
    without any."""
    today = step_times.step_ms(report)
    roof = report.metrics.roofline
    changes = [
        (
            in_few_words(r.action),
            r.predicted_step_ms,
            (r.low_ms, r.high_ms) if r.low_ms and r.high_ms else None,
        )
        for r in report.recommendations
        if _is_time(r.predicted_step_ms)
    ]
    if not _is_time(today) or not changes:
        return None
    least = (roof.reachable_ms or roof.ideal_ms) if roof else None
    floor = ("the computation alone at the GPU's limits", least) if _is_time(least) else None
    return ladder(("today", today), changes[:MOST_CHANGES], floor)


def _is_time(value: float | None) -> TypeGuard[float]:
    """Whether it is known, and not nothing."""
    return is_figure(value) and value > 0
