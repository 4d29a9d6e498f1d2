"""Colours by meaning. Their values are the style sheet's (`assets/colours.css`), for light and for dark pages."""

import re
from functools import cache
from importlib.resources import files

from traceanalyzer.report.timeline.lanes import Category

OTHERWISE = {Category.WAIT: "idle-sync", Category.PATH_WAIT: "idle-sync"}
"""Categories whose colour is not named after themselves; what is not idle on the path is coloured as if it were."""
LIGHT = 140  # luma from which a colour asks for dark text
_DEFINED = re.compile(r"(?<![\w-])--([\w-]{1,40}+): (#[0-9a-f]{6})")


def of_category(category: Category) -> str:
    """The name of the colour of what an event of the timeline is."""
    named = category.name.lower().replace("path_", "idle_").replace("_", "-")
    return OTHERWISE.get(category, named)


@cache
def light() -> dict[str, str]:
    """The values on light pages, by name."""
    return _values()[0]


@cache
def dark() -> dict[str, str]:
    """The values on dark pages, by name."""
    return _values()[1]


def on(name: str) -> str:
    """The colour of text that can be read on a colour, as CSS has it: `light-dark()` where light and dark differ."""
    bright, dim = (_on(palette[name]) for palette in (light(), dark()))
    return bright if bright == dim else f"light-dark({bright},{dim})"


def _on(value: str) -> str:
    red, green, blue = (int(value[i : i + 2], 16) for i in (1, 3, 5))
    return "#14171c" if 0.299 * red + 0.587 * green + 0.114 * blue > LIGHT else "#ffffff"


def _values() -> tuple[dict[str, str], dict[str, str]]:
    text = (files("traceanalyzer.report.html") / "assets" / "colours.css").read_text(encoding="utf-8")
    first, _, second = text.partition("@media")
    return dict(_DEFINED.findall(first)), dict(_DEFINED.findall(second))
