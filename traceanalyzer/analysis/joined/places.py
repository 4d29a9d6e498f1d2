"""Places in a model: modules of one class inside the same modules, such as the twelve layers of a stack, are one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.joined.python_stacks import PythonStacks
from traceanalyzer.analysis.names.module_names import module_of
from traceanalyzer.trace import I64
from traceanalyzer.trace.distinct import distinct

MOST_DEPTH = 64
"""Modules in modules beyond this belong to the one around them; models nest about ten."""
SHOWN = 2
"""Modules of a path that tell where in the model a kernel is."""


class Places(NamedTuple):
    """Places in the model, from the outermost modules down, those inside after the one that holds them."""

    of_call: I64
    """For each call of a module its place."""
    above: I64
    """For each place the one around it, -1 without."""
    paths: list[tuple[str, ...]]
    """For each place the classes of the modules around it and its own, outermost first."""

    def shown(self, place: int) -> str | None:
        """A place in few words, None for -1."""
        return " > ".join(self.paths[place][-SHOWN:]) if place >= 0 else None


def places_of(calls: PythonStacks) -> Places:
    """The places of calls of modules."""
    names = {code: module_of(calls.strings[code]) for code in distinct(calls.name).tolist()}
    index: dict[tuple[int, str], int] = {}
    above: list[int] = []
    paths: list[tuple[str, ...]] = []
    of: list[int] = []
    for code, outer in zip(calls.name.tolist(), calls.parent.tolist(), strict=True):
        name, held = names[code], of[outer] if outer >= 0 else -1
        if held >= 0 and len(paths[held]) >= MOST_DEPTH:
            of.append(held)
            continue
        key = (held, name.kind if name is not None else "")
        if key not in index:
            index[key] = len(paths)
            above.append(held)
            paths.append((*(paths[held] if held >= 0 else ()), key[1]))
        of.append(index[key])
    order = sorted(range(len(paths)), key=lambda place: _chain(place, above))
    moved = np.full(len(paths) + 1, -1, np.int64)
    moved[order] = np.arange(len(paths))
    outer_ones = np.array(above, np.int64)[order]
    return Places(moved[np.array(of, np.int64)], moved[outer_ones], [paths[place] for place in order])


def _chain(place: int, above: list[int]) -> tuple[int, ...]:
    """A place with those around it, outermost first."""
    chain = [place]
    while above[chain[-1]] >= 0:
        chain.append(above[chain[-1]])
    return tuple(reversed(chain))
