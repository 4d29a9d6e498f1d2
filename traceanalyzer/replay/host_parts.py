"""The host's time in a step by what it issues: what a comparison tells the host's speed from. A
faster host is so everywhere alike; a change of the program shows in certain places."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, largest, union
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, metric
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I32, I64, Bool

MAX_ROWS = 300  # programs with more have these in nearly all of their host's time


@dataclass(frozen=True)
class HostPart:
    """Host time of a step without the profiler that leads to one kind of call: a launch, a copy or
    a wait."""

    op: str | None = metric(
        "operator that makes the call; null outside operators, or where none were recorded"
    )
    call: str | None = metric("API call")
    calls: float = metric("calls a step")
    waits: float = metric("calls a step that wait for the device")
    dispatch_ms: float = metric(
        "time since the call before it on operators, calls and short Python, no waits"
    )
    dispatch_us: float = metric("median of that time for a call")
    between_us: float = metric(
        "median of the part of it that is outside operators and calls: short Python"
    )
    stretches: float = metric(
        "calls a step that other work, 0.1 ms and more, or loading of input comes before"
    )
    stretch_ms: float = metric("time of that other work and loading")


def host_parts(recorded: Tape, usual: Tape) -> list[HostPart]:
    """The rows of a tape without the profiler, whose recorded one tells what is Python; the most
    time first."""
    trace = usual.source.trace
    name = _operator_names(usual)
    call = trace.api_calls.name[usual.call]
    other = usual.work + usual.loading
    groups = Groups.of(name, call)
    (median,) = groups.quantiles(usual.dispatch, 0.5)
    (between,) = groups.quantiles(_python_ns(recorded, usual), 0.5)

    def each(values: I64 | Bool) -> F64:
        return groups.sum(values) / usual.steps

    columns = (
        groups.count / usual.steps,
        each(usual.waits),
        each(usual.dispatch) / NS_PER_MS,
        median / NS_PER_US,
        between / NS_PER_US,
        each(other > 0),
        each(other) / NS_PER_MS,
    )
    most = largest(each(usual.dispatch) + each(other), MAX_ROWS)
    operators = map(trace.text, name[groups.first[most]].tolist())
    calls = map(trace.text, call[groups.first[most]].tolist())
    rows = zip(operators, calls, np.stack(columns).T[most].tolist(), strict=True)
    return [HostPart(operator, api_call, *row) for operator, api_call, row in rows]


def _operator_names(tape: Tape) -> I32 | I64:
    """The name (its code) of the operator around each event, -1 without one."""
    tree = tape.source.linked.tree
    if not tree.has_operators:
        return np.full(len(tape.call), -1)
    node = at(tree.operator, tape.nodes, -1)
    around = tape.source.trace.host_ranges.name[at(tree.row, node, 0)]
    return np.where(node >= 0, around, -1)


def _python_ns(recorded: Tape, usual: Tape) -> I64:
    """The part of the usual dispatch before each event that is outside operators and calls, ns."""
    tree = usual.source.linked.tree
    calls = usual.source.trace.api_calls
    outer = tree.outermost_operators
    starts = np.append(tree.start[outer], calls.start)
    covered = union(starts, np.append(tree.end[outer], calls.end))
    covered_share = recorded.before_events(covered) / np.maximum(recorded.dispatch, 1)
    python_share = np.maximum(1.0 - covered_share, 0.0)
    return np.rint(usual.dispatch * python_share).astype(np.int64)
