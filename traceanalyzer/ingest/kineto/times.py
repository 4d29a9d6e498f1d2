"""Microseconds as a trace writes them to int64 nanoseconds, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.limits import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from msgspec import Raw

    from traceanalyzer.trace import I64

_EXACT_FLOAT_US = 2.0**43
"""Below, neighbouring floats are less than a nanosecond apart, so the nearest nanosecond is the one written."""

MAX_DURATION_US = 2.0**42
"""50 days. What claims to last longer is damaged, and would overflow when added to absolute times."""

_LEAST_TIME_NS, _MAX_TIME_NS = -(2**61), 2**62
"""The difference of any two times fits int64; today is at 2**60.6."""

_MAX_EXPONENT = 20
"""Of ten, in microseconds: beyond, a number is no time, and takes as long to write out as it is large."""


def exact_ns(text: bytes) -> int:
    """Nanoseconds of one time in microseconds, as JSON number or string; raises ValueError. Ties go to even."""
    if len(text) > limits().digits:
        raise ValueError(f"not a time: {text[:40]!r}")
    digits = text.strip(b'" ')
    whole, _, fraction = digits.partition(b".")
    if whole.isdigit() and len(fraction) <= 3 and (fraction.isdigit() or not fraction):
        ns = int(whole) * 1000 + int(fraction.ljust(3, b"0"))
    else:
        try:
            time = Decimal(digits.decode("ascii", "replace"))
            ns = int((time * 1000).to_integral_value()) if time.adjusted() < _MAX_EXPONENT else _MAX_TIME_NS + 1
        except (ArithmeticError, ValueError) as error:
            raise ValueError(f"not a time: {digits[:40]!r}") from error
    if not _LEAST_TIME_NS <= ns <= _MAX_TIME_NS:
        raise ValueError(f"not a time: {digits[:40]!r}")
    return ns


def starts_ns(texts: Sequence[bytes | Raw]) -> I64:
    """Nanoseconds of many times; raises ValueError if one of them is no time."""
    joined = b",".join(texts)
    if b'"' not in joined and b"n" not in joined:
        values = np.fromstring(joined, dtype=np.float64, sep=",")
        if len(values) == len(texts) and np.abs(values).max(initial=0.0) < _EXACT_FLOAT_US:
            return to_ns(values)
    return np.array([exact_ns(bytes(text)) for text in texts], dtype=np.int64)


def durations_ns(values: Iterable[float]) -> tuple[I64, int]:
    """Nanoseconds of many durations, and how many were negative or absurd and became 0."""
    durations = np.array(list(values), dtype=np.float64)
    sane = (durations >= 0) & (durations <= MAX_DURATION_US)
    bad = int(len(sane) - np.count_nonzero(sane))
    return to_ns(np.where(sane, durations, 0.0) if bad else durations), bad


def to_ns(microseconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> I64:
    """Nearest nanosecond of float microseconds below 2**43; the fraction is scaled alone to lose nothing."""
    whole = np.floor(microseconds)
    result: I64 = whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)
    return result
