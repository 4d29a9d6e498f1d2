"""Figures as texts print them, and as sentences say them."""

import re
from collections.abc import Iterable

from traceanalyzer.base import digits, regex
from traceanalyzer.ingest.side_files import number_in

_BYTES = {
    "bytes": 1.0,
    "b": 1.0,
    "kb": 2.0**10,
    "kib": 2.0**10,
    "mb": 2.0**20,
    "mib": 2.0**20,
    "gb": 2.0**30,
    "gib": 2.0**30,
    "tb": 2.0**40,
    "tib": 2.0**40,
}
SIZE = r"(\d[\d,]{0,15}(?:\.\d{1,9})?)\s*([KMGT]i?B|bytes|B)\b"
"""A size in a pattern, as a number and a unit."""
_SIZE = regex(SIZE, re.IGNORECASE)
GIB = 2.0**30
MIB = 2.0**20


def size_of(number: str, unit: str) -> float:
    """Bytes."""
    return (number_in(number) or 0.0) * _BYTES[unit.lower()]


def size_in(text: str) -> float | None:
    """The first size in a text, bytes."""
    found = _SIZE.search(text)
    return None if found is None else size_of(found[1], found[2])


def sized(size: float) -> str:
    """Bytes as people read them: `1.25 GiB`."""
    if size >= GIB:
        return f"{digits(size / GIB)} GiB"
    return f"{digits(size / MIB)} MiB" if size >= MIB else f"{size:,.0f} bytes"


def mean(values: Iterable[float]) -> float:
    """The mean of values; 0 of none."""
    each = list(values)
    return sum(each) / len(each) if each else 0.0
