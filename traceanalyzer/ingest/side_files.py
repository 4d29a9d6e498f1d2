"""Small JSON files beside a recording. A bad one costs what it would have said, never the
recording."""

import math
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.files import read_whole

LARGEST = 1e15
LEAST = 1e-9
"""No figure of a side file (MHz, GB/s, TFLOP/s, ms, samples) is larger, nor smaller where it has to
be above zero."""
NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError, MemoryError)
"""What decoding text that is not JSON may raise: bytes that are not UTF-8, and brackets in
brackets, too."""
_ANY = msgspec.json.Decoder(Any)


def mapping(value: object) -> dict[str, Any]:
    """The object that JSON has there; an empty one where it has something else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """What the list has that JSON has there; nothing where it has something else."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects in the list that JSON has there."""
    return [one for one in items(value) if isinstance(one, dict)]


def decoded(text: bytes | str | msgspec.Raw, decoder: msgspec.json.Decoder[Any] = _ANY) -> Any:
    """What the JSON says; None where it is none, or nothing that the decoder knows."""
    try:
        return decoder.decode(text)
    except NOT_JSON:
        return None


def json_object(path: Path) -> dict[str, Any] | None:
    """The object in a file, None where there is none."""
    values = decoded(_bytes_of(path))
    return values if isinstance(values, dict) else None


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line; damaged lines (a killed writer's last one) are left
    out."""
    return mappings(list(map(decoded, _bytes_of(path).splitlines())))


def _bytes_of(path: Path) -> bytes:
    try:
        return read_whole(path)
    except (OSError, UnreadableInputError):
        return b""


def is_number(value: object, most: float = LARGEST) -> TypeGuard[float]:
    """Whether the value is a figure that a side file may state."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def is_above_zero(value: object) -> TypeGuard[float]:
    """Whether the value is a figure above zero."""
    return is_number(value) and value >= LEAST


def whole(text: object, digits: int = 18) -> int:
    """The whole number that a text of at most so many digits is (18 fit 64 bits); -1 for all
    else."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= digits else -1


def number_in(text: str) -> float | None:
    """The number that a text is, without thousands separators; None where it is none, or out of all
    reason."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= LARGEST else None
