"""A snapshot's pickle, opcode by opcode: what a dictionary stands for is taken out as soon as it is complete
(`Shapes.take`), so that a history of a gigabyte never stands in memory as Python objects.
"""

from collections.abc import Callable
from typing import Any

from traceanalyzer.base.errors import RefusedPickleError, RefusedSnapshotError
from traceanalyzer.ingest.memory.memo import Memo
from traceanalyzer.ingest.memory.shapes import EVENT, Shapes
from traceanalyzer.ingest.memory.templates import Templates
from traceanalyzer.ingest.pickles import MARGIN, MAX_OPEN, Interpreter, refuse


def interpret(read: Callable[[], bytes], shapes: Shapes) -> Any:
    """The value that the pickle states. `read` gives the next piece, b"" at the end. Raises RefusedSnapshotError."""
    try:
        return _Snapshot(read, shapes).value()
    except RefusedPickleError as error:
        raise RefusedSnapshotError(str(error)) from error


class _Snapshot(Interpreter):
    """A snapshot's dictionaries as `shapes`."""

    what = "snapshot"

    def __init__(self, read: Callable[[], bytes], shapes: Shapes) -> None:
        memo = Memo()
        super().__init__(read, memo)
        self._shapes = shapes
        self._templates = Templates(memo, self.pushed.__getitem__, shapes)
        self._begun = 0
        """Where in the file the last dictionary began that was not read by a template."""
        self.text, self.extend = shapes.text, shapes.extend  # type: ignore[method-assign]

    def _refill(self, at: int) -> int:
        at = super()._refill(at)
        self._shapes.after(self.before)
        return at

    def most_open(self) -> int:
        """What is taken out is open no longer."""
        return MAX_OPEN

    def taken(self, container: dict[str, Any]) -> Any:
        """What the shapes make of it."""
        taken = self._shapes.take(container)
        return container if taken is None else taken

    def update(self, target: Any, items: list[Any]) -> None:
        """Its keys are texts."""
        keys = items[::2]
        "".join(keys)  # a TypeError unless all are texts
        if type(target) is not dict:
            raise TypeError("items that make no dictionary")
        target.update(zip(keys, items[1::2], strict=True))

    def tuple_of(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """It has no containers inside."""
        if not all(isinstance(value, int | float | str) for value in values):
            refuse("a tuple of more than numbers and texts")
        return values

    def forget(self) -> None:
        """The templates have learned of the memo, too."""
        super().forget()
        self._templates.forget()

    def _empty_dict(self, at: int) -> int:
        after = self._templates.events(self.data, at - 1, self.safe + MARGIN, self.stack.append)
        if after > at - 1:
            return after
        self._begun = self.before + at - 1
        return super()._empty_dict(at)

    def _set_items(self, at: int) -> int:
        start, kept, was_open = self.marks.pop()
        stack, memo = self.stack, self.memo
        items = stack[start:]
        del stack[start:]
        target = stack[-1]
        self.update(target, items)
        taken = self._shapes.take(target)
        if taken is None:
            return at
        stack[-1] = taken
        self.is_open = was_open - 1
        if taken is EVENT and self._begun >= self.before:
            self._templates.learn(self.data[self._begun - self.before : at])
        if kept and memo[kept - 1] is target:
            memo[kept - 1] = taken
        for i in range(kept, len(memo)):
            memo[i] = self._shapes.kept(memo[i])
        return at
