"""Functions of long columns computed some rows at a time: what is made on the way stays in the
processor's cache."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import F64, I32

Made = TypeVar("Made")
AT_ONCE = 1 << 16  # rows that are computed at a time: of fewer the calls cost more than the work


def blocks(count: int, at_once: int = 0) -> list[slice]:
    """So many rows `at_once` (0: `AT_ONCE`) at a time, in order; one empty slice for none."""
    step = at_once or AT_ONCE
    starts = range(0, max(count, 1), step)
    return [slice(first, min(first + step, count)) for first in starts]


def blockwise(make: Callable[..., Any], *columns: Any) -> Any:
    """`make` of columns of one length, row by row: a column, or a tuple of columns, as `make` gives
    them. It must not look from one row to another."""
    count = len(columns[0])
    several = False
    columns_done: list[NDArray[Any]] = []
    for block in blocks(count):
        parts = make(*(column[block] for column in columns))
        several = isinstance(parts, tuple)
        for number, part in enumerate(parts if several else (parts,)):
            if number == len(columns_done):
                columns_done.append(np.empty(count, part.dtype))
            elif part.dtype != columns_done[number].dtype:
                columns_done[number] = columns_done[number].astype(
                    np.promote_types(columns_done[number].dtype, part.dtype), copy=False
                )
            columns_done[number][block] = part
    return tuple(columns_done) if several else columns_done[0]


def in_blocks(make: Callable[..., Made], *columns: Any, at_once: int = 0) -> list[Made]:
    """What `make` makes of some rows of the columns after the other."""
    return [
        make(*(column[block] for column in columns)) for block in blocks(len(columns[0]), at_once)
    ]


def blockwise_found(find: Callable[..., Any], *columns: Any) -> Any:
    """All that a function finds, any number of values or of tuples of them, in some rows after the
    other."""
    found = in_blocks(find, *columns)
    if isinstance(found[0], tuple):
        return tuple(map(np.concatenate, zip(*found, strict=True)))
    return np.concatenate(found)


def scatter(
    combine: np.ufunc, into: NDArray[Any], find: Callable[..., Any], *columns: Any
) -> NDArray[Any]:
    """`into`, with the values that `find` gives of the columns combined (`np.add`, `np.maximum`,
    ...) into the places that it gives before them."""
    for block in blocks(len(columns[0])):
        place, values = find(*(column[block] for column in columns))
        # Places of other types take numpy half as long again.
        combine.at(into, place.astype(np.intp, copy=False), values)
    return into


def running_sums(figure: Callable[[Any], F64], rows: Any) -> F64:
    """For each row the sum of the figures of those before it, and at the end that of all."""
    result = np.zeros(len(rows) + 1)
    for block in blocks(len(rows)):
        part = result[block.start + 1 : block.stop + 1]
        part[:] = figure(rows[block])
        part[:1] += result[block.start]
        np.cumsum(part, out=part)
    return result


class RowNumbers:
    """The numbers of so many rows, as a column that takes no memory."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> I32:
        return np.arange(rows.start, rows.stop, dtype=np.int32)


class Rows(RowNumbers):
    """The rows' numbers for a function that takes the rows' part of many columns itself: a
    slice."""

    def __getitem__(self, rows: slice) -> Any:
        return rows
