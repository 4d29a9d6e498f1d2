"""What on a tape has a name (kernels, operators, all that is launched inside of these), and what
stands next to it: its neighbours among the outermost operators of its thread's order."""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, contains, texts_where, union
from traceanalyzer.analysis.algebra.columns import dedup_constant
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.pytorch import MODULE_PREFIX
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct

MODULE = regex("^" + re.escape(MODULE_PREFIX))

LISTS = regex("multi_tensor")  # kernels that take lists of tensors


class _Masks(dict[re.Pattern[str], Bool]):
    def __init__(self, linked: Linked) -> None:
        super().__init__()
        self._strings = linked.trace.strings

    def __missing__(self, pattern: re.Pattern[str]) -> Bool:
        self[pattern] = texts_where(self._strings, pattern.search)
        return self[pattern]


class _CallsWithin(dict[re.Pattern[str], Bool]):
    """Which API calls were made inside a host range with such a name."""

    def __init__(self, linked: Linked) -> None:
        super().__init__()
        self._linked = linked

    def __missing__(self, pattern: re.Pattern[str]) -> Bool:
        tree = self._linked.tree
        inside = tree.innermost(nodes_named(self._linked, pattern)) >= 0
        self[pattern] = dedup_constant(inside[tree.node_of_call[:]])
        return self[pattern]


READ_AT_ONCE_OPERATORS = 16


def texts(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Which strings of a recording are like this; one entry more for the code -1."""
    return linked.memo(_Masks)[pattern]


def kernels_named(tape: Tape, pattern: re.Pattern[str]) -> Bool:
    """Ops whose own name is like this."""
    return texts(tape.source.linked, pattern)[tape.source.trace.device_ops.name[tape.row]]


def launched_within(tape: Tape, pattern: re.Pattern[str]) -> Bool:
    """Ops launched inside a host range with such a name."""
    return tape.of_calls(tape.source.linked.memo(_CallsWithin)[pattern])


def nodes_named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Nodes of the host tree that are ranges with such a name."""
    return linked.tree.named(texts(linked, pattern))


def operators_named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Nodes of the host tree that are operators with such a name."""
    return (linked.tree.kind == RangeKind.OP) & nodes_named(linked, pattern)


def are_named(linked: Linked, nodes: I32 | I64, pattern: re.Pattern[str]) -> Bool:
    """Which of these nodes, ranges or -1, have such a name."""
    return texts(linked, pattern)[
        at(linked.trace.host_ranges.name, at(linked.tree.row, nodes, -1), -1)
    ]


def ops_named(linked: Linked, pattern: str) -> Bool:
    """Device ops whose own name the regular expression matches, or that of an operator, annotation,
    library call or Python frame around their launch. To a module belongs the backward pass of what
    it ran, too."""
    names = texts(linked, re.compile(pattern))
    modules = texts(linked, MODULE)
    inside = (linked.tree.innermost(linked.tree.named(names)) >= 0) | _in_frames(linked, names)
    inside |= made_by(linked, _in_frames(linked, names & modules))
    chosen = names[linked.trace.device_ops.name]
    launched = np.flatnonzero(linked.launch >= 0)
    chosen[launched] |= inside[linked.tree.node_of_call[linked.launch[launched]]]
    return chosen


def _in_frames(linked: Linked, names: Bool) -> Bool:
    """Which nodes of the host tree begin inside a Python frame with one of the names."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero((ranges.kind == RangeKind.PYTHON) & names[ranges.name])
    result = np.zeros(len(tree.start), bool)
    for thread in distinct(ranges.thread[rows]):
        frames_of_thread = rows[ranges.thread[rows] == thread]
        nodes = np.flatnonzero(tree.thread == thread)
        frames = union(ranges.start[frames_of_thread], ranges.end[frames_of_thread])
        result[nodes] = contains(frames, tree.start[nodes])
    return result


class OperatorPlace(NamedTuple):
    """An operator among the outermost ones, in order."""

    node: int  # of the host tree
    operator: Operator
    launches: bool  # whether it launches anything on the tape


class Outermost:
    """The outermost operators of a tape's recording, read as far as they are looked at."""

    def __init__(self, tape: Tape) -> None:
        self._tree = tape.source.linked.tree
        self._known = operators(tape.source.linked)
        self.nodes: I64 = self._tree.outermost_operators
        self._launches = np.isin(self.nodes, tape.of_launches(self._tree.outer_operator))

    def at(self, first: int, stop: int) -> list[OperatorPlace]:
        """Those at these places; fewer at the ends."""
        stretch = slice(max(first, 0), max(stop, 0))
        nodes = self.nodes[stretch]
        launches = self._launches[stretch].tolist()
        return list(map(OperatorPlace, nodes.tolist(), self._known.of_nodes(nodes), launches))

    def follow(self, place: int, count: int) -> Iterator[Operator]:
        """The one at this place and those after it, so many in all, read a few at a time."""
        nodes = self.nodes[place : place + count]
        for first in range(0, len(nodes), READ_AT_ONCE_OPERATORS):
            yield from self._known.of_nodes(nodes[first : first + READ_AT_ONCE_OPERATORS])

    def after(self, place: int, count: int) -> Iterator[OperatorPlace]:
        """So many right after one, up to the first that launches anything."""
        return takewhile(lambda one: not one.launches, self.at(place + 1, place + 1 + count))

    def before(self, place: int, count: int) -> Iterator[OperatorPlace]:
        """Operators that launch nothing, of so many right before one; the nearest first."""
        return (one for one in reversed(self.at(place - count, place)) if not one.launches)


def movers(tape: Tape, copies: Bool) -> Iterator[tuple[int, int]]:
    """Each of these copies that an operator makes, with that operator's place among the outermost
    ones."""
    tree = tape.source.linked.tree
    mover = tape.of_launches(tree.outer_operator)
    rows = np.flatnonzero(copies & (mover >= 0))
    return zip(
        rows.tolist(), np.searchsorted(tree.outermost_operators, mover[rows]).tolist(), strict=True
    )
