"""Tables of a recording: columns as narrow as their values, of one value next to none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass

if TYPE_CHECKING:
    import pandas as pd

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]
MOST_DEVICES = 2**12
MOST_BYTES = 2**50
MOST_ELEMENTS = 2**44
MOST_RANKS = 2**24
MOST_IDS = 2**62
"""Beyond, a number is damage: no host has so many GPUs, no memory is so large, no run so wide, no
id so high."""


# Distinct values of integer columns, as `np.unique` gives them: counted in one pass where the
# values lie near each other (codes, streams, steps, rows), else sorted.
NEAR = 2
"""Values are counted where their range is at most this many times as wide as there are values
..."""
NEAR_AT_LEAST = 1 << 12  # ... or this wide: that takes no longer than to sort even a few
AT_ONCE = 1 << 16  # values that are counted at once: numpy makes 64-bit places of them
MOST_COUNTED = 1 << 29  # values; so many places fit 32 bits


def column(
    dtype: type[np.generic],
    *,
    fill: float = -1,
    text: bool = False,
    most: int | None = None,
    narrow: bool = False,
) -> Any:
    """A table column of `dtype`, filled with `fill` where a reader has nothing; `text` marks string
    codes; numbers above `most` count as not recorded; a `narrow` one has few bytes: widen it before
    you multiply it."""
    return field(
        metadata={
            "dtype": np.dtype(dtype),
            "fill": fill,
            "text": text,
            "most": most,
            "narrow": narrow,
        }
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, one row an event. Columns are never written to after
    construction."""

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], rows: int | None = None, then: str = ""
    ) -> Self:
        """Build the table from any array-likes; columns left out get their fill value. Sorts by
        `start`, and what starts together by the column `then`, if there is one; else rows stay as
        they come."""
        if rows is None:
            rows = len(next(iter(columns.values()), ()))
        unknown = columns.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"{cls.__name__} has no column {', '.join(sorted(unknown))}")
        fitted: dict[str, Any] = {}
        for f in fields(cls):
            given = f.name in columns
            values = (
                columns[f.name]
                if given
                else constant_column(f.metadata["fill"], rows, f.metadata["dtype"])
            )
            fitted[f.name] = _fitting(values, f.metadata)
            if fitted[f.name].shape != (rows,):
                raise ValueError(
                    f"{cls.__name__}.{f.name}: {fitted[f.name].shape} instead of ({rows},)"
                )
        del columns  # of a caller that keeps none of them, so that little is held twice
        order = order_of(fitted["start"], fitted.get(then)) if "start" in fitted else None
        if order is not None:
            for name in fitted:
                fitted[name] = reordered(fitted[name], order)
        return cls(**fitted)

    @classmethod
    def fitting(cls, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The columns as the table holds them."""
        given = (f for f in fields(cls) if f.name in columns)
        return {f.name: _fitting(columns[f.name], f.metadata) for f in given}

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls.from_columns({}, rows=0)

    def take(self, rows: I64 | Bool | slice) -> Self:
        """The given rows (index array, mask or slice), in that order."""
        chosen = rows if isinstance(rows, slice) or rows.dtype != np.bool_ else np.flatnonzero(rows)
        return type(self)(
            **{f.name: reordered(getattr(self, f.name), chosen) for f in fields(self)}
        )

    def to_frame(self, strings: list[str]) -> "pd.DataFrame":
        """A pandas DataFrame with decoded text; times stay int64 nanoseconds."""
        import pandas as pd

        lookup = np.array([*strings, None], dtype=object)
        data = {}
        for f in fields(self):
            values = getattr(self, f.name).astype(f.metadata["dtype"], copy=False)
            data[f.name] = lookup[values] if f.metadata["text"] else values
        return pd.DataFrame(data)


def constant_column(
    value: float,
    rows: int,
    dtype: np.dtype[Any] | type[np.generic],
) -> NDArray[Any]:
    """A column of so many rows that are all this value; it takes no memory, and cannot be written
    to."""
    element = np.array(value, dtype)
    repeated: NDArray[Any] = np.ndarray((rows,), dtype, element, strides=(0,))
    repeated.flags.writeable = False
    return repeated


def is_constant(column: NDArray[Any]) -> bool:
    """Whether the column has rows and was made by `constant_column`."""
    return column.strides == (0,) and len(column) > 0


def ordered(
    first: NDArray[Any],
    then: Callable[[I64], Sequence[NDArray[Any]]],
) -> I64:
    """The rows by `first`, those that are equal there by `then` (keys of the rows that it is given,
    the last one counting most, as `np.lexsort` has it), else as they come. Takes little where
    `first` is nearly sorted."""
    order = np.arange(len(first)) if is_sorted(first) else np.argsort(first, kind="stable")
    values = first[order]
    same = values[1:] == values[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((*then(rows), first[rows]))]
    return order


def order_of(start: I64, then: NDArray[Any] | None) -> I64 | None:
    """The rows by start, those that start together by the other column; None where they are in that
    order."""
    if then is None or is_constant(then):
        return None if is_sorted(start) else np.argsort(start, kind="stable")
    equal = start[1:] == start[:-1]
    misplaced = equal & (then[1:] < then[:-1])
    if is_sorted(start) and not misplaced.any():
        return None
    return ordered(start, lambda rows: (then[rows],))


def is_sorted(values: NDArray[Any]) -> bool:
    """Whether no value is less than the one before it."""
    return not (values[1:] < values[:-1]).any()


def reordered(values: NDArray[Any], rows: NDArray[Any] | slice) -> NDArray[Any]:
    """The given rows of a column."""
    if isinstance(rows, slice) or not is_constant(values):
        return values[rows]
    return constant_column(values[0], len(rows), values.dtype)


def _fitting(values: Any, what: Mapping[str, Any]) -> NDArray[Any]:
    """The values as the column's type; what it does not hold, or is out of all reason, becomes its
    fill value."""
    dtype = what["dtype"]
    most = what["most"]
    fill = what["fill"]
    given = np.asarray(values)
    if is_constant(given):
        element = _fitting(given[:1].copy(), what)
        return constant_column(element[0], len(given), element.dtype)
    if dtype.kind in "iu" and (given.dtype != dtype or most is not None):
        given = _int64(given, fill)
        low = np.iinfo(dtype).min
        high = np.iinfo(dtype).max if most is None else min(most, np.iinfo(dtype).max)
        if len(given) and (given.min() < low or given.max() > high):
            given = np.where((given >= low) & (given <= high), given, fill)
    return narrowed(given) if what["narrow"] else np.ascontiguousarray(given, dtype=dtype)


def _int64(given: NDArray[Any], fill: int) -> NDArray[Any]:
    """The numbers as integers; those that 64 bits do not hold become the fill value."""
    if given.dtype.kind == "f":  # integers of which one is beyond 64 bits, beside negative ones
        fitting = (given >= -(2.0**63)) & (given < 2.0**63)
        return np.where(fitting, given, fill).astype(np.int64)
    if given.dtype.kind == "O" or given.dtype == np.uint64:  # Python's integers may have any size
        fit = [value if -(2**63) <= value < 2**63 else fill for value in given.tolist()]
        return np.array(fit, np.int64)
    return given


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Integers in as few bytes as they need."""
    low = int(values.min()) if len(values) else 0
    high = int(values.max()) if len(values) else 0
    fit = (
        dtype
        for dtype in (np.int16, np.int32)
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max
    )
    return np.ascontiguousarray(values, dtype=next(fit, np.int64))


def near(low: int, high: int, count: int) -> bool:
    """Whether so many values from `low` to `high` are counted sooner than sorted."""
    return high - low < max(NEAR * count, NEAR_AT_LEAST)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values of an integer column, ascending."""
    if not len(values):
        return values[:0]
    if is_constant(values):
        return values[:1].copy()
    low = int(values.min())
    high = int(values.max())
    if near(low, high, len(values)):
        return (np.flatnonzero(_seen(values, low, high)) + low).astype(values.dtype)
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def distinct_places(values: NDArray[Any]) -> tuple[NDArray[Any], I32 | I64]:
    """The distinct values of an integer column, ascending, and for each value its place among
    them."""
    if not len(values):
        return values[:0], np.empty(0, np.int64)
    low = int(values.min())
    high = int(values.max())
    if not near(low, high, min(len(values), MOST_COUNTED)):
        return np.unique(values, return_inverse=True)
    seen = _seen(values, low, high)
    places = np.cumsum(seen, dtype=np.int32)
    places -= 1
    result = np.empty(len(values), np.int32)
    for i in range(0, len(values), AT_ONCE):
        result[i : i + AT_ONCE] = places.take(_from(values[i : i + AT_ONCE], low))
    return (np.flatnonzero(seen) + low).astype(values.dtype), result


def _seen(values: NDArray[Any], low: int, high: int) -> NDArray[np.bool_]:
    seen = np.zeros(high - low + 1, bool)
    for i in range(0, len(values), AT_ONCE):
        # Numbers of other types take numpy twice the time.
        seen[_from(values[i : i + AT_ONCE], low).astype(np.intp, copy=False)] = True
    return seen


def _from(values: NDArray[Any], low: int) -> NDArray[Any]:
    """Values by their distance from the least."""
    if values.dtype != np.bool_ and not low:
        return values
    return np.subtract(values, low, dtype=np.int32 if values.dtype == np.int32 else np.int64)
