"""Elementwise operators that autocast leaves in fp32: those that take a parameter, and what follows them.

Autocast gives 16 bits to products and leaves other operators to PyTorch's rule, by which the wider format wins. What a
product gives is fp32 again once it is multiplied by, or added to, a parameter that is no product's (a frozen norm's
scale, a layer's gain, positions), and stays so until the next product, which casts it.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.replay.on_tape import of_launches
from traceanalyzer.replay.patterns.flow import is_shared
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, Bool

PROMOTES = re.compile(r"^aten::(mul|add|sub|div)$")
"""Operators whose result has the wider format of their operands; in place the first one's stays."""
PASSES = re.compile(
    r"^aten::(relu|leaky_relu|elu|gelu|silu|mish|tanh|sigmoid|hardtanh|clamp|clamp_min|dropout|add|sub|mul|div)_?$"
)
"""Operators that give what they take in the format that it has."""
CASTS = re.compile(r"^aten::(linear|addmm|mm|matmul|bmm|baddbmm|conv\d\w*|conv_transpose\w*|_?convolution)$")
"""Operators that autocast gives 16 bits to."""
CAST_BYTES = 4 + 2
"""Of each number that is cast: read in fp32, written in 16 bits."""


class Wide(NamedTuple):
    """What autocast leaves in fp32, by nodes of the host tree."""

    stays: Bool
    """Operators that work in fp32 all the same."""
    cast: F64
    """Bytes that a product's cast of such a result moves."""


def kept_in_fp32(tape: Tape) -> tuple[Bool, F64]:
    """Which ops work in fp32 under autocast, too, and for each op how many bytes its operator first casts."""
    found = tape.source.joined.memo(_kept)
    operator = of_launches(tape, tape.source.linked.tree.outer_operator)
    return found.stays[operator], found.cast[operator]


def _kept(joined: Joined) -> Wide:
    tree = joined.linked.tree
    outer = tree.outermost_operators[~joined.in_backward[tree.outermost_operators]]
    stays, cast = np.zeros(len(tree.start) + 1, bool), np.zeros(len(tree.start) + 1)
    wide, taken = set[Shape](), set[Shape]()
    for node, one in zip(outer.tolist(), operators(joined.linked).of_nodes(outer), strict=True):
        if not one.shapes:
            continue
        if one.named(CASTS):
            taken, wide = wide or taken, set()
            cast[node] = math.prod(one.shapes[0]) * CAST_BYTES * (one.shapes[0] in taken)
        elif one.named(PASSES):
            largest = max(one.shapes, key=math.prod)
            promoted = one.named(PROMOTES) and _has_parameter(one.shapes)
            stays[node], taken = promoted or largest in wide, set()
            wide |= {largest} if promoted else set()
    stays[:-1] |= made_by(joined.linked, stays[:-1])
    return Wide(stays, cast)


def _has_parameter(shapes: list[Shape]) -> bool:
    """Whether one of two tensors is the same for all items of the other's batch."""
    large, small = sorted((*shapes, (), ())[:2], key=math.prod, reverse=True)
    return is_shared(small, large) and 1 < math.prod(small) < math.prod(large)
