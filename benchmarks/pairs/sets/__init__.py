"""Sets of programs: each a module or a folder of this one; its programs are what `pair` and `good`
declare there.

A set is called as its file is; one whose name begins with `ranks` is run by two ranks, a GPU each.
What was written blind is measured once and must not change after that. The sets of earlier rounds
are kept by git alone: in a checkout of ea2c02a8, `python -m benchmarks.pairs OUT --set daily` (or
`everyday`, `found`, `plain`, `research`, `shop`, `sixth`) times and records them.
"""

import importlib
import pkgutil

from benchmarks.pairs.program import Good, Pair


def names() -> tuple[str, ...]:
    """The sets that are there."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def programs(name: str) -> tuple[Pair | Good, ...]:
    """A set's programs.

    Raises:
        ModuleNotFoundError: if there is no such set.
    """
    whole = importlib.import_module(f"{__name__}.{name}")
    inner = [part.name for part in pkgutil.iter_modules(getattr(whole, "__path__", ()))]
    parts = [importlib.import_module(f"{whole.__name__}.{part}") for part in inner] or [whole]
    every = (
        (value, part)
        for part in parts
        for value in vars(part).values()
        if isinstance(value, Pair | Good)
    )
    return tuple(value for value, part in every if value.make.__module__ == part.__name__)


def of_two_ranks(name: str) -> bool:
    """Whether a set's programs are run by two ranks."""
    return name.startswith("ranks")
