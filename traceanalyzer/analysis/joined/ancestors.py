"""Which of the nodes that enclose a node of the host tree is of a certain sort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.nesting import levels

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.host_tree import HostTree
    from traceanalyzer.trace import I64, Bool


def innermost(tree: HostTree, chosen: Bool) -> I64:
    """For each node the innermost chosen one among itself and those that enclose it, -1 without any."""
    result = np.where(chosen, np.arange(len(chosen)), -1)
    for here in levels(tree.depth)[1:]:
        missing = here[result[here] < 0]
        result[missing] = result[tree.parent[missing]]
    return result


def outermost(tree: HostTree, chosen: Bool) -> I64:
    """For each node the outermost chosen one among itself and those that enclose it, -1 without any."""
    result = np.where(chosen, np.arange(len(chosen)), -1)
    for here in levels(tree.depth)[1:]:
        above = result[tree.parent[here]]
        result[here] = np.where(above >= 0, above, result[here])
    return result


def counted(tree: HostTree, chosen: Bool) -> I64:
    """For each node how many chosen ones there are among itself and those that enclose it."""
    result = chosen.astype(np.int64)
    for here in levels(tree.depth)[1:]:
        result[here] += result[tree.parent[here]]
    return result


def enclosing(tree: HostTree, nearest: I64, node: I64) -> I64:
    """`nearest` (of `innermost`) strictly above each of these nodes, -1 for -1 and for roots."""
    parent = np.where(node >= 0, tree.parent[node], -1)
    result: I64 = np.where(parent >= 0, nearest[parent], -1)
    return result
