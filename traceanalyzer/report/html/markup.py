"""HTML written so that no text can become markup: `tag()` escapes every child and attribute that is
not `Markup`."""

from functools import cache, lru_cache
from html import escape

from traceanalyzer.report.format import plain

VOID = frozenset(("br", "input", "meta"))  # elements without an end tag
TEXTS = 4096  # that are remembered as HTML: most cells and attributes of a page say what others say


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(
    name: str, /, *children: str | None, **attributes: str | int | float | bool | None
) -> Markup:
    """An element. Children that are None are left out, and attributes that are None or False; True
    stands without a value; `class_` is `class`, and other underscores are hyphens."""
    start = f"<{name}"
    for key, value in attributes.items():
        if value is True:
            start += f" {_published(key)}"
        elif value is not None and value is not False:
            start += f' {_published(key)}="{value if isinstance(value, int | float) else as_markup(value)}"'
    return Markup(f"{start}>" if name in VOID else f"{start}>{join(*children)}</{name}>")


def join(*children: str | None) -> Markup:
    """Children one after the other."""
    return Markup("".join([as_markup(child) for child in children if child is not None]))


def prose(value: str) -> Markup:
    """A sentence in which what stands between backticks is code; an odd backtick stays."""
    parts = value.split("`")
    if isinstance(value, Markup) or len(parts) % 2 == 0:
        return as_markup(value)
    return join(*(tag("code", part) if i % 2 else part for i, part in enumerate(parts)))


def as_markup(value: str) -> Markup:
    """Text as HTML: markup as it is, anything else on one line, without control characters,
    escaped."""
    return value if isinstance(value, Markup) else _escaped(value)


@lru_cache(maxsize=TEXTS)
def _escaped(value: str) -> Markup:
    return Markup(escape(plain(value)))


@cache
def _published(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
