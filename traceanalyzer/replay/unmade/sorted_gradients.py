"""The gradient of an embedding at other sizes: PyTorch adds few indices up as they come, and sorts
many first, in some thirty launches."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.resized import Resizer
from traceanalyzer.replay.unmade.work import called_ranges, recorded_call
from traceanalyzer.trace import I64

NAME = "aten::embedding_dense_backward"
INDICES = 1
"""Place of the indices among its inputs."""
MOST_UNSORTED = 3072
"""Indices that are added up as they come (PyTorch's `embedding_dense_backward_cuda`)."""
LAUNCHES = 29
"""Device ops that a sorted gradient has more (PyTorch 2.11)."""
OF_USUAL = 0.5
"""What each of those launches takes of the host's usual time between two: no operator is called for
it (0.5 and 0.6 in two runs of a recommender)."""
SORTING_NS = 75_000
"""What those take on an H200, for 8,192 and for 32,768 indices."""
AS_THEY_COME = regex(r"embedding_backward_feature_kernel")
ADDS_UP = regex(r"compute_grad_weight|sum_and_scatter")


def with_sorted_gradients(tape: Tape, resizer: Resizer) -> Tape:
    """The tape with the sorting that begins, or ends, at these sizes."""
    now, then = _indices(tape, resizer)
    sorted_now, sorted_then = now > MOST_UNSORTED, then > MOST_UNSORTED
    ends = sorted_now & ~sorted_then & ~kernels_named(tape, ADDS_UP)
    begins = ~sorted_now & sorted_then & kernels_named(tape, AS_THEY_COME)
    if begins.any():
        launches_ns = LAUNCHES * OF_USUAL * tape.median_dispatch_ns
        sorts = tape.with_dispatch(tape.dispatch + launches_ns * tape.events_of(begins))
        tape = sorts.retimed(sorts.duration + SORTING_NS * begins)
    return tape.without_launches(ends) if ends.any() else tape


def _indices(tape: Tape, resizer: Resizer) -> tuple[I64, I64]:
    """The indices of the gradient that each op is of, as recorded and at the sizes asked for; 0 of
    other ops."""
    rows = called_ranges(tape)
    ranges = tape.source.trace.host_ranges
    text = tape.source.trace.text
    called, shaped = at(ranges.name, rows, -1), at(ranges.shapes, rows, -1)
    groups = Groups.of(called, shaped)
    found = np.zeros((len(groups.first), 2), np.int64)
    for number, row in enumerate(rows[groups.first].tolist()):
        if row < 0 or text(int(ranges.name[row])) != NAME:
            continue
        call = recorded_call(tape.source, row)
        both = (call, resizer.call(call, backward=True))
        indices = [one.optional(INDICES) for one in both]
        found[number] = [0 if one is None else one.numel for one in indices]
    return found[groups.index, 0], found[groups.index, 1]
