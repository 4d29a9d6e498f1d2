"""Values whose columns are made when first asked for: what holds them never changes, and frees nothing."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self, TypeVar

from traceanalyzer.analysis.algebra.columns import flat_each

Made = TypeVar("Made")


class Memo:
    """What remembers what functions of it gave."""

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def memo(self, make: Callable[[Self], Made]) -> Made:
        """`make(self)`, calculated when first asked for. `make` is a function of a module, which outlives it."""
        if make not in self._made:
            self._made[make] = flat_each(make(self))
        made: Made = self._made[make]
        return made

    def has(self, make: Callable[[Self], object]) -> bool:
        """Whether `make` has been computed."""
        return make in self._made

    def keep(self, make: Callable[[Self], Made], made: Made) -> None:
        """Take what another process computed as `make(self)`."""
        self._made.setdefault(make, made)
