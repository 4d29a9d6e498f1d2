"""Forward, backward and optimizer from autograd, where no annotation tells them apart.

- backward: operators that autograd runs (inside `autograd::engine::evaluate_function`, or with the id of a
  forward thread); what it calls back at its end (DDP's last copies) cannot be told from other work;
- optimizer: multi-tensor operators outside of it (`aten::_fused_adamw_`, `aten::_foreach_add_`), where PyTorch
  did not annotate the optimizer's step itself. Clipping of gradients by such operators counts with it;
- forward: other outermost operators whose autograd sequence number a backward operator carries. An operator carries the
  number that the next node will get, so what runs between a backward pass and the first operator that makes a node
  (reading gradients, copying input) carries a number of the next forward pass, and is not part of
it."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import isin, texts_where, union
from traceanalyzer.analysis.joined.backward import is_autograd
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.names.pytorch import LIBRARY_RANGE, MULTI_TENSOR, OPTIMIZER_STEP
from traceanalyzer.analysis.phases.phase_ranges import PhaseRanges
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I32, I64, U8, Bool, RangeKind, distinct

DERIVED = (
    Role.FORWARD,
    Role.BACKWARD,
    Role.OPTIMIZER,
)  # what autograd tells, in the order of the program


class DerivedPhase(NamedTuple):
    """A phase of the steady state without instances."""

    role: Role
    rows: I64  # its operators, rows of `Trace.host_ranges`; none lies in another
    ops: I64  # device ops of the steps' device that they launched


def derived_phases(timed: Timed, ranges: PhaseRanges, told: U8) -> list[DerivedPhase]:
    """The phases that autograd tells (`told`: see `roles_by_autograd`); none where the program
    marks phases or nothing ran backward."""
    tree = timed.linked.tree
    table = timed.trace.host_ranges
    ops = timed.trace.device_ops
    names = distinct(table.name[ranges.row]).tolist()
    marked = {timed.trace.strings[code] for code in names}
    if Role.BACKWARD not in told or any(not LIBRARY_RANGE.match(name) for name in marked):
        return []
    by_library = any(map(OPTIMIZER_STEP.match, marked))
    outermost = tree.outermost_operators
    of_op = np.append(told, Role.NONE)[timed.joined.launch_node]
    found = []
    of_device = timed.steady_ops & (ops.device == timed.device)
    for role in DERIVED:
        rows = tree.row[outermost[told[outermost] == role]]
        if len(rows) and not (role is Role.OPTIMIZER and by_library):
            steady = rows[timed.steady_host(table.start[rows])]
            found.append(DerivedPhase(role, steady, np.flatnonzero(of_device & (of_op == role))))
    return found


def roles_by_autograd(linked: TraceJoins) -> U8:
    """For each node of the host tree the role of the outermost operator around it: FORWARD,
    BACKWARD, OPTIMIZER, or NONE; all NONE where nothing ran backward."""
    tree = linked.tree
    table = linked.trace.host_ranges
    of_range = np.zeros(len(table), np.uint8)
    is_op = table.kind == RangeKind.OP
    backward = is_op & is_autograd(linked)
    if backward.any():
        numbers = distinct(table.sequence[backward & (table.sequence >= 0)])
        of_range[is_op & np.isin(table.sequence, numbers)] = Role.FORWARD
        of_range[is_op & texts_where(linked.trace.strings, MULTI_TENSOR.match)[table.name]] = (
            Role.OPTIMIZER
        )
        of_range[backward] = Role.BACKWARD
    top = tree.outer_operator
    role = np.append(tree.of_ranges(of_range, 0), np.uint8(0))
    early = np.flatnonzero(role[:-1] == Role.FORWARD)
    role[early[_before_its_pass(linked, early, top, role)]] = Role.NONE
    return role[top]


def _before_its_pass(linked: TraceJoins, nodes: I64, top: I32, role: U8) -> Bool:
    """Which of these nodes, all with the number of a forward pass, begin after the backward pass
    before it and before the first operator in which that forward pass made a node."""
    tree = linked.tree
    sequence = linked.trace.host_ranges.sequence
    number = sequence[tree.row[nodes]]
    order = np.lexsort((nodes, number, tree.thread[nodes]))
    other_number = np.diff(number[order]) != 0
    other_thread = np.diff(tree.thread[nodes][order]) != 0
    last = np.append(other_number | other_thread, True)[: len(order)]
    makers = distinct(top[nodes[order[last]]])

    def latest(others: I64) -> I64:
        times = np.sort(tree.start[others])
        return np.append(np.int64(-1), times)[
            np.searchsorted(times, tree.start[nodes], side="right")
        ]

    result: Bool = latest(makers) <= latest(np.flatnonzero(role[:-1] == Role.BACKWARD))
    return result & ~isin(nodes, makers)


def host_time(timed: Timed, rows: I32 | I64) -> int:
    """Time that host ranges of steady steps cover (union on each thread, summed over threads),
    ns."""
    table = timed.trace.host_ranges
    end = timed.until_steady_end(table.end[rows])
    thread = table.thread[rows]
    start = table.start[rows]
    return sum(union(start[thread == one], end[thread == one]).total for one in distinct(thread))
