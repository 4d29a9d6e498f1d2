"""Colours by meaning. Their values are the style sheet's (`assets/colours.css`), for light and for
dark pages."""

from functools import cache
from pathlib import Path

from traceanalyzer.base import regex
from traceanalyzer.report.timeline.lanes import Category

ASSETS = Path(__file__).parents[1] / "assets"
LIGHT = 140  # luma from which a colour asks for dark text
_DEFINED = regex(r"(?<![\w-])--([\w-]{1,40}+): (#[0-9a-f]{6})")


def of_category(category: Category) -> str:
    """The name of the colour of what an event of the timeline is."""
    if category in (Category.WAIT, Category.PATH_WAIT):
        return "idle-sync"
    return category.name.lower().replace("path_", "idle_").replace("_", "-")


def light() -> dict[str, str]:
    """The values on light pages, by name."""
    return palettes()[0]


def on(name: str) -> str:
    """The colour of text that can be read on a colour, as CSS has it: `light-dark()` where light
    and dark differ."""
    texts = []
    for palette in palettes():
        digits = palette[name]
        red = int(digits[1:3], 16)
        green = int(digits[3:5], 16)
        blue = int(digits[5:7], 16)
        brightness = 0.299 * red + 0.587 * green + 0.114 * blue
        texts.append("#14171c" if brightness > LIGHT else "#ffffff")
    return texts[0] if texts[0] == texts[1] else f"light-dark({texts[0]},{texts[1]})"


@cache
def palettes() -> tuple[dict[str, str], dict[str, str]]:
    """The values by name, on light pages and on dark ones."""
    text = (ASSETS / "colours.css").read_text(encoding="utf-8")
    first, _, second = text.partition("@media")
    return dict(_DEFINED.findall(first)), dict(_DEFINED.findall(second))
