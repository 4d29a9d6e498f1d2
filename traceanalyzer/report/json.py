"""Reports and rows as the JSON that other programs rely on: here alone is decided how a figure is
written for one."""

import codecs
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from traceanalyzer.base import regex

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report  # takes a quarter of a second to load

KEYS = (
    "schema_version",
    "tool",
    "inputs",
    "summary",
    "metrics",
    "devices",
    "findings",
    "recommendations",
    "notes",
    "tables",
    "step_parts",
    "host_parts",
)
"""In order of interest to someone who opens the file."""
DECIMALS = 6
"""Of a millisecond: nanoseconds. More digits would be noise of the floating-point format."""
MANY_ROWS = 10_000
PIECE_BYTES = 1 << 20
UNSEEN = regex(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf"
)
"""In UTF-8: DEL, the second set of control characters, marks of direction, and what takes no
place. orjson writes the first set as escapes."""
ROWS_AT_ONCE = 1_000
Change = Callable[[Any], Any]
_PLAIN = {int, bool, type(None)}
RENAMED = {"cls": "class"}  # fields that cannot have their published name in Python


class _LongTable(NamedTuple):
    """Rows that are written some at a time."""

    rows: Sequence[Any]


def render_json(report: "Report") -> str:
    """The report as indented JSON, without NaN or infinity (they are null)."""
    return dump({key: getattr(report, key) for key in KEYS})


def dump(value: Any) -> str:
    """Any report value as JSON text."""
    return b"".join(_encoded(value)).decode()


def dump_pieces(value: Any) -> Iterator[str]:
    """As `dump`, some of it at a time: of a long table neither all rows nor all of the text is held."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for part in _encoded(value):
        for at in range(0, len(part), PIECE_BYTES):
            yield decoder.decode(part[at : at + PIECE_BYTES])


def _encoded(value: Any) -> Iterator[bytes]:
    mark = os.urandom(16).hex()  # stands in no text
    tables: list[Sequence[Any]] = []

    def marked(table: _LongTable) -> str:
        tables.append(table.rows)
        return mark

    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    text = orjson.dumps(_until_written(value), default=marked, option=option)
    *parts, end = without_unseen(text).split(f'"{mark}"'.encode())
    for part, rows in zip(parts, tables, strict=True):
        yield part
        yield from _encoded_rows(rows, indent=len(part) - part.rfind(b"\n") - 1)
    yield end


def _encoded_rows(rows: Sequence[Any], indent: int) -> Iterator[bytes]:
    """Rows as they stand in a list, behind so many blanks."""
    margin = b"\n" + b" " * indent
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        plain = some if _are_plain(some) else _as_dicts(some)
        listed = orjson.dumps(plain, option=orjson.OPT_INDENT_2)
        inside = without_unseen(listed).removeprefix(b"[\n  ").removesuffix(b"\n]")
        text = inside.replace(b"\n  ", margin)
        yield b"," + margin + text if first else text


def without_unseen(text: bytes) -> bytes:
    """JSON in which what would control a terminal, or turn a line around, stands as `\\uXXXX`: it
    means the same."""
    if text.isascii() and b"\x7f" not in text:
        return text
    return UNSEEN.sub(lambda match: rf"\u{ord(match[0].decode()):04x}".encode(), text)


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    names = [f.name for f in dataclasses.fields(kind)]
    return tuple((name, RENAMED.get(name, name)) for name in names)


def as_plain(value: Any) -> Any:
    """Dataclasses as dicts, floats rounded to `DECIMALS`, not finite ones as None, text as valid
    Unicode."""
    return _written(value.__class__, as_plain)(value)


def _until_written(value: Any) -> Any:
    """As `as_plain`, but of a list of many rows one `_LongTable` is left: as dicts these would take
    more memory than their text."""
    return _written(value.__class__, _until_written)(value)


@cache
def _written(kind: type[Any], plain: Change) -> Change:
    if dataclasses.is_dataclass(kind):
        names = _names(kind)
        return lambda value: {written: plain(getattr(value, name)) for name, written in names}
    if issubclass(kind, float):
        return _float
    if issubclass(kind, str):
        return _text
    if issubclass(kind, dict):
        return lambda value: {plain(key): plain(item) for key, item in value.items()}
    if issubclass(kind, Sequence):
        return lambda value: _list(value, plain)
    return lambda value: value


def _float(value: float) -> float | None:
    # + 0.0 makes -0.0 a plain zero, float() one of numpy Python's.
    return round(float(value), DECIMALS) + 0.0 if math.isfinite(value) else None


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _list(value: Sequence[Any], plain: Change) -> Sequence[Any]:
    kinds = set(map(type, value))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not dataclasses.is_dataclass(kind):
        return list(map(plain, value))
    if plain is not _until_written or len(value) <= MANY_ROWS:
        return _as_dicts(value)
    return [_LongTable(value)]


def _as_dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    written = [name for _, name in _names(rows[0].__class__)]
    columns = zip(*plain_columns(rows), strict=True)
    return [dict(zip(written, row, strict=True)) for row in columns]


def _are_plain(rows: Sequence[Any]) -> bool:
    """Whether the writer of JSON makes of rows (dataclasses with `slots`) what this module would: each
    field, by the name that it has, is a whole number, a truth, a plain text or nothing."""
    names = _names(rows[0].__class__)
    if hasattr(rows[0], "__dict__") or any(name != written for name, written in names):
        return False  # one that is asked for its `__dict__` makes it, and holds it from then on
    columns = (map(attrgetter(name), rows) for name, _ in names)
    return all(_is_plain(value) for column in columns for value in column)


def _is_plain(value: Any) -> bool:
    kind = value.__class__
    return kind in _PLAIN or (kind is str and value.isascii())


def plain_columns(rows: Sequence[Any]) -> list[list[Any]]:
    """Rows of one dataclass as plain values, field by field: of tens of thousands in half the time
    of row by row."""
    names: Any = _names(rows[0].__class__) if rows else ()
    return [_plain_column(list(map(attrgetter(name), rows))) for name, _ in names]


def _plain_column(values: list[Any]) -> list[Any]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return values
    if kinds <= {float, type(None)}:
        return [None if number is None else _float(number) for number in values]
    if kinds <= {str, type(None)}:
        return [text if text is None or text.isascii() else as_plain(text) for text in values]
    return list(map(as_plain, values))
