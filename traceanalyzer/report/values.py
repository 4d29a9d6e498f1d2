"""Report values as plain JSON values: the one place that decides how a figure is written for a program."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any

DECIMALS = 6
"""Of a millisecond: nanoseconds. More digits would be noise of the floating-point format."""
_PLAIN = {int, bool, type(None)}
RENAMED = {"cls": "class"}
"""Fields that cannot have their published name in Python."""


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Names of the fields of a dataclass, each with its published name."""
    return tuple((f.name, RENAMED.get(f.name, f.name)) for f in dataclasses.fields(kind))


def as_plain(value: Any) -> Any:
    """Dataclasses as dicts, floats rounded to `DECIMALS`, not finite ones as None, text as valid Unicode."""
    kind = type(value)
    if kind in _PLAIN or (kind is str and value.isascii()):
        return value
    if kind is float:
        # + 0.0 makes -0.0 a plain zero.
        return round(value, DECIMALS) + 0.0 if math.isfinite(value) else None
    if dataclasses.is_dataclass(kind):
        # Tables have tens of thousands of rows: what is plain is not asked about by a call for each.
        return {
            written: field if type(field := getattr(value, name)) in _PLAIN else as_plain(field)
            for name, written in _names(kind)
        }
    if isinstance(value, dict):
        return {as_plain(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if isinstance(value, float):
        return as_plain(float(value))  # of numpy
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
