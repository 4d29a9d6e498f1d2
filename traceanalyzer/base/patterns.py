"""Regular expressions that are compiled when they are first used: a command loads four hundred and uses
a third of them. Compiling the others was a tenth of what a small recording takes."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any


class Regex:
    """Stands for a compiled pattern: has its methods, and is equal to one of the same text."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._asked = (pattern, flags)

    @cached_property
    def compiled(self) -> re.Pattern[Any]:
        """The pattern itself."""
        return re.compile(*self._asked)

    def __getattr__(self, name: str) -> Any:
        """What the compiled pattern has of that name, kept here: it is found at once the next time."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.compiled, name)
        setattr(self, name, found)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and self._asked == other._asked

    def __hash__(self) -> int:
        return hash(self._asked)

    def __repr__(self) -> str:
        return repr(self.compiled)

    def __reduce__(self) -> "tuple[type[Regex], tuple[Any, int]]":
        return Regex, self._asked


if TYPE_CHECKING:
    regex = re.compile  # what it is to a type checker
else:
    regex = Regex
