"""What of the host tree is around a tape's events: of a long recording a small part of it."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.lookup import at
from traceanalyzer.analysis.algebra.nesting import levels
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I16, I32, I64, Bool
from traceanalyzer.trace.distinct import distinct


@dataclass(frozen=True, eq=False)
class Around:
    """Nodes of the host tree, ascending: those that events are, and all that enclose them."""

    parent: I64
    """Index of the one around each, -1 for a root."""
    depth: I16 | I32
    row: I32
    """Row in `Trace.host_ranges`, -1 for an API call."""
    name: I32
    """Its name (code), -1 for an API call."""
    event: I64
    """For each event the index of its node."""

    @classmethod
    def of(cls, tree: HostTree, node: I64) -> Around:
        """What is around the events that are these nodes."""
        found = np.zeros(len(tree.start), bool)
        here: I32 | I64 = distinct(node)
        while len(here):
            found[here] = True
            above = distinct(tree.parent[here])
            here = above[(above >= 0) & ~found[above]]
        nodes = np.flatnonzero(found)
        parent = tree.parent[nodes]
        index = np.where(parent >= 0, np.searchsorted(nodes, parent), -1)
        row = np.where(tree.is_call[nodes], np.int32(-1), tree.row[nodes])
        return cls(index, tree.depth[nodes], row, at(tree.range_name, row, -1), np.searchsorted(nodes, node))

    def inside(self, wanted: Bool) -> Bool:
        """For each event whether its node, or one around it, is among the wanted ones (an entry a node)."""
        result = wanted.copy()
        for here in levels(self.depth)[1:]:
            result[here] |= result[self.parent[here]]
        return result[self.event]
