"""Small charts in Markdown: Mermaid, which GitHub and GitLab draw themselves, and bars of text
within tables.

Where Mermaid is not drawn (mail, a terminal) its source is readable text. `xychart-beta` is the
name that all their versions know."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.report.format import is_figure, plain, shorten

LABEL_LIMIT = 60
UNSAFE = regex(r"[^\w .,:()/+*=-]|-->|%%|(?<!\w)_+|_+(?!\w)")
"""What could end a quoted label, or begin a directive, an entity or mark-up within it."""
SPAN = regex(r"(?<!\d)(\d++) (\w+) to (\d+) \2")  # figures of one unit: written shorter below a bar
BAR_WIDTH = 20
MOST_SLICES = 8
MOST_BARS = 20  # more steps are drawn as a line
MOST_POINTS = 200  # more cannot be distinguished in a chart of a column's width
COLOURS = ("#54aeff", "#d4a72c", "#4ac26b", "#ff8182", "#c297ff", "#fb8f44", "#76e3ea", "#afb8c1")
"""Seen on light and on dark pages; Mermaid's own are nearly white."""
XY_LOOK = {
    "xyChart": {"width": 700, "height": 300},
    "themeVariables": {"xyChart": {"plotColorPalette": COLOURS[0]}},
}
PIE_LOOK = {"themeVariables": {f"pie{n}": colour for n, colour in enumerate(COLOURS, 1)}}


def step_time_chart(rows: Sequence[Any]) -> list[str]:
    """The wall-clock time of each step, warm-up included."""
    if len(rows) <= MOST_BARS:
        return bar_chart(
            "Step time", "step", "ms", [(str(row.step), row.duration_ms) for row in rows]
        )
    return line_chart("Step time", "step", "ms", [(row.step, row.duration_ms) for row in rows])


def table_chart(name: str, rows: Sequence[Any]) -> list[str]:
    """What a table of the report shows at a glance; none of a table that has no chart."""
    if name == "kernel_classes":
        return pie_chart(
            "Device time by kind of work (percent)", [(row.title, row.total_ms) for row in rows]
        )
    if name == "gap_histogram":
        bars = [(SPAN.sub(r"\1-\3 \2", row.length), row.idle_ms) for row in rows]
        return bar_chart("Idle time by length of the gap", "gap", "ms", bars)
    return []


def text_bar(share: float) -> str:
    """A share of 1 as a bar of up to `BAR_WIDTH` characters."""
    return "█" * round(min(max(share, 0.0), 1.0) * BAR_WIDTH) if is_figure(share) else ""


def pie_chart(title: str, parts: Sequence[tuple[str, float]]) -> list[str]:
    """Lines of a pie of the largest parts, the others together; none where there are not two with a
    size."""
    sizes: dict[str, float] = {}
    for name, size in parts:
        if is_figure(size) and size > 0:
            # Of two slices of one name Mermaid draws one.
            sizes[_label(name)] = sizes.get(_label(name), 0.0) + size
    sized = sorted(sizes.items(), key=lambda part: -part[1])
    if len(sized) < 2:
        return []
    if len(sized) > MOST_SLICES:
        rest = sum(size for _, size in sized[MOST_SLICES - 1 :])
        sized = [*sized[: MOST_SLICES - 1], (_label("all others"), rest)]
    total = sum(size for _, size in sized)
    # Two decimals are all that Mermaid reads; a part that they make 0 would be an error.
    percents = [(name, 100 * part / total) for name, part in sized]
    lines = [f"    {name} : {share:.2f}" for name, share in percents if round(share, 2) > 0]
    return _chart(PIE_LOOK, f"pie showData title {_bare(title)}", lines)


def line_chart(
    title: str,
    axis: str,
    unit: str,
    points: Sequence[tuple[int, float]],
) -> list[str]:
    """Lines of a line through points with whole, rising positions; none where there are not two.
    From zero."""
    drawn = [(at, value) for at, value in points if is_figure(value)][-MOST_POINTS:]
    if len(drawn) < 2:
        return []
    across = f"{_label(axis)} {drawn[0][0]} --> {drawn[-1][0]}"
    return _xy_chart(title, across, unit, "line", [value for _, value in drawn])


def bar_chart(
    title: str,
    axis: str,
    unit: str,
    bars: Sequence[tuple[str, float]],
) -> list[str]:
    """Lines of a bar for each name, from zero; none where there are no sizes."""
    drawn = [(name, value) for name, value in bars if is_figure(value)][-MOST_POINTS:]
    names = ", ".join(_label(name) for name, _ in drawn)
    return _xy_chart(title, f"{_label(axis)} [{names}]", unit, "bar", [value for _, value in drawn])


def _xy_chart(
    title: str,
    x_axis: str,
    unit: str,
    mark: str,
    values: Sequence[float],
) -> list[str]:
    """A chart of values from zero; none where they have no size."""
    low = min((0.0, *values))
    high = max((0.0, *values))
    if low == high:
        return []
    across = f"y-axis {_label(unit or title)} {_digits(low)} --> {_digits(high)}"
    lines = (
        f"title {_label(title)}",
        f"x-axis {x_axis}",
        across,
        f"{mark} [{', '.join(map(_digits, values))}]",
    )
    return _chart(XY_LOOK, "xychart-beta", [f"    {line}" for line in lines])


def _chart(look: Mapping[str, Any], kind: str, lines: Sequence[str]) -> list[str]:
    return ["```mermaid", f"%%{{init: {json.dumps(look)}}}%%", kind, *lines, "```"]


def _label(text: str) -> str:
    return f'"{_bare(text)}"'


def _bare(text: str) -> str:
    """A text that Mermaid takes for nothing but text."""
    return (
        " ".join(
            shorten(UNSAFE.sub(" ", plain(text)), LABEL_LIMIT)
            .replace(
                "…",
                " ",
            )
            .split()
        )
        or "unnamed"
    )


def _digits(value: float) -> str:
    """A figure as Mermaid reads it: no exponent, no separators."""
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"
