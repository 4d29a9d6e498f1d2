"""The values of many decimal numbers in a text at once. Eight digits are one 64-bit word, whose
lowest byte is the first digit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import I64

Words = NDArray[np.uint64]
WORD = 8
_ZEROS = np.uint64(0x3030303030303030)
_TO_PAIRS = np.uint64(10 * (1 << 8) + 1)
_TO_FOURS = np.uint64(100 * (1 << 16) + 1)
_TO_EIGHT = np.uint64(10_000 * (1 << 32) + 1)
"""Multiplied with it, neighbours are put together: ten times the first plus the second."""
_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_FOURS = np.uint64(0x0000FFFF0000FFFF)
_8, _16, _32 = map(np.uint64, (8, 16, 32))
_LONGEST = 3 * WORD
_BYTES_BEFORE = [max(WORD - count, 0) for count in range(_LONGEST + 1)]
_LAST_BYTES = np.array([(1 << 64) - (1 << 8 * before) for before in _BYTES_BEFORE], np.uint64)
"""By how many bytes are wanted: the last of a word."""


def words_at_each(text: Any) -> Words:
    """The word that begins at each byte of the text, as one memory with it."""
    return np.ndarray(len(text) - WORD + 1, np.uint64, text, strides=(1,))


def digits_of(words: Words) -> Words:
    """The value of each byte that is a digit; more than 9 for any other."""
    return words ^ _ZEROS


def eight_digits(digits: Words) -> I64:
    """The numbers of eight digits each, the first one the highest."""
    pairs = (digits * _TO_PAIRS >> _8) & _PAIRS
    fours = (pairs * _TO_FOURS >> _16) & _FOURS
    return (fours * _TO_EIGHT >> _32).astype(np.int64)


def last_digits(words: Words, count: I64) -> Words:
    """The values of so many bytes at the end of each word, which are digits; 0 for those before
    them."""
    return digits_of(words) & _LAST_BYTES[count]


def integers_before(words: Words, ends: I64, widths: I64) -> I64:
    """The integers of at most sixteen digits that end before these places of a text."""
    values = eight_digits(last_digits(words[ends - WORD], widths))
    longer = np.flatnonzero(widths > WORD)
    if len(longer):
        high = words[ends[longer] - 2 * WORD]
        values[longer] += 10**WORD * eight_digits(last_digits(high, widths[longer] - WORD))
    return values
