"""Which operator launched a device op: through its API call, else through the external id it carries."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.lookup import at, look_up
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.trace import I32, I64, RangeKind


def launch_nodes(linked: Linked) -> I32:
    """For each device op the node of the host tree it was launched at (an API call, or the operator that carries
    its external id where the call was not recorded), -1 where the recording tells neither."""
    launched = linked.launch >= 0
    result = at(linked.tree.node_of_call, linked.launch, -1)
    others = np.flatnonzero(~launched & (linked.trace.device_ops.external_id > 0))
    if len(others):
        result[others] = _by_external_id(linked, linked.trace.device_ops.external_id[others])
    return result


def _by_external_id(linked: Linked, external_id: I64) -> I64:
    """The node of the operator with each of these external ids (an annotation where no operator has it), or -1."""
    tree, ranges = linked.tree, linked.trace.host_ranges
    rows = np.flatnonzero((ranges.external_id > 0) & (tree.node_of_range >= 0))
    order = rows[np.lexsort((rows, ranges.kind[rows] != RangeKind.OP, ranges.external_id[rows]))]
    ids = ranges.external_id[order]
    return at(tree.node_of_range[order], look_up(ids, external_id), -1)


def owner_nodes(linked: Linked, launched_at: I32 | I64) -> I32:
    """For each of these nodes the innermost operator around it, else the innermost annotation, else -1."""
    tree = linked.tree
    if not tree.has_operators:
        return at(tree.annotation, launched_at, -1)
    operator = at(tree.operator, launched_at, -1)
    return np.where(operator >= 0, operator, at(tree.annotation, launched_at, -1))
