"""Leaves remarks of libraries on what we do unsaid."""

import re
import warnings


def leave_unsaid(message: str) -> None:
    """Ignore warnings that begin with this pattern. What the program has been warned of once is not
    repeated: `warnings.filterwarnings` forgets what has been shown each time that it is called."""
    ignored = ("ignore", re.compile(message, re.IGNORECASE), Warning, None, 0)
    filters: list[tuple[object, ...]] = warnings.filters  # type: ignore[assignment]
    if ignored not in filters:
        filters.insert(0, ignored)
