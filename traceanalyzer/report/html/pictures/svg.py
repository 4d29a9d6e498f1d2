"""Draws a `Plot` as SVG. In the page a picture is as wide as its column: places across are shares
of the width, texts keep their size. Drawn for a width, it stands alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from traceanalyzer.base import dataclass, regex
from traceanalyzer.report.format import shorten
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.pictures import plot as of
from traceanalyzer.report.html.pictures.colours import on

CHARACTER_PX = 6.9  # a character of 12 px text, on average
EDGE_PX = 10  # room: at the top, to the right, for numbers, for a title
RIGHT_PX = 18
BELOW_PX = 22
TITLE_PX = 18
MAX_LEFT_PX = 130
LEAST_PX = 34.0
"""Narrower boxes of a picture of `USUAL_PX` have only written into them what fits in full."""
USUAL_PX = 1000  # width of a picture on a screen, and on a telephone
NARROW_PX = 330
LEAST_WORDS = 12
FEW_TICKS = 4  # of more, a narrow page shows every second one
FAR = 0.5  # words to the right of what lies farther across stand to its left
SIDE = 1000
"""Units of the box in which lines are drawn, on each side."""
FINE_SIDE = 1_000_000
"""Units across of a line that can be looked at a thousand times as wide."""
_ASIDE = regex(r" \([^()]*\)")


def drawn(plot: of.Plot, height: int, label: str, width: int | None = None) -> Markup:
    """The picture, `height` px high; `label` tells what it shows to who does not see it."""
    across = of.scale_of(plot.x, plot.marks, "x")
    along = of.scale_of(plot.y, plot.marks, "y")
    left = _left_px(plot.y, along)
    below = 0 if plot.x.hidden else BELOW_PX + (TITLE_PX if plot.x.title else 0)
    top = EDGE_PX + (TITLE_PX if plot.y.title and not plot.y.hidden else 0)
    inner = height - top - below
    area = _Area(across, along, inner, plot.down)
    frame = _Frame.in_page(left) if width is None else _Frame.alone(left, width)
    title = None
    if top > EDGE_PX:
        title = tag("text", plot.y.title, x=frame.begin - left, y=12, class_="axis")
    marks = (_mark(area, mark, width is not None) for mark in plot.marks)
    lines = [*_down(area, plot.y), *_across(area, plot.x)]
    grid = tag("g", *lines, class_="grid", style="fill:var(--quiet)")
    body = tag(
        "svg",
        grid,
        *marks,
        x=frame.begin,
        y=top,
        width=frame.across,
        height=inner,
        overflow="visible",
    )
    return tag(
        "svg",
        title,
        body,
        width=width,
        height=height,
        role="img",
        aria_label=label,
        class_="picture",
        font_size=12,
        font_family="system-ui, sans-serif",
        style=f"{frame.style}fill:var(--text)",
        **frame.attributes,
    )


@dataclass(frozen=True)
class _Frame:
    """Where a picture stands across."""

    begin: int  # px
    across: int | str  # width of what is drawn
    style: str
    attributes: dict[str, Any]

    @classmethod
    def in_page(cls, left: int) -> "_Frame":
        """The room to the left is a margin: what is across is then a share of the rest, however
        wide that is."""
        style = f"margin-left:{left}px;width:calc(100% - {left + RIGHT_PX}px);"
        return cls(0, "100%", style, {"tabindex": 0})

    @classmethod
    def alone(cls, left: int, width: int) -> "_Frame":
        """A picture of its own, so many px wide."""
        return cls(left, width - left - RIGHT_PX, "", {"xmlns": "http://www.w3.org/2000/svg"})


def _left_px(axis: of.Axis, scale: of.AxisScale) -> int:
    """Room for what stands at the vertical axis."""
    if axis.hidden:
        return 2
    ticks = of.ticks(axis, scale)
    longest = max((len(text) for _, text in ticks), default=0)
    return min(round(longest * CHARACTER_PX) + 12, MAX_LEFT_PX)


class _Area:
    """Where marks are drawn: across in shares of its width, down in px."""

    def __init__(self, across: of.AxisScale, along: of.AxisScale, height: int, down: bool) -> None:
        self.across = across
        self.along = along
        self.height = height
        self.down = down

    def x(self, value: float) -> str:
        return f"{100 * self.across.at(value):.5g}%"

    def y(self, value: float) -> float:
        share = self.along.at(value)
        return round(self.height * (share if self.down else 1.0 - share), 1)


def _down(area: _Area, axis: of.Axis) -> Iterator[Markup]:
    if axis.hidden:
        return
    room = int(MAX_LEFT_PX / CHARACTER_PX) - 1
    for value, text in of.ticks(axis, area.along):
        y = area.y(value)
        if axis.names is None:
            yield tag("line", x1=0, x2="100%", y1=y, y2=y, style="stroke:var(--line)")
        words = text if len(text) <= room else text[: room - 1] + "…"
        yield tag("text", words, x=-6, y=y + 4, text_anchor="end")


def _across(area: _Area, axis: of.Axis) -> Iterator[Markup]:
    if axis.hidden:
        return
    shown = of.ticks(axis, area.across)
    for place, (value, text) in enumerate(shown):
        x = area.x(value)
        if axis.names is None:
            yield tag("line", x1=x, x2=x, y1=0, y2=area.height, style="stroke:var(--line)")
        yield tag(
            "text",
            text,
            x=x,
            y=area.height + 15,
            text_anchor="middle",
            class_="minor" if place % 2 and len(shown) > FEW_TICKS else None,
        )
    if axis.title:
        yield tag(
            "text",
            axis.title,
            x="50%",
            y=area.height + 15 + TITLE_PX,
            text_anchor="middle",
            class_="axis",
        )


def _mark(area: _Area, mark: of.Mark, alone: bool) -> Markup:
    if isinstance(mark, of.Rects):
        return tag("g", *_rects(area, mark), style=f"fill:var(--{mark.colour})")
    if isinstance(mark, of.Lines):
        return _line(area, mark)
    if isinstance(mark, of.Dots):
        return tag(
            "g",
            *_dots(area, mark, alone=alone),
            style=f"fill:var(--{mark.colour})",
            fill_opacity=0.75,
        )
    return tag("g", *_words(area, mark, alone=alone))


def _rects(area: _Area, mark: of.Rects) -> Iterator[Markup]:
    for box in mark.boxes:
        sides = (area.across.at(box.x0), area.across.at(box.x1))
        left, right = sorted(sides)
        high, low = sorted((area.y(box.y0), area.y(box.y1)))
        place: dict[str, Any] = {
            "x": f"{100 * left:.5g}%",
            "width": f"{100 * (right - left):.4g}%",
            "y": high,
        }
        yield tag(
            "rect",
            **place,
            height=round(low - high, 1),
            style=f"fill:var(--{box.colour})" if box.colour else None,
            data_def=box.hint or None,
            fill_opacity=None if box.strength >= 1.0 else round(box.strength, 2),
        )
        words = _written(
            box, (right - left) * USUAL_PX, (low - high) / 2 + 4, box.colour or mark.colour
        )
        if words is not None:
            # A box of its own cuts what a narrow page has no room for.
            yield tag("svg", words, **place, height=round(low - high, 1), pointer_events="none")


def _written(box: of.Box, width: float, y: float, colour: str) -> Markup | None:
    """The text in a box so many px wide on a usual page; None where it has none, or no room for
    it."""
    roomy = width >= LEAST_PX
    room = int((width - (4 if roomy else 2)) / CHARACTER_PX)
    if not box.text or (not roomy and len(box.text) > room):
        return None
    shown = box.text if len(box.text) <= room else box.text[: room - 1] + "…"
    fits = len(shown) * CHARACTER_PX + 4 < width * NARROW_PX / USUAL_PX
    place = {"x": 4 if roomy else 2, "y": y}
    return tag("text", shown, **place, style=f"fill:{on(colour)}", class_=None if fits else "minor")


def _line(area: _Area, mark: of.Lines) -> Markup:
    """The line (or the area below it) in a box of `SIDE` by `SIDE`, which is stretched; its width
    is not. Hints of its points are in circles that are not seen."""
    dots = [
        tag(
            "circle",
            cx=area.x(x),
            cy=area.y(y),
            r=5,
            data_def=hint,
        )
        for x, y, hint in zip(
            mark.x,
            mark.y,
            () if mark.base else mark.hints,
            strict=False,
        )
    ]
    way = _fine_path if mark.fine else _path
    path = way(area, mark.x, mark.y, mark.steps, "M")
    colour = f"var(--{mark.colour})"
    if mark.base:
        # Back along the base, where a step falls before it goes on.
        back = way(
            area,
            mark.x[::-1],
            mark.base[::-1],
            mark.steps,
            "L",
            falls_first=True,
        )
        shape = tag(
            "path",
            d=f"{path}{back}Z",
            style=f"fill:{colour}",
            data_def=mark.hints[0] if mark.hints else None,
        )
    else:
        shape = tag(
            "path",
            d=path,
            fill="none",
            stroke_width=1.5,
            stroke_dasharray=mark.dash or None,
            style=f"stroke:{colour}",
            vector_effect="non-scaling-stroke",
        )
    drawn = tag(
        "svg",
        shape,
        viewBox=f"0 0 {FINE_SIDE if mark.fine else SIDE} {SIDE}",
        preserveAspectRatio="none",
        width="100%",
        height=area.height,
        overflow="visible",
    )
    return join(drawn, tag("g", *dots, fill_opacity=0) if dots else None)


def _path(
    area: _Area,
    x: Sequence[float],
    y: Sequence[float],
    steps: bool,
    first: str,
    *,
    falls_first: bool = False,
) -> str:
    """The way through some points, as SVG writes it."""
    points = [
        (SIDE * area.across.at(a), SIDE * (area.y(b) / area.height))
        for a, b in zip(x, y, strict=True)
    ]
    way = (
        ("V{1:.4g}H{0:.4g}" if falls_first else "H{0:.4g}V{1:.4g}") if steps else "L{0:.4g} {1:.4g}"
    )
    return "".join(
        way.format(a, b) if i else f"{first}{a:.4g} {b:.4g}" for i, (a, b) in enumerate(points)
    )


def _fine_path(
    area: _Area,
    x: Sequence[float],
    y: Sequence[float],
    steps: bool,
    first: str,
    *,
    falls_first: bool = False,
) -> str:
    """The way through some points in `FINE_SIDE` units across: from each to the next in whole
    units, which takes the fewest characters."""
    across = [round(FINE_SIDE * area.across.at(value)) for value in x]
    down = [round(SIDE * (area.y(value) / area.height)) for value in y]
    step = ("v{1}h{0}" if falls_first else "h{0}v{1}") if steps else "l{0} {1}"
    moves = (
        step.format(right - left, below - above)
        for (left, right), (above, below) in zip(pairwise(across), pairwise(down), strict=True)
    )
    return f"{first}{across[0]} {down[0]}{''.join(moves)}" if across else ""


def _dots(area: _Area, mark: of.Dots, *, alone: bool) -> Iterator[Markup]:
    """Dots and their names; a page too narrow for a name shortens it."""
    for dot in mark.dots:
        yield tag(
            "circle",
            cx=area.x(dot.x),
            cy=area.y(dot.y),
            r=dot.radius_px,
            data_def=dot.hint or None,
        )
        if dot.text:
            at = area.across.at(dot.x)
            aside = dot.radius_px + 4
            beyond = at > FAR
            room = int(((at if beyond else 1 - at) * NARROW_PX - aside) / CHARACTER_PX)
            short = shorten(dot.text, max(room, LEAST_WORDS))
            fits = alone or short == dot.text
            texts = [(dot.text, "label")]
            if not fits:
                texts = [(dot.text, "label minor"), (short, "label short")]
            for text, class_ in texts:
                yield tag(
                    "text",
                    text,
                    x=area.x(dot.x),
                    y=area.y(dot.y) + 4,
                    dx=-aside if beyond else aside,
                    class_=class_,
                    text_anchor="end" if beyond else None,
                    style="fill:var(--text)",
                    fill_opacity=1,
                )


def _words(area: _Area, mark: of.PlotTexts, *, alone: bool) -> Iterator[Markup]:
    """Texts; a page too narrow for one shows it without what stands in brackets, shortened, or to
    the left."""
    for x, y, text in mark.words:
        room = int((1 - area.across.at(x)) * NARROW_PX / CHARACTER_PX)
        place: dict[str, Any] = {"x": area.x(x), "y": area.y(y) + 4}
        fits = len(text) <= room
        short = text if fits else _ASIDE.sub("", text)
        if fits or alone:
            yield tag("text", text, **place, dx=5)
            continue
        yield tag("text", text, **place, dx=5, class_="minor")
        left = area.across.at(x) > FAR and len(short) > room
        words = short if left else shorten(short, max(room, LEAST_WORDS))
        yield tag(
            "text",
            words,
            **place,
            dx=-5 if left else 5,
            text_anchor="end" if left else None,
            class_="short",
        )
