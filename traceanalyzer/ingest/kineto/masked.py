"""Text of many events with zeros for the digits of its times and ids: events that repeat from step to
step are the same text then. Numbers are found by the ends of the keys before them, all at once; which
key that is need not be known here, since the text keeps it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.kineto.digits import (
    WORD,
    digits_of,
    eight_digits,
    integers_before,
    words_at_each,
)
from traceanalyzer.ingest.kineto.times import LARGEST_US
from traceanalyzer.trace import I64, U8

PAD = b" " * 32
"""Before and behind the text, so that what is looked at around a number is text, too."""
DECIMALS = 3
"""Of times in microseconds: nanoseconds."""
LONGEST_WHOLE = 16
"""Digits of a time before the point: today's have so many since 1970."""
LONGEST_TIME = LONGEST_WHOLE + 1 + DECIMALS
LONGEST_ID = 9
"""Digits of a number, which fit 32 bits. A longer number stays as it is."""
_ZERO, _POINT, _COLON, _BLANK = b"0.: "
_EVENT = b'"ph"'
_TIMES = (b'"ts"', b'"dur"', b' (GB/s)"')
_IDS = (
    b'"id"',
    b'rnal id"',
    b' number"',
    b'elation"',
    b'"Ev Idx"',
    b'corr_id"',
    b'thon id"',
    b'rent id"',
)
"""Ends of keys, at most eight bytes: those of `event_text.FIELDS`."""
_LAST_LETTERS = b"".join(key[-3:-1] for key in (_EVENT, *_TIMES, *_IDS))
_MAY_BE_KEY = np.zeros(1 << 16, bool)
"""By the last two letters of a key: whether it may be one of these."""
_MAY_BE_KEY[np.frombuffer(_LAST_LETTERS, np.uint16)] = True
_FIRST = {
    longest: np.arange(longest + 1) < np.arange(longest + 1)[:, None]
    for longest in (LONGEST_TIME, LONGEST_ID)
}
"""By a number's width: which bytes of a window that begins with it are its."""
_DECIMALS_AT_END = np.array([0, 0xFF << 40, 0xFFFF << 40, 0xFFFFFF << 40], np.uint64)
"""By how many decimals a time has: their bytes in a word that ends where three would."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers in a text: where each begins, and its length in bytes; 0 for what is no such number and
    stays as it is."""

    starts: I64
    widths: I64
    integer_widths: I64  # in bytes: what is before the point

    def select(self, places: I64 | slice) -> "Numbers":
        """Those at these places among them."""
        return Numbers(self.starts[places], self.widths[places], self.integer_widths[places])

    def whole_parts(self) -> Iterator[tuple[int, int]]:
        """Where each begins, and the bytes before its point."""
        return zip(self.starts.tolist(), self.integer_widths.tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class MaskedText:
    """Text of events, as it is and with zeros; both with `PAD` around it."""

    text: bytes
    masked: bytes
    events: I64  # where each begins: at the key `"ph"`
    times: Numbers
    ids: Numbers


def masked_text(*parts: bytes | memoryview) -> MaskedText | None:
    """The text of whole events, masked. None where a number has zeros in front, which JSON has not."""
    text = b"".join((PAD, *parts, PAD))
    buffer = bytearray(text)
    letters = np.frombuffer(buffer, np.uint8)
    colons = np.flatnonzero(letters == _COLON)
    # Two letters one by one: gathering numbers that may begin at any byte takes numpy longer.
    last_letters = letters.take(colons - 3) | letters.take(colons - 2).astype(np.uint16) << 8
    colons = colons.compress(_MAY_BE_KEY.take(last_letters))
    words = words_at_each(buffer)[colons - WORD]
    times, ids = (
        _masked(letters, _values_behind(letters, colons[_any_of(words, keys)]), longest)
        for keys, longest in ((_TIMES, LONGEST_TIME), (_IDS, LONGEST_ID))
    )
    if times is None or ids is None:
        return None
    events = colons[_any_of(words, (_EVENT,))] - len(_EVENT)
    return MaskedText(text, bytes(buffer), events, times, ids)


def _any_of(words: NDArray[np.uint64], keys: tuple[bytes, ...]) -> NDArray[np.intp]:
    """Which of the last eight bytes of keys are those of one of these keys."""
    found = np.zeros(len(words), bool)
    for key in keys:
        unknown = np.uint64(8 * (WORD - len(key)))  # bits of what stands before a short key
        known = words >> unknown if unknown else words
        found |= known == np.uint64(int.from_bytes(key, "little"))
    return np.flatnonzero(found)


def _values_behind(letters: U8, colons: I64) -> I64:
    """Where the values of these keys begin, with one blank before them or none."""
    return colons + 1 + (letters[colons + 1] == _BLANK)


def _masked(letters: U8, starts: I64, longest: int) -> Numbers | None:
    """Writes zeros over the digits of numbers that begin there. None where one has zeros in front."""
    windows = _windows(letters, longest + 1)
    found = windows[starts]
    digits = found - np.uint8(_ZERO)
    is_digit = digits <= 9
    integer_widths = is_digit.argmin(axis=1)  # 0, too, where all of it are digits
    widths = integer_widths
    if longest == LONGEST_TIME:
        widths = (is_digit | (found == _POINT)).argmin(axis=1)
    if ((digits[:, 0] == 0) & is_digit[:, 1]).any():
        return None
    digits *= is_digit & _FIRST[longest][widths]
    windows[starts] = (
        found - digits
    )  # in order: what a window has of the next number, that rewrites
    return Numbers(starts, widths, np.minimum(integer_widths, widths))


def _windows(letters: U8, width: int) -> U8:
    """The bytes from each place on, as rows of one memory."""
    return np.ndarray((len(letters) - width, width), np.uint8, letters.data, strides=(1, 1))


def ids_of(text: bytes, numbers: Numbers) -> I64:
    """The values of ids."""
    return integers_before(words_at_each(text), numbers.starts + numbers.widths, numbers.widths)


def nanoseconds_of(text: bytes, numbers: Numbers) -> I64 | None:
    """The values of times in microseconds, of which three decimals count; None where one is beyond all
    times."""
    words = words_at_each(text)
    points = numbers.starts + numbers.integer_widths
    result = integers_before(words, points, numbers.integer_widths)
    if result.max(initial=0) >= LARGEST_US:
        return None
    result *= 1000
    decimals = np.clip(numbers.widths - numbers.integer_widths - 1, 0, DECIMALS)
    around_point = words[points + 1 + DECIMALS - WORD]
    result += eight_digits(digits_of(around_point) & _DECIMALS_AT_END[decimals])
    return result
