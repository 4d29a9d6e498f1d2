"""What a pickle's memo keeps, in four bytes for nearly all of it: a history has an entry an event, and one a stack."""

from array import array
from typing import Any, Final

from traceanalyzer.ingest.memory.shapes import EVENT, KeptStack

FREE: Final = object()


class Memo:
    """A list of values. An event taken out, and a stack that was met before, take no more than their place."""

    def __init__(self) -> None:
        self._places = array("i")
        self._values: list[Any] = [EVENT]
        self._of_stack: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Any:
        return self._values[self._places[index]]

    def __setitem__(self, index: int, value: Any) -> None:
        old = self._places[index]
        known = self._values[old]
        if known is value:
            return
        if known is not EVENT and type(known) is not KeptStack:  # only this index had it
            self._values[old] = FREE
            while self._values[-1] is FREE:
                self._values.pop()
        self._places[index] = self._place(value)

    def append(self, value: Any) -> None:
        """Keep a value under the next index."""
        self._places.append(self._place(value))

    def append_event(self) -> None:
        """Keep that an event was there."""
        self._places.append(0)

    def _place(self, value: Any) -> int:
        if value is EVENT:
            return 0
        place = len(self._values)
        if type(value) is KeptStack:
            place = self._of_stack.setdefault(value.row, place)
        if place == len(self._values):
            self._values.append(value)
        return place
