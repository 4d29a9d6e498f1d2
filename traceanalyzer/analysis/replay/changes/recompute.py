"""Activations kept instead of calculated again in the backward pass (checkpointing)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import events_of, nodes, without_launches
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

FORWARD_ONLY = re.compile(
    r"^aten::(linear|addmm|conv\dd|convolution|layer_norm|native_layer_norm|batch_norm|group_norm|embedding|rms_norm"
    r"|scaled_dot_product_attention|gelu|silu|relu|dropout)$"
)
"""Operators of a forward pass that no backward pass of an operator calls."""
LEAST_STRETCH = 3
"""Kernels that tell a stretch of the forward pass from others."""
ENGINE = re.compile(r"^autograd::engine::evaluate_function")


def recomputed(tape: Tape) -> Bool:
    """Ops of forward operators that run within the backward pass: in an autograd node that also runs operators of a
    forward pass, outside of the nodes nested in it, and before its own backward operator is all that is left."""
    tree, trace = tape.source.tree, tape.source.trace
    engine, forward = (
        tree.of_ranges(texts_where(trace.strings, pattern.match)[trace.host_ranges.name], False)
        for pattern in (ENGINE, FORWARD_ONLY)
    )
    engine &= tree.kind == RangeKind.OP
    inside = tree.innermost(engine)
    again = np.zeros(len(tree.start) + 1, bool)
    again[inside[forward & (inside >= 0)]] = True
    again[-1] = False
    # Up to the last forward operator of the node: what follows is the backward pass it was for.
    last = np.full(len(tree.start) + 1, -1, np.int64)
    rows = np.flatnonzero(forward & (inside >= 0))
    np.maximum.at(last, inside[rows], tree.subtree_end[rows])
    event = nodes(tape)
    result: Bool = (again[inside[event]] & (event < last[inside[event]]))[tape.event]
    return result & tape.compute


def kept(tape: Tape) -> Tape | None:
    """Nothing is calculated again, and the host neither saves the state that this needs nor goes back to it; None where
    nothing is."""
    gone = recomputed(tape)
    if not gone.any():
        return None
    left = without_launches(tape, gone)
    begun, after = events_of(tape, _first_time(tape, gone)), _next_event(tape, gone)
    backward = tape.source.in_backward[nodes(tape)]
    dispatch = left.dispatch.copy()
    for events, like in ((begun, ~backward), (after, backward)):
        others = like & ~events & ~events_of(tape, gone)
        usual = int(np.median(dispatch[others])) if others.any() else 0
        dispatch[events] = np.minimum(dispatch[events], usual)
    around = begun | after | (events_of(tape, gone) & ~events_of(tape, ~gone))
    work = np.where(around, 0, left.work)
    return replace(left, dispatch=dispatch, reading=np.minimum(left.reading, dispatch), work=work)


def _next_event(tape: Tape, gone: Bool) -> Bool:
    """The event after each stretch of those that launch what is gone: the host comes back from calculating again."""
    events = events_of(tape, gone)
    result: Bool = ~events & np.append(False, events[:-1])
    return result


def _first_time(tape: Tape, gone: Bool) -> Bool:
    """The first op of each stretch of the forward pass that runs again later: the same kernels in the same order."""
    name, step = tape.source.trace.device_ops.name[tape.row], tape.source.steps.of_op[tape.row]
    begins = np.flatnonzero(gone & ~np.append(False, gone[:-1]))
    ends = np.flatnonzero(gone & ~np.append(gone[1:], False)) + 1
    result = np.zeros(len(gone), bool)
    for stretch in {tuple(name[a:b].tolist()) for a, b in zip(begins, ends, strict=True)}:
        width = len(stretch)
        if width < LEAST_STRETCH or width > len(name):
            continue
        same = np.ones(len(name) - width + 1, bool)
        for offset, kernel in enumerate(stretch):
            same &= name[offset : len(name) - width + 1 + offset] == kernel
        result[np.flatnonzero(same)] = True
    return result & ~gone & (step >= 0)
