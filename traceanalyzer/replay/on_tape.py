"""What is on a tape: its events, ops and operators, of which kind they are, and what they take."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.intervals import IntervalSet, measure
from traceanalyzer.analysis.algebra.lookup import at, one_of, texts_where
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base.figures import NS_PER_S
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I32, I64, Bool, CopyKind

Entry = TypeVar("Entry", bound=np.generic)


def nodes(tape: Tape) -> I64:
    """For each event the node of the host tree that its API call is."""
    tree = tape.source.linked.tree
    return tree.node_of_call[tape.call].astype(np.int64)


def events_of(tape: Tape, ops: Bool) -> Bool:
    """Which events launch any of these ops."""
    result = np.zeros(len(tape.dispatch), bool)
    result[tape.event[ops]] = True
    return result


def events_of_only(tape: Tape, ops: Bool) -> Bool:
    """Which events launch some of these ops and no other."""
    return events_of(tape, ops) & ~events_of(tape, ~ops)


def launching_events(tape: Tape) -> Bool:
    """Which events launch anything."""
    return events_of(tape, np.ones(len(tape.event), bool))


def step_of_event(tape: Tape) -> I32:
    """For each event the step that the ops launched by it, or else by the next that launches any, belong to."""
    launching, first = np.unique(tape.event, return_index=True)
    position = np.minimum(np.searchsorted(launching, np.arange(len(tape.dispatch))), len(launching) - 1)
    return tape.step_of_op[first][position]


def before_events(tape: Tape, intervals: IntervalSet) -> I64:
    """How much of these intervals of the host's time lies before each event and after the one before it, ns; before
    the first one as far back as the tape's host time reaches."""
    called = tape.source.trace.api_calls.start[tape.call]
    led = (tape.dispatch + tape.work + tape.loading + tape.profiling)[:1]
    return measure(intervals, np.append(called[:1] - led, called[:-1]), called)


def share_within(tape: Tape, intervals: IntervalSet) -> F64:
    """For each event the share of the host's time since the one before it that lies in these intervals."""
    called = tape.source.trace.api_calls.start[tape.call]
    since = np.append(0, np.diff(called))
    share: F64 = np.divide(before_events(tape, intervals), since, out=np.zeros(len(since)), where=since > 0)
    return share.clip(0.0, 1.0)


def usual_dispatch_ns(tape: Tape, ops: Bool) -> float:
    """Median dispatch before the events that launch these ops, ns; 0 without any."""
    launching = events_of(tape, ops)
    return float(np.median(tape.dispatch[launching])) if launching.any() else 0.0


def of_launches(tape: Tape, of_nodes: NDArray[Entry]) -> NDArray[Entry]:
    """For each op the value, of those of the nodes of the host tree, of the call that launches it."""
    return of_nodes[nodes(tape)[tape.event]]


def of_classes(tape: Tape, *names: str) -> Bool:
    """Ops of these classes."""
    source = tape.source
    return one_of(source.linked.op_class[tape.row], [source.linked.classes.index(name) for name in names])


def copies_of(tape: Tape, kind: CopyKind) -> Bool:
    """Copies in this direction."""
    return tape.source.trace.device_ops.copy_kind[tape.row] == kind


def in_backward(tape: Tape) -> Bool:
    """Ops that the backward pass launches."""
    return of_launches(tape, tape.source.joined.in_backward)


def backward_of(tape: Tape, operators: Bool) -> Bool:
    """Ops that operators of the forward pass, nodes of the host tree, give rise to in the backward pass."""
    return of_launches(tape, made_by(tape.source.linked, operators))


def in_optimizer(tape: Tape) -> Bool:
    """Ops launched by an optimizer's step, which keeps its own format and is not part of the model."""
    return of_launches(tape, tape.source.linked.memo(within_optimizer))


def within_optimizer(linked: Linked) -> Bool:
    """Which nodes of the host tree are, or lie inside, an optimizer's step."""
    named = texts_where(linked.trace.strings, lambda text: text.startswith("Optimizer."))
    return linked.tree.innermost(linked.tree.named(named)) >= 0


def up_to_last(tape: Tape, ops: Bool) -> Bool:
    """Which ops are no later than the last of these in their step; none where a step has none of these."""
    step, index = tape.step_of_op, np.arange(len(ops))
    last = np.full(int(step.max(initial=0)) + 1, -1)
    np.maximum.at(last, step[ops], index[ops])
    return index <= last[step]


def moving_ns(tape: Tape, bytes_: I64 | F64, passes: float = 1.0) -> F64:
    """What so many passes over these bytes of each op take at the rate of its GPU's memory, ns; 0 where that is not
    known."""
    bandwidth = np.nan_to_num(tape.source.linked.limit("bandwidth")[tape.row], nan=np.inf)
    return bytes_ * passes / bandwidth * NS_PER_S


def forward_operators(tape: Tape) -> I64:
    """The outermost operators outside of the backward pass, as nodes of the host tree, ascending."""
    outer = tape.source.linked.tree.outermost_operators
    return outer[~tape.source.joined.in_backward[outer]]


def of_operators(tape: Tape, operator: I32 | I64, column: I32) -> I32:
    """For each of these operators, nodes of the host tree, what this column of `Trace.host_ranges` has, -1 for -1."""
    return at(column, at(tape.source.linked.tree.row, operator, -1), -1)
