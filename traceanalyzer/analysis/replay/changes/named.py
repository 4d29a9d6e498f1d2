"""The device ops that a name stands for: a kernel's, operator's, annotation's, Python function's or module's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import contains, union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.names.pytorch import MODULE_PREFIX
from traceanalyzer.trace import RangeKind
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.trace import I64, Bool


def ops_named(linked: Linked, pattern: str) -> Bool:
    """Device ops whose own name the regular expression matches, or that of an operator, annotation, library call or
    Python frame around their launch. To a module belongs the backward pass of what it ran, too."""
    names = texts_where(linked.trace.strings, re.compile(pattern).search)
    tree = linked.tree
    inside = tree.innermost(tree.named(names)) >= 0
    modules = texts_where(linked.trace.strings, lambda text: text.startswith(MODULE_PREFIX))
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
