"""The values of many decimal numbers in a text at once. Eight digits are one 64-bit word, whose
lowest byte is the first digit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import I64

Words = NDArray[np.uint64]
WORD = 8
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZEROS = np.uint64(0x3030303030303030)
_TO_PAIRS = np.uint64(10 * (1 << 8) + 1)
_TO_FOURS = np.uint64(100 * (1 << 16) + 1)
_TO_EIGHT = np.uint64(10_000 * (1 << 32) + 1)
"""Multiplied with it, neighbours are put together: ten times the first plus the second."""
_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_FOURS = np.uint64(0x0000FFFF0000FFFF)
_1, _7, _8 = map(np.uint64, (1, 7, 8))
_16, _32, _56, _64 = map(np.uint64, (16, 32, 56, 64))
_LOWEST = np.uint64(0x0101010101010101)
_HIGHEST = np.uint64(0x8080808080808080)
"""One bit of each byte."""
_BEYOND_NINE = np.uint64(0x7676767676767676)
"""Added to the lower seven bits of each byte, it sets the highest where they are more than nine."""


def words_at_each(text: Any) -> Words:
    """The word that begins at each byte of the text, as one memory with it."""
    return np.ndarray(len(text) - WORD + 1, np.uint64, text, strides=(1,))


def digits_of(words: Words) -> Words:
    """The value of each byte that is a digit; more than 9 for any other."""
    return words ^ _ZEROS


def leading_digits(digits: Words) -> Words:
    """All bits of those bytes of each word that are before the first that is no digit."""
    others = ((digits & ~_HIGHEST) + _BEYOND_NINE | digits) & _HIGHEST
    first = others & (~others + _1)
    return (first >> _7) - _1


def bytes_in(mask: Words) -> I64:
    """How many bytes of each word have all bits; the others have none."""
    return ((mask & _LOWEST) * _LOWEST >> _56).astype(np.int64)


def eight_digits(digits: Words) -> I64:
    """The numbers of eight digits each, the first one the highest."""
    pairs = (digits * _TO_PAIRS >> _8) & _PAIRS
    fours = (pairs * _TO_FOURS >> _16) & _FOURS
    return (fours * _TO_EIGHT >> _32).astype(np.int64)


def integers(first: Words, second: Words, widths: I64) -> I64:
    """The integers of so many digits, at most sixteen: the first eight in one word, those behind in
    another, zeros after them."""
    bits = widths.astype(np.uint64) * _8
    before: Words = _64 - np.minimum(bits, _64)
    values = eight_digits(first << before)
    longer = np.flatnonzero(widths > WORD)
    if len(longer):
        high = first[longer]
        past = bits[longer] - _64
        low: Words = np.bitwise_or(high >> past, second[longer] << (_64 - past))
        values[longer] = eight_digits(low)
        values[longer] += 10**WORD * eight_digits(high << (_64 - past))
    return values
