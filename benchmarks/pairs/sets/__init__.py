"""Sets of programs: each a module or a folder of this one, with a tuple `PROGRAMS`.

A set is called as its file is; one whose name begins with `ranks` is run by two ranks, a GPU each.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.pairs.program import Good, Pair

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def programs(name: str) -> tuple[Pair | Good, ...]:
    """A set's programs.

    Raises:
        ModuleNotFoundError: if there is no such set.
    """
    found: tuple[Pair | Good, ...] = importlib.import_module(f"{__name__}.{name}").PROGRAMS
    return found


def of_two_ranks(name: str) -> bool:
    """Whether a set's programs are run by two ranks."""
    return name.startswith("ranks")
