"""Attention that gets its causal mask as a tensor, as a kernel that is told to be causal: it leaves
out the scores above the diagonal, and reads no mask."""

import math

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.attention import (
    BACKWARD_EFFICIENCY,
    BACKWARD_SLOTS,
    BIAS_SLOTS,
    SLOTS,
    TILE,
)
from traceanalyzer.replay.changes.precision import TENSOR_EFFICIENCY
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool

ATTENTION = regex(r"^aten::scaled_dot_product_attention$")
TRIANGLE = regex(r"^aten::(triu|tril)_?$")
KERNELS = regex(r"^aten::_(scaled_dot_product_)?(cudnn|efficient|flash)_attention")
"""Operators that calculate attention in one kernel, forward and backward."""
QUERIES = 0
KEYS = 1
MASK = 3
"""Places among its arguments."""
LEAST_TOKENS = 2 * TILE  # of fewer the diagonal goes through every tile
FORWARD_PRODUCTS = 4
BACKWARD_PRODUCTS = 10
"""FLOPs of a score, in units of the head's size."""


@dataclass(frozen=True)
class SquareMask:
    """Attention over as many keys as queries with one mask for all heads and items."""

    tokens: int
    head: int  # numbers of a query

    @property
    def share_of_tiles(self) -> float:
        """Tiles that hold scores on or below the diagonal, of all."""
        tiles = math.ceil(self.tokens / TILE)
        return (tiles + 1) / (2 * tiles)


def square_mask(operator: Operator, triangles: frozenset[int] = frozenset()) -> SquareMask | None:
    """What an operator of attention has of such a mask; None without one. A bias that each head or
    item has for itself is no causal mask, unless the program makes triangles of as many tokens: then
    what items have for themselves is padding."""
    arguments = operator.inputs
    if len(arguments) <= MASK:
        return None
    shapes: list[Shape] = [getattr(one, "shape", ()) for one in arguments]
    queries, keys, mask = shapes[QUERIES], shapes[KEYS], shapes[MASK]
    if len(queries) < 2 or len(keys) < 2 or len(mask) < 2:
        return None
    tokens = queries[-2]
    is_square = mask[-2:] == (tokens, tokens) and keys[-2] == tokens >= LEAST_TOKENS
    of_all = math.prod(mask[:-2]) == 1
    of_items = tokens in triangles and mask[1:-2] == (1,)
    is_shared = of_all or of_items
    return SquareMask(tokens, queries[-1]) if is_square and is_shared else None


def causal_by_name(tape: Tape) -> Tape | None:
    """Attention with such a mask in the time of causal kernels; None without any."""
    linked = tape.source.linked
    called = np.flatnonzero(operators_named(linked, ATTENTION))
    triangles = _triangles(tape)
    masks = operators(linked).tell(called, lambda one: square_mask(one, triangles))
    duration = tape.duration.astype(np.float64)
    in_kernel = _in_kernels(tape)
    for mask in {one for one in masks if one is not None}:
        inside = _inside(tape, called[[one == mask for one in masks]])
        forward = in_kernel & tape.of_launches(inside)
        backward = in_kernel & tape.backward_of(inside) & ~forward
        for ops, of_backward in ((forward, False), (backward, True)):
            share = mask.share_of_tiles * _share_without_bias(tape, mask, backward=of_backward)
            duration = np.where(ops, tape.duration * share, duration)
    changed = tape.retimed(duration)
    return changed if (changed.duration < tape.duration).any() else None


def _triangles(tape: Tape) -> frozenset[int]:
    """Sides of the squares that the program makes triangles of."""
    linked = tape.source.linked
    nodes = np.flatnonzero(operators_named(linked, TRIANGLE))
    shapes = [one.first for one in operators(linked).of_nodes(nodes)]
    squares = [shape for shape in shapes if len(shape) >= 2 and shape[-1] == shape[-2]]
    return frozenset(shape[-1] for shape in squares)


def _in_kernels(tape: Tape) -> Bool:
    linked = tape.source.linked
    inside = linked.tree.innermost(operators_named(linked, KERNELS)) >= 0
    return tape.of_launches(inside)


def _inside(tape: Tape, nodes: I64) -> Bool:
    """Nodes of the host tree that are, or lie inside, one of these."""
    tree = tape.source.linked.tree
    chosen = np.zeros(len(tree.kind), bool)
    chosen[nodes] = True
    return tree.innermost(chosen) >= 0


def _share_without_bias(tape: Tape, mask: SquareMask, *, backward: bool) -> float:
    """What is left of a score's time where no mask is added to it; all where the GPU is not
    known."""
    device = tape.source.timed.device
    gpu = None if device is None else tape.source.linked.gpus.get(device)
    peak = None if gpu is None else gpu.tensor.get("bf16")
    issued = tape.source.linked.limit("issue_rate")[tape.row]
    if not peak or not len(issued) or not math.isfinite(issued[0]):
        return 1.0
    efficiency = BACKWARD_EFFICIENCY if backward else TENSOR_EFFICIENCY
    flops = mask.head * (BACKWARD_PRODUCTS if backward else FORWARD_PRODUCTS)
    products = flops / (peak * efficiency)
    slots = BACKWARD_SLOTS if backward else SLOTS
    without = products + slots / float(issued[0])
    return without / (without + BIAS_SLOTS / float(issued[0]))
