"""The host's time in a step by what it issues: what a comparison tells the host's speed from. A
faster host is so everywhere alike; a change of the program shows in certain places."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, union
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, metric
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64, Bool

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
    tree = usual.source.linked.tree
    name = np.full(len(usual.call), -1)  # of the operator around each event
    if tree.has_operators:
        node = at(tree.operator, usual.nodes, -1)
        around = trace.host_ranges.name[at(tree.row, node, 0)]
        name = np.where(node >= 0, around, -1)
    call = trace.api_calls.name[usual.call]
    other = usual.work + usual.loading
    groups = Groups.of(name, call)
    calls = trace.api_calls
    outer = tree.outermost_operators
    covered = union(
        np.append(tree.start[outer], calls.start), np.append(tree.end[outer], calls.end)
    )
    python = np.maximum(
        1.0 - recorded.before_events(covered) / np.maximum(recorded.dispatch, 1), 0.0
    )
    python_ns = np.rint(usual.dispatch * python).astype(np.int64)
    (median,), (between,) = (groups.quantiles(times, 0.5) for times in (usual.dispatch, python_ns))

    def each(values: I64 | Bool) -> F64:
        return groups.sum(values) / usual.steps

    dispatch_ms = each(usual.dispatch) / NS_PER_MS
    stretch_ms = each(other) / NS_PER_MS
    columns = (
        groups.count / usual.steps,
        each(usual.waits),
        dispatch_ms,
        median / NS_PER_US,
        between / NS_PER_US,
    )
    longest = np.argsort(-(dispatch_ms + stretch_ms), kind="stable")[:MAX_ROWS]
    figures = np.stack((*columns, each(other > 0), stretch_ms))[:, longest].T.tolist()
    texts = [
        (trace.text(int(name[row])), trace.text(int(call[row]))) for row in groups.first[longest]
    ]
    return [HostPart(*text, *row) for text, row in zip(texts, figures, strict=True)]
