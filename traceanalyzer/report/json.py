"""Reports and rows as the JSON that other programs rely on: here alone is decided how a figure is
written for one."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson

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
_PLAIN = {int, bool, type(None)}
RENAMED = {"cls": "class"}  # fields that cannot have their published name in Python


def render_json(report: "Report") -> str:
    """The report as indented JSON, without NaN or infinity (they are null)."""
    return dump({key: getattr(report, key) for key in KEYS})


def dump(value: Any) -> str:
    """Any report value as JSON text."""
    return orjson.dumps(
        as_plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    ).decode()


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    names = [f.name for f in dataclasses.fields(kind)]
    return tuple((name, RENAMED.get(name, name)) for name in names)


def as_plain(value: Any) -> Any:
    """Dataclasses as dicts, floats rounded to `DECIMALS`, not finite ones as None, text as valid
    Unicode."""
    return _written(value.__class__)(value)


@cache
def _written(kind: type[Any]) -> Callable[[Any], Any]:
    if dataclasses.is_dataclass(kind):
        names = _names(kind)
        return lambda value: {written: as_plain(getattr(value, name)) for name, written in names}
    if issubclass(kind, float):
        return _float
    if issubclass(kind, str):
        return _text
    if issubclass(kind, dict):
        return lambda value: {as_plain(key): as_plain(item) for key, item in value.items()}
    return _list if issubclass(kind, list | tuple) else lambda value: value


def _float(value: float) -> float | None:
    # + 0.0 makes -0.0 a plain zero, float() one of numpy Python's.
    return round(float(value), DECIMALS) + 0.0 if math.isfinite(value) else None


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _list(value: Sequence[Any]) -> list[Any]:
    kinds = set(map(type, value))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or not dataclasses.is_dataclass(kind):
        return list(map(as_plain, value))
    written = [name for _, name in _names(kind)]
    rows = zip(*plain_columns(value), strict=True)
    return [dict(zip(written, row, strict=True)) for row in rows]


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
