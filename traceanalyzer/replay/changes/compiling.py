"""The model compiled: fewer kernels and passes over memory, and what the code that a compiler
writes costs the host.

What torch.compile changes is what autograd records, or all of an inference step: the optimizer's
step, averaged weights, clipping and logging stay, and so does a recurrent layer, which is not
traced. What is left to launch (products, convolutions, attention, one kernel for what lies between
them, one more for each reduction) costs the host about what a launch of the model cost before, and
each call its guards and wrappers. So a model of many small operators gains, and one of a
convolution and an activation at a time does not."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.groups.passes import FUSIBLE
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.fusion import (
    ELEMENTWISE,
    RANDOM_NUMBERS,
    REDUCING,
    WRITTEN_OUT,
    Reading,
    Runs,
    find_runs,
    runs_fused,
)
from traceanalyzer.replay.changes.kernels import changes_layout, channels_last, odd_padded
from traceanalyzer.replay.changes.unsorted_gradients import (
    added_as_they_come,
    sorted_gradients,
)
from traceanalyzer.replay.patterns.named import kernels_named, launched_within, texts
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I32, I64, Bool, HostRanges, RangeKind, distinct_places

RECURRENT = regex(r"^aten::(lstm|gru|rnn_tanh|rnn_relu|_cudnn_rnn)$|CudnnRnnBackward")
"""Layers that torch.compile leaves to a library, and breaks its graph at."""
BATCH_NORM = regex(
    r"^aten::(cudnn|native|miopen)_batch_norm(_backward)?$|^aten::_batch_norm_with_update$"
)
BATCH_NORM_LAUNCHES = 5.0
"""Launches that a batch norm in training needs more when it is compiled: sums in two parts, running
figures, a counter. Its kernels are no faster than the library's: five networks of it took 7 % less
to 21 % more compiled."""
CONVOLUTION = regex(r"^aten::(_?convolution|conv[123]d|conv_transpose[123]d)$")
"""A network of convolutions, biases and activations gained nothing; others with them gained less
than their biases' passes would be."""
OF_SLOPES = regex(r"^aten::\w+_backward$")
"""Operators of a backward pass that autograd numbers where it records that, too (not those that are
done again for a checkpoint, which are of the forward pass)."""
LEAST_REGION_LAUNCHES = 8
"""Fewer launches between two waits are a loop of Python that reads values, not part of a model."""


@dataclass(frozen=True)
class Cost:
    """What compiled code costs the host, in usual launches of the model as it is."""

    launch: float  # a launch that is left
    call: float  # a call of a compiled region, backward pass included


TRAINING = {
    Reading.OPTIMISTIC: Cost(0.65, 15.0),
    Reading.TYPICAL: Cost(0.9, 40.0),
    Reading.PESSIMISTIC: Cost(1.25, 70.0),
}
"""Of seven host-bound programs that were timed compiled four take about the usual ones, one takes
less, two small ones take more (docs/accuracy.md)."""
INFERENCE = {
    Reading.OPTIMISTIC: Cost(0.8, 4.0),
    Reading.TYPICAL: Cost(1.2, 7.0),
    Reading.PESSIMISTIC: Cost(2.0, 14.0),
}
"""Without autograd's bookkeeping an operator costs less to begin with: 1.2 and 2.0 in the two
programs timed."""
ATOMIC_BYTES = {Reading.OPTIMISTIC: 16.0, Reading.TYPICAL: 32.0, Reading.PESSIMISTIC: 128.0}
"""What an atomic addition takes, in bytes that are moved: a sector of memory each. On an H200 eleven
lookups of rows of 2 to 768 fp32 numbers took 25 to 72 for each number, eight of them 28 to 37 (the most
where all rows were of twelve)."""
CALL_OF_CHAINS = 4.0
"""A call of a function of elementwise operators: 71 and 76 us on two hosts, where a launch took
18 and 19."""


@parametric
def functions_compiled(
    tape: Tape,
    reading: Reading,
    least: int,
    classes: tuple[str, ...] = WRITTEN_OUT,
    *,
    library: bool = False,
) -> Tape | None:
    """Each run of at least so many kernels of operators that are written out is one kernel, of a
    compiled function: the host spends on it what it did, or what a call of such a function costs (a
    solver whose chains of five were compiled took 15.6 ms for 14.6). None without such runs."""
    runs = find_runs(tape, classes, least)
    left = runs_fused(tape, runs, reading, library=library)
    if left is None:
        return None
    # forward and backward pass are runs of their own
    call = TRAINING[reading].call / 2 if tape.in_backward.any() else INFERENCE[reading].call
    return _called(tape, left, runs.number, runs.first, call)


@parametric
def chains_compiled(tape: Tape, reading: Reading) -> Tape | None:
    """Each run of elementwise kernels is one kernel; the compiled function of all between two waits
    is called once, which costs the host no more than it is spared. None without such runs."""
    runs = find_runs(tape, ELEMENTWISE)
    left = runs_fused(tape, runs, reading)
    if left is None:
        return None
    inside = runs.number >= 0
    call = TRAINING[reading].call if tape.in_backward.any() else CALL_OF_CHAINS
    region = _regions(tape, inside)[0]
    function = np.where(inside, region, -1)
    return _called(tape, left, function, _firsts(runs.first, region), call)


def _called(tape: Tape, left: Tape, function: I64, first: I64, call: float) -> Tape:
    """What is left, where each compiled function (its number for each op, -1: none) costs the host
    at its first op as much as so many usual launches, but no more than it is spared."""
    inside = function >= 0
    of_event = np.full(len(tape.dispatch), -1)
    of_event[tape.event[inside]] = function[inside]
    functions = int(function.max()) + 1
    spared = np.bincount(of_event + 1, tape.dispatch - left.dispatch, functions + 1)[1:]
    dispatch = left.dispatch.astype(np.float64)
    at = tape.event[first]
    most = np.minimum(dispatch[at] + spared[function[first]], call * tape.usual_dispatch_ns(inside))
    dispatch[at] = np.maximum(dispatch[at], most)
    return left.with_dispatch(dispatch)


@parametric
def compiled(tape: Tape, reading: Reading) -> Tape | None:
    """What torch.compile makes of the model (by the optimistic reading its code launches faster,
    and convolutions all get the layout that they want; by the pessimistic one fused kernels are no
    faster than the longest of them, and the host no faster than before); None where nothing of it
    was recorded."""
    model, norms, runs = tape.memo(_compiled_ops)
    if not model.any() or tape.source.joined.memo(_backward_twice):
        return None
    of_sorted = tape.memo(sorted_gradients)
    left = runs_fused(tape, runs, reading)
    if left is None and not of_sorted.ops.any():
        return None
    left = added_as_they_come(left or tape, ATOMIC_BYTES[reading])
    if reading is not Reading.PESSIMISTIC:
        # Norms beside convolutions get the layout that these want, too, at best.
        best = channels_last(left) or left if reading is Reading.OPTIMISTIC else None
        laid_out = best or left.without(changes_layout(left))
        left = odd_padded(laid_out) or laid_out
    model_events = tape.events_of_only(model)
    cost = (TRAINING if tape.in_backward.any() else INFERENCE)[reading]
    usual = float(tape.dispatch[model_events].sum()) / int(model.sum())
    launches = _launches_left(tape, model, norms) * cost.launch
    launches[of_sorted.ops & (of_sorted.added == 0)] = 0.0
    launches[_firsts(np.flatnonzero(model), _regions(tape, model)[0])] += cost.call
    spent = (
        np.bincount(tape.event[model], weights=launches[model], minlength=len(model_events)) * usual
    )
    spent_ns = np.rint(spent).astype(np.int64)
    return left.with_dispatch(np.where(model_events, spent_ns, tape.dispatch))


class _CompiledOps(NamedTuple):
    """What torch.compile works on, whatever it makes of it."""

    model: Bool
    norms: Bool  # of batches that are trained
    runs: Runs  # that become one kernel each


def _compiled_ops(tape: Tape) -> _CompiledOps:
    model = of_model(tape)
    norms = launched_within(tape, BATCH_NORM)
    norms &= (norms & tape.in_backward).any()
    # Adding the biases of convolutions is part of what cuDNN is called for.
    chosen = model & ~norms & ~launched_within(tape, CONVOLUTION)
    chosen &= ~tape.memo(sorted_gradients).ops
    return _CompiledOps(model, norms, find_runs(tape, FUSIBLE, chosen=chosen))


def of_model(tape: Tape) -> Bool:
    """Ops of the model: those that autograd records up to the end of the backward pass (not norms
    of gradients, which are read after it) and what follows from them, in inference all; but no
    short stretches between waits."""
    backward = tape.in_backward
    result = ~tape.in_optimizer & ~tape.communication
    if backward.any():
        numbered = tape.of_calls(tape.source.linked.memo(_calls_in_numbered))
        result &= backward | (numbered & tape.up_to_last(backward))
    result &= ~launched_within(tape, RECURRENT)
    region, size, alone = _regions(tape, result)
    return result & ((size >= LEAST_REGION_LAUNCHES) | alone)[region]


def _calls_in_numbered(linked: Linked) -> Bool:
    """Which API calls were made inside operators that autograd numbered."""
    ranges = linked.trace.host_ranges
    numbered = linked.tree.of_ranges(_numbered(ranges, np.arange(len(ranges))), False)
    inside = linked.tree.innermost(numbered) >= 0
    return inside[linked.tree.node_of_call[:]]


def _numbered(ranges: HostRanges, rows: I32 | I64) -> Bool:
    """Which of these host ranges are operators that autograd numbered."""
    return (ranges.kind[rows] == RangeKind.OP) & (ranges.sequence[rows] >= 0)


def _backward_twice(joined: Joined) -> bool:
    """Whether gradients have gradients: autograd records the backward pass, which compiled code
    does not support."""
    ranges = joined.trace.host_ranges
    rows = np.flatnonzero(texts(joined.linked, OF_SLOPES)[ranges.name])
    rows = rows[_numbered(ranges, rows)]
    return bool(joined.in_backward[joined.linked.tree.node_of_range[rows]].any())


def _regions(tape: Tape, model: Bool) -> tuple[I32 | I64, I64, Bool]:
    """For each op its step's stretch between two waits; for each its ops of the model, and whether
    it is alone."""
    waits = np.append(0, np.cumsum(tape.waits))[tape.event]
    each = int(waits.max(initial=0)) + 1
    stretch, region = distinct_places(tape.step_of_op.astype(np.int64) * each + waits)
    alone: Bool = np.bincount(stretch // each)[stretch // each] == 1
    return region, np.bincount(region[model], minlength=len(stretch)), alone


def _firsts(rows: I64, column: I32 | I64) -> I64:
    """The first of these rows with each value of a column."""
    return rows[np.unique(column[rows], return_index=True)[1]]


def _launches_left(tape: Tape, model: Bool, norms: Bool) -> F64:
    """For each op of the model how many launches are left of it."""
    model = model & ~(tape.beside_matrices | tape.of_classes("memset"))
    fusible = tape.of_classes(*FUSIBLE) & ~kernels_named(tape, RANDOM_NUMBERS)
    merged = model & fusible
    kept = model & ~fusible
    between: I64 = np.cumsum(kept | where_changed(tape.step_of_op))
    reductions = np.bincount(
        between[merged & tape.of_classes(*REDUCING)], minlength=int(between.max(initial=0)) + 1
    )
    place = np.zeros(len(merged), np.int64)
    group = between[merged]
    index = np.arange(len(group))
    place[merged] = index - np.maximum.accumulate(np.where(where_changed(group), index, 0))
    left: F64 = (kept | (merged & (place <= reductions[between]))).astype(np.float64)
    left[_firsts(np.flatnonzero(norms), tape.of_launches(tape.source.linked.tree.operator))] += (
        BATCH_NORM_LAUNCHES
    )
    return left
