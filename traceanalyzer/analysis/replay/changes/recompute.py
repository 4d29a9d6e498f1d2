"""Activations kept instead of calculated again in the backward pass (checkpointing)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import nodes, without_launches
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

FORWARD_ONLY = re.compile(
    r"^aten::(linear|addmm|conv\dd|convolution|layer_norm|native_layer_norm|batch_norm|group_norm|embedding|rms_norm"
    r"|scaled_dot_product_attention|gelu|silu|relu|dropout)$"
)
"""Operators of a forward pass that no backward pass of an operator calls."""
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
    """Nothing is calculated again; None where nothing is."""
    gone = recomputed(tape)
    return without_launches(tape, gone) if gone.any() else None
