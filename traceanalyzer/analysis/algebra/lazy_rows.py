"""Rows of a table that are made when they are asked for: a report shows the first of them, and a
recording of numbered operators has a hundred thousand."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar, overload

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)
FEW = 1024
"""So many are made at once: what they are made from is let go of."""


class LazyRows(Sequence[Row_co]):
    """So many rows; `make` makes that of a number. Nothing that was made is kept."""

    def __init__(self, numbers: Sequence[int], make: Callable[[int], Row_co]) -> None:
        """`numbers`: those of the rows, in the order of the table."""
        self._numbers = numbers
        self._make = make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Row_co: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row_co]: ...

    def __getitem__(self, place: Any) -> Any:
        """A row, or a list of rows."""
        if isinstance(place, slice):
            return [self._make(number) for number in self._numbers[place]]
        return self._make(self._numbers[place])


class ColumnRows(LazyRows[Row_co]):
    """Rows of a dataclass whose fields are whole columns. The columns are made when the first of
    the rows is, and all rows, once they were gone through, are kept."""

    def __init__(
        self, kind: type[Row_co], count: int, columns: Callable[[], Mapping[str, Sequence[Any]]]
    ) -> None:
        """`columns` makes those of the fields, by name, `count` values each."""
        super().__init__(range(count), self._row)
        self._kind = kind
        self._make_columns = columns

    def column(self, name: str) -> Sequence[Any]:
        """A field of all rows; none of them is made for it."""
        return self._columns[name]

    def __iter__(self) -> Iterator[Row_co]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == list(other) if isinstance(other, list | LazyRows) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_columns, (self._kind, len(self), self._columns)

    @cached_property
    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return self._make_columns()

    @cached_property
    def _all(self) -> list[Row_co]:
        return [self._kind(*row) for row in zip(*self._in_order, strict=True)]

    @cached_property
    def _in_order(self) -> list[Sequence[Any]]:
        return [self._columns[f.name] for f in fields(self._kind)]  # type: ignore[arg-type]

    def _row(self, number: int) -> Row_co:
        return self._kind(*(column[number] for column in self._in_order))


def _of_columns(
    kind: type[Row], count: int, columns: Mapping[str, Sequence[Any]]
) -> ColumnRows[Row]:
    return ColumnRows(kind, count, lambda: columns)


def column_of(rows: Sequence[Any], name: str) -> Iterable[Any]:
    """A field of all rows."""
    return rows.column(name) if isinstance(rows, ColumnRows) else map(attrgetter(name), rows)


def lazy_rows(numbers: Sequence[int], make: Callable[[int], Row]) -> Sequence[Row]:
    """The rows of these numbers: a list of few, made when asked for of many."""
    rows = LazyRows(numbers, make)
    return rows[:] if len(rows) <= FEW else rows
