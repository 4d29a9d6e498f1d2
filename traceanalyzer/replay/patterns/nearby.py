"""What stands right before or after an operator: its neighbours among the outermost operators of its thread's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from traceanalyzer.replay.on_tape import of_launches
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool

READ_AT_ONCE_OPERATORS = 16


class Place(NamedTuple):
    """An operator among the outermost ones, in order."""

    node: int
    """Of the host tree."""
    operator: Operator
    launches: bool
    """Whether it launches anything on the tape."""


class Outermost:
    """The outermost operators of a tape's recording, read as far as they are looked at."""

    def __init__(self, tape: Tape) -> None:
        self._tree, self._known = tape.source.linked.tree, operators(tape.source.linked)
        self.nodes: I64 = self._tree.outermost_operators
        self._launches = np.isin(self.nodes, of_launches(tape, self._tree.outer_operator))

    def at(self, first: int, stop: int) -> list[Place]:
        """Those at these places; fewer at the ends."""
        here = slice(max(first, 0), max(stop, 0))
        nodes = self.nodes[here]
        found = self._known.of_nodes(nodes)
        return [Place(*one) for one in zip(nodes.tolist(), found, self._launches[here].tolist(), strict=True)]

    def follow(self, place: int, count: int) -> Iterator[Operator]:
        """The one at this place and those after it, so many in all, read a few at a time."""
        for first in range(place, place + count, READ_AT_ONCE_OPERATORS):
            yield from self._known.of_nodes(self.nodes[first : min(first + READ_AT_ONCE_OPERATORS, place + count)])

    def after(self, place: int, count: int) -> Iterator[Place]:
        """So many right after one, up to the first that launches anything."""
        for one in self.at(place + 1, place + 1 + count):
            if one.launches:
                return
            yield one

    def before(self, place: int, count: int) -> Iterator[Place]:
        """Those of so many right before one that launch nothing, the nearest first."""
        return (one for one in reversed(self.at(place - count, place)) if not one.launches)


def movers(tape: Tape, copies: Bool) -> Iterator[tuple[int, int]]:
    """Each of these copies that an operator makes, with that operator's place among the outermost ones."""
    tree = tape.source.linked.tree
    mover = of_launches(tape, tree.outer_operator)
    rows = np.flatnonzero(copies & (mover >= 0))
    yield from zip(rows.tolist(), np.searchsorted(tree.outermost_operators, mover[rows]).tolist(), strict=True)
