"""What on a tape has a name: kernels, operators, and all that is launched inside of these."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.analysis.algebra.intervals import contains, union
from traceanalyzer.analysis.algebra.lookup import at
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.pytorch import MODULE_PREFIX
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, RangeKind
from traceanalyzer.trace.distinct import distinct

MODULE = re.compile("^" + re.escape(MODULE_PREFIX))


class _Masks(dict[re.Pattern[str], Bool]):
    def __init__(self, linked: Linked) -> None:
        super().__init__()
        self._strings = linked.trace.strings

    def __missing__(self, pattern: re.Pattern[str]) -> Bool:
        self[pattern] = texts_where(self._strings, pattern.search)
        return self[pattern]


def texts(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Which strings of a recording are like this; one entry more for the code -1."""
    return linked.memo(_Masks)[pattern]


def kernels_named(tape: Tape, pattern: re.Pattern[str]) -> Bool:
    """Ops whose own name is like this."""
    return texts(tape.source.linked, pattern)[tape.source.trace.device_ops.name[tape.row]]


def launched_within(tape: Tape, pattern: re.Pattern[str]) -> Bool:
    """Ops launched inside a host range with such a name."""
    return tape.around.inside(texts(tape.source.linked, pattern)[tape.around.name])[tape.event]


def nodes_named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Nodes of the host tree that are ranges with such a name."""
    return linked.tree.named(texts(linked, pattern))


def operators_named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Nodes of the host tree that are operators with such a name."""
    return (linked.tree.kind == RangeKind.OP) & nodes_named(linked, pattern)


def are_named(linked: Linked, nodes: I32 | I64, pattern: re.Pattern[str]) -> Bool:
    """Which of these nodes, ranges or -1, have such a name."""
    return texts(linked, pattern)[at(linked.trace.host_ranges.name, at(linked.tree.row, nodes, -1), -1)]


def ops_named(linked: Linked, pattern: str) -> Bool:
    """Device ops whose own name the regular expression matches, or that of an operator, annotation, library call or
    Python frame around their launch. To a module belongs the backward pass of what it ran, too."""
    names, modules = texts(linked, re.compile(pattern)), texts(linked, MODULE)
    tree = linked.tree
    inside = tree.innermost(tree.named(names)) >= 0
    inside |= _in_frames(linked, names)
    inside |= made_by(linked, _in_frames(linked, names & modules))
    chosen: Bool = names[linked.trace.device_ops.name]
    launched = np.flatnonzero(linked.launch >= 0)
    chosen[launched] |= inside[tree.node_of_call[linked.launch[launched]]]
    return chosen


def _in_frames(linked: Linked, names: Bool) -> Bool:
    """Which nodes of the host tree begin inside a Python frame with one of the names."""
    tree, ranges = linked.tree, linked.trace.host_ranges
    rows = np.flatnonzero((ranges.kind == RangeKind.PYTHON) & names[ranges.name])
    result = np.zeros(len(tree.start), bool)
    for thread in distinct(ranges.thread[rows]):
        mine = rows[ranges.thread[rows] == thread]
        here: I64 = np.flatnonzero(tree.thread == thread)
        begin = tree.start[here]
        result[here] = contains(union(ranges.start[mine], ranges.end[mine]), begin)
    return result
