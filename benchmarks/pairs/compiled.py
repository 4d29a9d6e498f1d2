"""Any of the programs compiled: its models are found, and compiled where they are."""

import fcntl
import functools
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.pairs.program import Good, Pair, Step

REMEDY = "compile"
AT_ONCE = 6
"""Programs that compile beside each other: they need the cores and the GPU's memory."""


@contextmanager
def slot(folder: Path) -> Iterator[None]:
    """Wait until few enough others compile."""
    for number in itertools.cycle(range(AT_ONCE)):
        with (folder / f"slot{number}").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.1)
                continue
            yield
            return


def models(value: Any, seen: set[int]) -> Iterator[nn.Module]:
    """Those that a step calls: of its variables, of the functions among them, and of lists."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module) and not isinstance(value, (nn.ModuleList, nn.ModuleDict)):
        yield value
        return
    inner = (
        list(value.children())
        if isinstance(value, nn.Module)
        else value
        if isinstance(value, (list, tuple))
        else []
    )
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    for one in (*inner, *cells, getattr(value, "__self__", None)):
        yield from models(one, seen)


def compiled(step: Step) -> Step:
    """The step with its models compiled."""
    found = list(models(step, set()))
    if not found:
        raise ValueError("no model to compile")
    for model in found:
        model.compile()
    return step


def also(pair: Pair | Good) -> Good:
    """The program as it is, and compiled: timed, not recorded."""

    @functools.wraps(pair.make)
    def make(version: str) -> Step:
        step = pair.version("base")
        return compiled(step) if version == REMEDY else step

    return Good(make, remedies=(REMEDY,), libraries=pair.libraries, early=(REMEDY,), recorded=())
