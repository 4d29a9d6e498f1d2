"""Microseconds as a trace writes them to int64 nanoseconds, exactly."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from msgspec import Raw

from traceanalyzer.base.limits import limits
from traceanalyzer.trace import I64

EXACT_FLOAT_US = 2.0**43
"""Below, neighbouring floats are less than a nanosecond apart, so the nearest nanosecond is the one
written."""
MAX_DURATION_US = 2.0**42
"""50 days. What claims to last longer is damaged, and would overflow when added to absolute
times."""
_LEAST_TIME_NS = -(2**61)  # the difference of any two times fits int64; today is at 2**60.6
_MAX_TIME_NS = 2**62
LARGEST_US = _MAX_TIME_NS // 1000
_ONE_FORM_AT_LEAST = 32
"""Of fewer times it takes longer to see whether they are written alike than to read each."""
_LONGEST = 24  # bytes of a time and the comma after it, where the digits are read as a table
_DECIMALS = 3
_POWERS = 10.0 ** np.arange(_LONGEST)[::-1]
_ZERO, _POINT, _COMMA = b"0.,"
_MAX_EXPONENT = 20
"""Of ten, in us: beyond, a number is no time, and takes as long to write out as it is large."""


def exact_ns(text: bytes) -> int:
    """Nanoseconds of one time in microseconds, as JSON number or string; raises ValueError. Ties go
    to even."""
    if len(text) > limits().digits:
        raise ValueError(f"not a time: {text[:40]!r}")
    digits = text.strip(b'" ')
    microseconds, _, fraction = digits.partition(b".")
    if microseconds.isdigit() and len(fraction) <= 3 and (fraction.isdigit() or not fraction):
        ns = int(microseconds) * 1000 + int(fraction.ljust(3, b"0"))
    else:
        try:
            time = Decimal(digits.decode("ascii", "replace"))
            ns = (
                int((time * 1000).to_integral_value())
                if time.adjusted() < _MAX_EXPONENT
                else _MAX_TIME_NS + 1
            )
        except (ArithmeticError, ValueError) as error:
            raise ValueError(f"not a time: {digits[:40]!r}") from error
    if not _LEAST_TIME_NS <= ns <= _MAX_TIME_NS:
        raise ValueError(f"not a time: {digits[:40]!r}")
    return ns


def times_ns(times: Sequence[Any]) -> I64:
    """Nanoseconds of many times, all as text or all as numbers that a float holds exactly; raises
    ValueError if one of them is no time."""
    if times and isinstance(times[0], float):
        return to_ns(np.fromiter(times, np.float64, len(times)))
    return starts_ns(times)


def starts_ns(texts: Sequence[bytes | Raw]) -> I64:
    """Nanoseconds of many times as text; raises ValueError if one of them is no time."""
    joined = b",".join(texts)
    alike = _of_one_form(joined, len(texts))
    if alike is not None:
        return alike
    if b'"' not in joined and b"n" not in joined:
        values = np.fromstring(joined, dtype=np.float64, sep=",")
        if len(values) == len(texts) and np.abs(values).max(initial=0.0) < EXACT_FLOAT_US:
            return to_ns(values)
    return np.array([exact_ns(bytes(text)) for text in texts], dtype=np.int64)


def _of_one_form(joined: bytes, count: int) -> I64 | None:
    """Nanoseconds of times with as many digits each, of them three decimals or none, as recorders
    write them; None where they are not. Digits are summed by their places, which floats do exactly
    up to the largest time there is."""
    width = (len(joined) + 1) // max(count, 1)
    if (
        count < _ONE_FORM_AT_LEAST
        or width * count != len(joined) + 1
        or not _DECIMALS + 2 < width <= _LONGEST
    ):
        return None
    text = np.frombuffer(joined + b",", np.uint8).reshape(count, width)
    point = width - 2 - _DECIMALS if text[0, width - 2 - _DECIMALS] == _POINT else width - 1
    digits = text - np.uint8(_ZERO)
    no_digit = np.zeros(width, bool)
    no_digit[[point, width - 1]] = True
    if (
        ((digits > 9) != no_digit).any()
        or (text[:, point] != text[0, point]).any()
        or (text[:, -1] != _COMMA).any()
    ):
        return None
    microseconds = digits[:, :point] @ _POWERS[-point:]
    if microseconds.max() >= LARGEST_US:
        return None
    result: I64 = microseconds.astype(np.int64) * 1000
    if point < width - 1:
        result += (digits[:, point + 1 : -1] @ _POWERS[-_DECIMALS:]).astype(np.int64)
    return result


def durations_ns(values: Sequence[float]) -> tuple[I64, int]:
    """Nanoseconds of many durations, and how many were negative or absurd and became 0."""
    durations = np.fromiter(values, np.float64, len(values))
    insane = ~((durations >= 0) & (durations <= MAX_DURATION_US))
    durations[insane] = 0.0
    return to_ns(durations), int(np.count_nonzero(insane))


def to_ns(microseconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> I64:
    """Nearest nanosecond of float microseconds below 2**43; the fraction is scaled alone to lose
    nothing."""
    result = np.floor(microseconds)
    rest = microseconds - result
    rest *= 1000
    result *= 1000  # as exact as the microseconds are
    return (result + np.rint(rest, out=rest)).astype(np.int64)
