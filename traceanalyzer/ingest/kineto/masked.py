"""Text of many events with zeros for the digits of its times and ids: events that repeat from step to
step are the same text then. Numbers are found by the ends of the keys before them, all at once; which
key that is need not be known here, since the text keeps it.
"""

from collections.abc import Iterator

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.kineto.digits import (
    ALL_BITS,
    WORD,
    Words,
    bytes_in,
    digits_of,
    eight_digits,
    integers,
    leading_digits,
    words_at_each,
)
from traceanalyzer.ingest.kineto.times import LARGEST_US
from traceanalyzer.trace import I64, U8, Bool

PAD = b" " * 48
"""Before and behind the text, so that what is looked at around a number is text, too."""
DECIMALS = 3
"""Of times in microseconds: nanoseconds."""
AT_ONCE = 2 * WORD
"""Digits that are looked at together."""
LONGEST_WHOLE = AT_ONCE
"""Digits of a time before the point: today's have so many since 1970."""
LONGEST_ID = 9
"""Digits of a number, which fit 32 bits. A longer number stays as it is."""
BEYOND_ALL_TIMES = -1
"""The value of such a number, which is no time."""
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
_TWO_WORDS = np.dtype((np.void, AT_ONCE))
_BEHIND_DECIMALS = np.uint64(8 * (WORD - DECIMALS))
"""Bits of a word whose first bytes are decimals: without them these are its last."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers in a text: where each begins, and its length in bytes; 0 for what is no such number and
    stays as it is."""

    starts: I64
    widths: I64
    integer_widths: I64  # in bytes: what is before the point
    values: I64  # ns of times, of which three decimals count; ids as they are

    def select(self, places: slice) -> "Numbers":
        """Those at these places among them."""
        return Numbers(
            self.starts[places],
            self.widths[places],
            self.integer_widths[places],
            self.values[places],
        )

    def whole_parts(self) -> Iterator[tuple[int, int]]:
        """Where each begins, and the bytes before its point."""
        return zip(self.starts.tolist(), self.integer_widths.tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class MaskedText:
    """Text of events, as it is and with zeros; both with `PAD` around it."""

    text: bytes
    masked: bytes
    events: I64  # where each begins: at the key `"ph"`
    numbers: Numbers  # times and ids, in the order of the text


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
    is_time = _is_any_of(words, _TIMES)
    keys = np.flatnonzero(is_time | _is_any_of(words, _IDS))
    numbers = _masked(letters, _values_behind(letters, colons[keys]), is_time[keys])
    if numbers is None:
        return None
    events = colons[_is_any_of(words, (_EVENT,))] - len(_EVENT)
    return MaskedText(text, bytes(buffer), events, numbers)


def _is_any_of(words: Words, keys: tuple[bytes, ...]) -> Bool:
    """Whether the last eight bytes of each key are those of one of these keys."""
    found = np.zeros(len(words), bool)
    for key in keys:
        unknown = np.uint64(8 * (WORD - len(key)))  # bits of what stands before a short key
        known = words >> unknown if unknown else words
        found |= known == np.uint64(int.from_bytes(key, "little"))
    return found


def _values_behind(letters: U8, colons: I64) -> I64:
    """Where the values of these keys begin, with one blank before them or none."""
    return colons + 1 + (letters.take(colons + 1) == _BLANK)


def _masked(letters: U8, starts: I64, is_time: Bool) -> Numbers | None:
    """Writes zeros over the digits of the numbers that begin there. None where one has zeros in
    front."""
    begins_with_zero = letters.take(starts) == _ZERO
    integer_widths, first, second = _zeroed(
        letters, starts, np.where(is_time, LONGEST_WHOLE, LONGEST_ID)
    )
    if (begins_with_zero & (integer_widths > 1)).any():
        return None
    values = integers(first, second, integer_widths)
    values[is_time & (values >= LARGEST_US)] = BEYOND_ALL_TIMES
    widths = integer_widths.copy()
    times = np.flatnonzero(is_time)
    values[times] *= 1000
    has_point = (letters.take((starts + widths)[times]) == _POINT) & (widths[times] > 0)
    with_decimals = times.compress(has_point)
    decimal_widths, decimals = _decimals(letters, (starts + widths)[with_decimals] + 1)
    widths[with_decimals] += 1 + decimal_widths
    values[with_decimals] += decimals
    return Numbers(starts, widths, integer_widths, values)


def _decimals(letters: U8, starts: I64) -> tuple[I64, I64]:
    """Writes zeros over the decimals that begin there: how many each number has, and the first three
    as an integer."""
    widths, first, _ = _zeroed(letters, starts)
    longer = np.flatnonzero(widths == AT_ONCE)
    if len(longer):
        widths[longer] += _zeroed(letters, starts[longer] + AT_ONCE)[0]
    return widths, eight_digits(first << _BEHIND_DECIMALS)


def _zeroed(letters: U8, starts: I64, longest: I64 | None = None) -> tuple[I64, Words, Words]:
    """Writes zeros over the digits that begin there, at most `AT_ONCE`; a number with more of them
    than `longest` stays. How many these are, and the words with the values of the first eight and the
    next eight, zeros behind."""
    windows = np.ndarray(len(letters) - AT_ONCE, _TWO_WORDS, letters.data, strides=(1,))
    found = windows[starts].view(np.uint64).reshape(-1, 2)
    digits = digits_of(found)
    masks = leading_digits(digits)
    masks[:, 1] = np.where(masks[:, 0] == ALL_BITS, masks[:, 1], 0)
    widths = bytes_in(masks[:, 0]) + bytes_in(masks[:, 1])
    if longest is not None:
        goes_on = letters.take(starts + widths) - np.uint8(_ZERO) <= 9
        stays = np.flatnonzero((widths > longest) | goes_on)
        widths[stays] = 0
        masks[stays] = 0
    digits &= masks
    # In order: what a window has of the next number, the next one rewrites.
    windows[starts] = (found ^ digits).view(_TWO_WORDS)[:, 0]
    return widths, digits[:, 0], digits[:, 1]
