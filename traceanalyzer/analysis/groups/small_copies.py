"""Many small copies to the GPU: each costs the host a call, and many operators around it, whatever it carries."""

import numpy as np

from traceanalyzer.analysis.algebra import texts_where, union
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.names.pytorch import COPYING
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, ms
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct

SMALL_BYTES = 64_000
"""Copies of up to this size take a few microseconds on any link: less than the host takes to ask for them."""
MANY = 16
"""A batch of fewer tensors is usual (ids, masks, labels), and one copy for them saves little."""


@dataclass(frozen=True, eq=False)
class SmallCopies:
    """Small copies from the host that the program asks for."""

    a_step: float
    median_bytes: float
    host_ms: float
    """Host time of a step in the calls and operators that make them."""
    device_ms: float
    """Time of a step that they take on the GPU."""
    operator: str | None
    """The outermost operator that makes most of them."""


def which_small(joined: Joined) -> Bool:
    """Which device ops are small copies from the host that the program asks for."""
    size = joined.trace.device_ops.bytes
    return joined.sent & (size > 0) & (size <= SMALL_BYTES)


def small_copies(timed: Timed) -> SmallCopies | None:
    """The small copies of the steady steps; None where they are few."""
    rows = np.flatnonzero(which_small(timed.joined) & timed.steady_ops & (timed.linked.launch >= 0))
    steps = timed.steps.steady_count
    if len(rows) < MANY * steps:
        return None
    ops, tree = timed.trace.device_ops, timed.linked.tree
    node = _asked_by(timed.joined, tree.node_of_call[timed.linked.launch[rows]])
    asked = distinct(node)
    names = tree.names(node)
    usual = np.bincount(names[names >= 0]).argmax() if (names >= 0).any() else -1
    return SmallCopies(
        a_step=len(rows) / steps,
        median_bytes=float(np.median(ops.bytes[rows])),
        host_ms=ms(union(tree.start[asked], tree.end[asked]).total) / steps,
        device_ms=ms((ops.end - ops.start)[rows].sum()) / steps,
        operator=timed.trace.text(int(usual)),
    )


def _asked_by(joined: Joined, call: I32) -> I64:
    """For each of these nodes of API calls the outermost copying operator around it, else itself."""
    tree = joined.linked.tree
    copying = tree.kind == RangeKind.OP
    copying &= tree.named(texts_where(joined.trace.strings, COPYING.match))
    outer = tree.outermost(copying)[call]
    return np.where(outer >= 0, outer, call)
