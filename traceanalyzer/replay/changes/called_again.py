"""A model that is called without gradients and, unchanged, with them in the same step: for the odds of
a policy before its update, and for those that it learns from."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.weights_cast import casts_of_weights
from traceanalyzer.replay.patterns.named import MODULE, Outermost, texts
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, RangeKind, distinct

UPDATE = regex(r"^Optimizer\.step#")
LOOKUP = regex(r"^aten::embedding$")
TAKES_INPUT = regex(r"^aten::(linear|addmm|mm|matmul|convolution|conv\dd|layer_norm)$")
"""Operators that a model begins with: a lookup takes its input second, the others first."""
ONE_COPY = 1
LEAST_KERNELS = 24
"""Of a call: fewer are a layer, which a step may well use twice."""


@dataclass(frozen=True, eq=False)
class OutermostCall:
    """A call of a module that no other module makes."""

    module: int  # code of its name, which has the number of the instance
    start: int
    end: int
    learns: bool  # whether its operators are part of a graph for gradients


def without_repeated_calls(tape: Tape) -> Tape | None:
    """The tape without such calls; None without any."""
    gone = tape.memo(calls_made_twice)
    if not gone.any():
        return None
    return tape.without_events(gone)


def calls_made_twice(tape: Tape) -> Bool:
    """Events of calls without gradients for which the same instance of a module is called with
    gradients in the step, too, with the same kernels, and nothing is updated in between. Under an
    autocast the first of two calls casts the weights for both: who stays casts them."""
    called = tape.source.trace.api_calls.start[tape.call]
    casting = tape.events_of(tape.memo(casts_of_weights))
    gone = np.zeros(len(called), bool)
    updates = _updates(tape)
    for calls in _of_steps(tape):
        for call, other in _pairs(calls, updates):
            if _kernels(tape, call) != _kernels(tape, other):
                continue
            inside = (called >= call.start) & (called < call.end)
            others = (called >= other.start) & (called < other.end)
            gone |= inside if (casting & others).any() else inside & ~casting
    return gone


def have_one_input(tape: Tape) -> bool:
    """Whether all such calls of a step get the same input, as far as shapes tell: nothing outside of
    them works on a tensor of its shape but what brings it once."""
    calls = tape.source.linked.memo(outermost_calls)
    called = tape.source.trace.api_calls.start[tape.call][tape.memo(calls_made_twice)]
    places = np.searchsorted([call.start for call in calls], called, side="right") - 1
    inputs = {_input_of(tape, calls[place]) for place in distinct(places).tolist()}
    if None in inputs:
        return False
    touching = sum(not inputs.isdisjoint(operator.shapes) for operator in _outside(tape, calls))
    return touching <= ONE_COPY * len(tape.source.timed.steps.duration)


def _outside(tape: Tape, calls: Sequence[OutermostCall]) -> Iterator[Operator]:
    """Operators outside of these calls that launch something."""
    outermost = Outermost(tape)
    start = tape.source.linked.tree.start[outermost.nodes]
    inside = np.zeros(len(start), bool)
    for call in calls:
        inside |= (start >= call.start) & (start < call.end)
    every = outermost.at(0, len(start))
    for place, within in zip(every, inside.tolist(), strict=True):
        if place.launches and not within:
            yield place.operator


def _input_of(tape: Tape, call: OutermostCall) -> Shape | None:
    """The shape of what a call's first layer takes; None where that is not recorded."""
    tree = tape.source.linked.tree
    nodes = tree.outermost_operators
    start = tree.start[nodes]
    own = nodes[(start >= call.start) & (start < call.end)]
    for operator in operators(tape.source.linked).of_nodes(own):
        if operator.named(LOOKUP) and len(operator.shapes) > 1:
            return operator.shapes[1]
        if operator.named(TAKES_INPUT) and operator.shapes:
            return operator.shapes[0]
    return None


def _of_steps(tape: Tape) -> Iterator[list[OutermostCall]]:
    calls = tape.source.linked.memo(outermost_calls)
    steps = tape.source.timed.steps
    for step in distinct(tape.step_of_op).tolist():
        begin = int(steps.host_start[step])
        end = int(steps.host_end[step])
        yield [call for call in calls if begin <= call.start < end]


def _updates(tape: Tape) -> I64:
    """When optimizers' steps begin."""
    ranges = tape.source.trace.host_ranges
    return ranges.start[texts(tape.source.linked, UPDATE)[ranges.name]]


def _pairs(
    calls: Sequence[OutermostCall], updates: I64
) -> Iterator[tuple[OutermostCall, OutermostCall]]:
    """Each call without gradients with one that has them, of the same instance, where nothing is
    updated between the two."""
    for call, other in product(calls, calls):
        if call.learns or not other.learns or other.module != call.module:
            continue
        first, last = sorted((call.start, other.start))
        if not ((updates > first) & (updates < last)).any():
            yield call, other


def _kernels(tape: Tape, call: OutermostCall) -> list[int] | OutermostCall:
    """Names of the kernels of a call but for casts of weights, in order; the call itself where they are
    few."""
    called = tape.source.trace.api_calls.start[tape.call][tape.event]
    inside = (called >= call.start) & (called < call.end) & tape.compute
    inside &= ~tape.memo(casts_of_weights)
    names = tape.source.trace.device_ops.name[tape.row[inside]].tolist()
    return names if len(names) >= LEAST_KERNELS else call


def outermost_calls(linked: Linked) -> list[OutermostCall]:
    """The calls of modules that no other module makes, in the order of time."""
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero(texts(linked, MODULE)[ranges.name])
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    graph = _of_graphs(linked)
    calls: list[OutermostCall] = []
    ends: dict[int, int] = {}
    for row in rows.tolist():
        start = int(ranges.start[row])
        end = int(ranges.end[row])
        thread = int(ranges.thread[row])
        if start < ends.get(thread, start):
            continue
        ends[thread] = end
        first, stop = np.searchsorted(graph, (start, end))
        calls.append(OutermostCall(int(ranges.name[row]), start, end, bool(stop > first)))
    return calls


def _of_graphs(linked: Linked) -> I64:
    """When operators that autograd numbers begin, in order: without gradients it numbers none."""
    ranges = linked.trace.host_ranges
    numbered = (ranges.kind == RangeKind.OP) & (ranges.sequence >= 0)
    return np.sort(ranges.start[numbered])
