"""Forward, backward and optimizer from autograd, where no annotation tells them apart.

- backward: operators that autograd runs (inside `autograd::engine::evaluate_function`, or with the id of a
  forward thread); what it calls back at its end (DDP's last copies) cannot be told from other work;
- optimizer: multi-tensor operators outside of it (`aten::_fused_adamw_`, `aten::_foreach_add_`), where PyTorch
  did not annotate the optimizer's step itself. Clipping of gradients by such operators counts with it;
- forward: other outermost operators whose autograd sequence number a backward operator carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.intervals import union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.backward import is_autograd
from traceanalyzer.analysis.names.pytorch import LIBRARY_RANGE, MULTI_TENSOR, OPTIMIZER_STEP
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    import re

    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.tables.phase_ranges import PhaseRanges
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I64, Bool, HostRanges


class DerivedPhase(NamedTuple):
    """A phase of the steady state without instances."""

    name: str
    host_ns: int
    """Time of its operators (union on each thread)."""
    ops: I64
    """Device ops of the steps' device that they launched."""


def derived_phases(timed: Timed, ranges: PhaseRanges) -> list[DerivedPhase]:
    """The phases that autograd tells; none where the program marks phases or nothing ran backward."""
    table = timed.trace.host_ranges
    marked = {timed.trace.strings[code] for code in np.unique(table.name[ranges.row]).tolist()}
    backward = (table.kind == RangeKind.OP) & is_autograd(timed)
    if not backward.any() or any(not LIBRARY_RANGE.match(name) for name in marked):
        return []
    is_op = table.kind == RangeKind.OP
    optimizer = is_op & _named(timed, MULTI_TENSOR) & ~backward
    forward = is_op & np.isin(table.sequence, np.unique(table.sequence[backward & (table.sequence >= 0)]))
    top = _top(timed)
    within = {"forward": forward & ~backward & ~optimizer, "backward": backward}
    if not any(OPTIMIZER_STEP.match(name) for name in marked):
        within["optimizer"] = optimizer
    return [_phase(timed, name, top, chosen) for name, chosen in within.items() if chosen.any()]


def _named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    """Which host ranges have a name that matches."""
    result: Bool = texts_where(linked.trace.strings, pattern.match)[linked.trace.host_ranges.name]
    return result


def _top(linked: Linked) -> I64:
    """For each node of the host tree the outermost operator around it, -1 without."""
    return linked.tree.outermost(linked.tree.kind == RangeKind.OP)


def _phase(timed: Timed, name: str, top: I64, chosen: Bool) -> DerivedPhase:
    """The phase made of the outermost operators among the chosen ones, in steady steps."""
    tree, table, ops = timed.tree, timed.trace.host_ranges, timed.trace.device_ops
    outer = np.zeros(len(tree.parent) + 1, bool)
    node = tree.node_of_range[chosen & (tree.node_of_range >= 0)]
    outer[node] = top[node] == node
    rows = tree.row[outer[:-1]]
    rows = rows[timed.steady_host(table.start[rows])]
    launcher = np.append(tree.node_of_call, -1)[timed.launch]
    inside = outer[np.append(top, -1)[launcher]]
    here = inside & timed.steady_ops & (ops.device == timed.device)
    return DerivedPhase(name, host_time(table, rows), np.flatnonzero(here))


def host_time(table: HostRanges, rows: I64) -> int:
    """Time that the ranges cover (union on each thread, summed over threads), ns."""
    threads = (rows[table.thread[rows] == thread] for thread in np.unique(table.thread[rows]))
    return sum(union(table.start[mine], table.end[mine]).total for mine in threads)
