"""Tensors that go to the host at the end of a step and come back at the begin of the next: gradients
for an optimizer that is kept on the host, and the weights that it updates there."""

from collections import Counter

import numpy as np

from traceanalyzer.replay.patterns.repeats import each_step
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, CopyKind

LEAST_TENSORS = 8
"""Fewer may be a result and the next input, which happen to have as many bytes."""


def brought_back_next(tape: Tape, large: Bool) -> Bool:
    """Copies to the host and those that bring back, before the next step's go there, as many tensors of
    as many bytes each. `large`: ops that carry data; all large ones of a step have to come back, small
    ones may."""
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    result = np.zeros(len(tape.row), bool)
    sent = list(each_step(tape.step_of_op, tape.copies_of(CopyKind.DEVICE_TO_HOST)))
    brought = np.flatnonzero(tape.copies_of(CopyKind.HOST_TO_DEVICE))
    # What the last step sends comes back before the first one sends: the recorded steps repeat.
    next_sent = sent[1:] + sent[:1]
    for gone, following in zip(sent, next_sent, strict=True):
        if large[gone].sum() < LEAST_TENSORS:
            continue
        before = brought[brought < following[0]]
        step = tape.step_of_op[following[0]]
        between = (tape.step_of_op[before] == step) | (before > gone[-1])
        came = _of_these_sizes(bytes_, before[between], bytes_[gone])
        missing = Counter(bytes_[gone[large[gone]]].tolist())
        missing.subtract(bytes_[came].tolist())
        if max(missing.values()) <= 0:
            result[came] = True
            result[_of_these_sizes(bytes_, gone, bytes_[came])] = True
    return result


def _of_these_sizes(bytes_: I64, copies: I64, sizes: I64) -> I64:
    """Of these copies the first with each of these sizes, one for each."""
    left = Counter[int](sizes.tolist())
    chosen = list[int]()
    for copy, size in zip(copies.tolist(), bytes_[copies].tolist(), strict=True):
        if left[size] > 0:
            left[size] -= 1
            chosen.append(copy)
    return np.array(chosen, np.int64)
