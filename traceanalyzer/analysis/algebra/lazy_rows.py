"""Rows of a table that are made when they are asked for: a report shows the first of them, and a
recording of numbered operators has a hundred thousand."""

from collections.abc import Callable, Sequence
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


def lazy_rows(numbers: Sequence[int], make: Callable[[int], Row]) -> Sequence[Row]:
    """The rows of these numbers: a list of few, made when asked for of many."""
    rows = LazyRows(numbers, make)
    return rows[:] if len(rows) <= FEW else rows
