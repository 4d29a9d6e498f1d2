"""What is on a tape: its events, ops and operators, of which kind they are, and what they take."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.intervals import IntervalSet, measure, union
from traceanalyzer.analysis.algebra.lookup import at, one_of, texts_where
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base.figures import NS_PER_MS, NS_PER_S, NS_PER_US, metric
from traceanalyzer.base.frozen import dataclass
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


# The host's time in a step by what it issues: what a comparison tells the host's speed from.
#
# A host that is faster or slower is so everywhere alike; a change of the program shows in certain places: another
# number of calls, a stretch of other work that is gone.

MAX_ROWS = 300
"""Programs with more have these in nearly all of their host's time."""


@dataclass(frozen=True)
class HostPart:
    """Host time of a step without the profiler that leads to one kind of call: a launch, a copy or a wait."""

    op: str | None = metric("operator that makes the call; null outside operators, or where none were recorded")
    call: str | None = metric("API call")
    calls: float = metric("calls a step")
    waits: float = metric("calls a step that wait for the device")
    dispatch_ms: float = metric("time since the call before it on operators, calls and short Python, no waits", "ms")
    dispatch_us: float = metric("median of that time for a call", "us")
    between_us: float = metric("median of the part of it that is outside operators and calls: short Python", "us")
    stretches: float = metric("calls a step that other work, 0.1 ms and more, or loading of input comes before")
    stretch_ms: float = metric("time of that other work and loading", "ms")


def host_parts(recorded: Tape, usual: Tape) -> list[HostPart]:
    """The rows of a tape without the profiler, whose recorded one tells what is Python; the most time first."""
    trace, name, call = usual.source.trace, _operators(usual), usual.source.trace.api_calls.name[usual.call]
    groups, other = Groups.of(name, call), usual.work + usual.loading
    (median,), (between,) = (groups.quantiles(times, 0.5) for times in (usual.dispatch, _between(recorded, usual)))

    def each(values: I64 | Bool) -> F64:
        return groups.sum(values) / usual.steps

    dispatch_ms, stretch_ms = each(usual.dispatch) / NS_PER_MS, each(other) / NS_PER_MS
    columns = (groups.count / usual.steps, each(usual.waits), dispatch_ms, median / NS_PER_US, between / NS_PER_US)
    longest = np.argsort(-(dispatch_ms + stretch_ms), kind="stable")[:MAX_ROWS]
    figures = np.stack((*columns, each(other > 0), stretch_ms))[:, longest].T.tolist()
    texts = [(trace.text(int(name[row])), trace.text(int(call[row]))) for row in groups.first[longest]]
    return [HostPart(*text, *row) for text, row in zip(texts, figures, strict=True)]


def _operators(tape: Tape) -> I64:
    """Name code of the operator around each event, -1 outside."""
    tree = tape.source.linked.tree
    if not tree.has_operators:
        return np.full(len(tape.call), -1)
    node = at(tree.operator, nodes(tape), -1)
    return np.where(node >= 0, tape.source.trace.host_ranges.name[at(tree.row, node, 0)], -1)


def _between(recorded: Tape, usual: Tape) -> I64:
    """Dispatch before each event outside operators and API calls, ns."""
    tree, calls = recorded.source.linked.tree, recorded.source.trace.api_calls
    whole = tree.outermost_operators
    start, end = (np.append(*both) for both in ((tree.start[whole], calls.start), (tree.end[whole], calls.end)))
    inside = before_events(recorded, union(start, end))
    share = np.maximum(1.0 - inside / np.maximum(recorded.dispatch, 1), 0.0)
    return np.rint(usual.dispatch * share).astype(np.int64)
