"""Where values stand among sorted keys, in what order, and which strings a test picks out, without
a loop over rows."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import AT_ONCE, blocks
from traceanalyzer.analysis.algebra.percentiles import median_of
from traceanalyzer.base import regex
from traceanalyzer.trace import F64, I32, I64, Bool, distinct, is_sorted, near

FEW = 256  # so few are looked for one by one
MANY = 8  # so many times more values than keys are many
MANY_TEXTS = 1 << 12
"""Ordinary recordings have fewer strings; more are numbered steps, requests or layers."""
_LETTER = regex(r"[^\W\d_]")
_KEPT = 8
"""Lists of strings that are remembered: those of the ranks of a run are asked about by turns."""
_NUMBER = regex(r"(?<![^\W_])\d+(?![^\W_])|\d{4,}")
"""A number that stands alone or is long: `#12`, `layer_3`, `op12345`, but no part of a word (`fp16`,
`sm80`)."""


class Column(Protocol):
    """Numbers that are asked for by row: an array, or what makes one of those that are asked
    for."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...

    def take(self, rows: Any, /) -> Any:
        """The numbers of these rows."""
        ...


class LookedUp:
    """A column whose numbers are made when they are asked for; `column[:]` is all of them."""

    def __getitem__(self, rows: Any, /) -> Any:
        raise NotImplementedError

    def take(self, rows: Any, /) -> Any:
        """The column in these rows, as of an array."""
        return self[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy  # it is one in any case
        return np.asarray(self[:], dtype)


SIGMA_OF_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def local_searchsorted(
    keys: NDArray[Any], values: NDArray[Any], side: Literal["left", "right"] = "left"
) -> I64:
    """`np.searchsorted(keys, values, side)`, faster where neighbouring values are near each other:
    these are looked for in their part of the keys alone, and where they ascend all at once."""
    if len(values) < FEW:
        return np.searchsorted(keys, values, side=side)
    result = np.empty(len(values), np.int64)
    for i in range(0, len(values), AT_ONCE):
        block = values[i : i + AT_ONCE]
        ends = (block.min(), block.max())
        low, high = np.searchsorted(keys, ends, side=side).tolist()
        find = _places_of_ascending if is_sorted(block) else np.searchsorted
        places = find(keys[low:high], block, side)
        np.add(places, low, out=result[i : i + AT_ONCE])
    return result


def _places_of_ascending(
    keys: NDArray[Any], values: NDArray[Any], side: Literal["left", "right"]
) -> I64:
    """`np.searchsorted(keys, values, side)` of values that ascend as the keys do."""
    if len(keys) * MANY < len(values):  # the few are looked for among the many
        other: Literal["left", "right"] = "right" if side == "left" else "left"
        edges = np.searchsorted(values, keys, side=other)
        runs = np.diff(edges, prepend=0, append=len(values))
        return np.repeat(np.arange(len(keys) + 1), runs)
    if len(keys) > len(values) * 2:
        return np.searchsorted(keys, values, side=side)
    # Sorting merges what is sorted: a third of the time of as many searches.
    if side == "left":
        is_value = np.concatenate((values, keys)).argsort(kind="stable") < len(values)
    else:
        is_value = np.concatenate((keys, values)).argsort(kind="stable") >= len(keys)
    return np.flatnonzero(is_value) - np.arange(len(values))


def isin_few(values: NDArray[Any], wanted: Iterable[int]) -> Bool:
    """Which of the values are among these few; comparing takes a tenth of the time of `np.isin`."""
    result = np.zeros(values.shape, bool)
    is_equal = np.empty(values.shape, bool)
    for number in wanted:
        result |= np.equal(values, number, out=is_equal)
    return result


def isin(values: I32 | I64, wanted: I32 | I64) -> Bool:
    """Which of the values are among these; where they lie far apart, numpy's sorts all values."""
    return look_up(distinct(wanted), values) >= 0


def flatnonzero32(wanted: Bool) -> I32:
    """`np.flatnonzero` in half the memory, on the way as well."""
    result = np.empty(np.count_nonzero(wanted), np.int32)
    found = 0
    for block in blocks(len(wanted)):
        rows = np.flatnonzero(wanted[block])
        result[found : found + len(rows)] = rows + block.start
        found += len(rows)
    return result


def rows_or_slice(wanted: Bool) -> slice | I64:
    """The wanted rows, as a slice where they follow each other: what is taken of them is then not
    copied."""
    if not wanted.any():
        return np.empty(0, np.int64)
    first = int(wanted.argmax())
    stop = len(wanted) - int(wanted[::-1].argmax())
    return slice(first, stop) if wanted[first:stop].all() else np.flatnonzero(wanted)


def at(values: Column, index: I32 | I64, otherwise: float) -> NDArray[Any]:
    """The values at these places, and `otherwise` for -1."""
    if not len(values):
        return np.full(len(index), otherwise, values.dtype)
    result = np.empty(len(index), values.dtype)
    for i in range(0, len(index), AT_ONCE):
        block = index[i : i + AT_ONCE].astype(
            np.intp, copy=False
        )  # others take numpy twice the time
        result[i : i + AT_ONCE] = values[block]
        unknown = block < 0
        if unknown.any():
            result[i : i + AT_ONCE][unknown] = otherwise
    return result


def first_with(keys: I64, wanted: I64, preferred: Bool) -> I32:
    """For each wanted value the first row with it among the keys that are above 0, one that is
    preferred if there is any; -1 where there is none."""
    known = keys > 0
    high = int(keys.max(initial=0))
    low = int(keys.min(initial=high, where=known))
    if not near(low, high, len(keys)):
        rows = np.flatnonzero(known)
        order = rows[np.lexsort((rows, ~preferred[rows], keys[rows]))]
        return at(order, look_up(keys[order], wanted), -1).astype(np.int32)
    row = np.full(high - low + 1, -1, np.int32)
    for mask in (known & ~preferred, known & preferred):
        for block in reversed(blocks(len(keys))):
            rows = block.start + np.flatnonzero(mask[block])[::-1]
            row[_from(keys[rows], low)] = rows  # of several the last one written stays
    found = np.full(len(wanted), -1, np.int32)
    for block in blocks(len(wanted)):
        rows = block.start + np.flatnonzero((wanted[block] >= low) & (wanted[block] <= high))
        found[rows] = row[_from(wanted[rows], low)]
    return found


def _from(values: I32 | I64, low: int) -> I64:
    """How far the values, which may be narrow, lie from this one."""
    return np.subtract(values, low, dtype=np.int64)


def look_up(keys: I32 | I64, wanted: I32 | I64) -> I64:
    """For each wanted value its place among the keys (ascending; the first of equal ones), -1 where
    it is not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(local_searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def texts_where(strings: list[str], test: Callable[[str], object]) -> Bool:
    """For each string whether the test holds; one entry more, False, for the code -1. Strings that
    are equal but for the numbers in them are tested once: those without a letter, which are sizes of
    tensors, and of many strings all."""
    result = np.zeros(len(strings) + 1, bool)
    folded = _folded_of(strings)
    holds = np.array([bool(test(strings[first])) for first in folded.firsts], bool)
    result[:-1] = holds[folded.kind]
    return result


def first_alike(strings: list[str]) -> I32:
    """For each string the first one (its place) that is equal but for the numbers in it, itself where
    there are not many; one entry more, -1, for the code -1."""
    result = np.full(len(strings) + 1, -1, np.int32)
    if len(strings) < MANY_TEXTS:
        result[:-1] = np.arange(len(strings))
        return result
    folded = _folded_of(strings)
    result[:-1] = np.array(folded.firsts)[folded.kind]
    return result


class _Folded(NamedTuple):
    """Strings that are equal but for the numbers in them put together."""

    strings: list[str]
    firsts: list[int]  # the first string of each kind
    kind: I32  # of each string


_last_folded: dict[int, _Folded] = {}
"""Of the strings that were asked about last, by their identity: tests come one after the other."""


def _folded_of(strings: list[str]) -> _Folded:
    found = _last_folded.get(id(strings))
    if found is None or len(found.kind) != len(strings):
        found = _fold(strings)
        if len(_last_folded) >= _KEPT:
            del _last_folded[next(iter(_last_folded))]
        _last_folded[id(strings)] = found
    return found


def _fold(strings: list[str]) -> _Folded:
    kinds: dict[str, int] = {}
    firsts: list[int] = []
    index = np.empty(len(strings), np.int32)
    are_many = len(strings) >= MANY_TEXTS
    for code, text in enumerate(strings):
        is_folded = are_many or _LETTER.search(text) is None
        kind = kinds.setdefault(_NUMBER.sub("0", text) if is_folded else text, len(firsts))
        index[code] = kind
        if kind == len(firsts):
            firsts.append(code)
    return _Folded(strings, firsts, index)


def largest(values: NDArray[Any], count: int) -> I64:
    """The rows of so many of the largest values, largest first, of equal ones the first."""
    rows = np.arange(len(values))
    if 0 < count < len(values):
        rows = np.flatnonzero(
            values >= np.partition(values, len(values) - count)[len(values) - count]
        )
    return rows[np.argsort(-values[rows], kind="stable")][:count]


def sorted_values(values: NDArray[Any]) -> NDArray[Any]:
    """The values in ascending order; the same array where they are."""
    return values if is_sorted(values) else np.sort(values, kind="stable")


def where_changed(values: NDArray[Any]) -> Bool:
    """Which values differ from the one before them; the first does."""
    result = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=result[1:])
    return result


def stable_order(values: NDArray[Any]) -> I64:
    """`np.argsort(values, kind="stable")` of an integer column, quicker where its values lie in a
    narrow range: numpy sorts numbers of 16 bits by their digits, in a tenth of the time of
    comparing them."""
    if not len(values):
        return np.empty(0, np.int64)
    low = int(values.min())
    if int(values.max()) - low >= 1 << 16:
        return np.argsort(values, kind="stable")
    narrow = np.subtract(values, low, dtype=np.int64).astype(np.uint16)
    return np.argsort(narrow, kind="stable")


def robust_sigma(values: F64 | I64, centre: float) -> float:
    """Standard deviation from the median distance to the centre; at least one value."""
    return SIGMA_OF_MAD * median_of(np.abs(values - centre))


one_of = isin_few
places = local_searchsorted
stretch = rows_or_slice
