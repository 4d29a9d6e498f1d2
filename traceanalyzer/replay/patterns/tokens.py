"""Tokens that a convolution cut of a picture and that keep its layout, channels first, after
`flatten(2).transpose(1, 2)`: what adds to them keeps it, too, and each operator that needs whole
rows (layer norms, products) copies them first, forward and backward."""

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, tensors_of
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import are_named
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool, distinct

COPY = regex(r"^aten::copy_$")
CONVOLUTION = regex(r"^aten::(conv2d|convolution|cudnn_convolution)$")
TOKENS = 3  # dimensions of a batch of rows

Maps = frozenset[tuple[int, int]]
"""Items and channels of what convolutions give."""


def tokens_turned(tape: Tape) -> Bool:
    """Copies that bring such tokens into rows."""
    return tape.memo(_tokens_turned)


def _tokens_turned(tape: Tape) -> Bool:
    maps = _maps(tape)
    operator = tape.of_launches(tape.source.linked.tree.operator)
    copies = np.flatnonzero(are_named(tape.source.linked, operator, COPY) & tape.compute)
    result = np.zeros(len(tape.row), bool)
    if not maps or not len(copies):
        return result
    table = tape.source.trace.host_ranges
    rows = at(tape.source.linked.tree.row, operator[copies], -1)
    columns = (table.shapes, table.dtypes, table.strides)
    kinds = list(zip(*(column[rows].tolist() for column in columns), strict=True))
    text = tape.source.trace.text
    turned = {kind: _turns(tensors_of(*map(text, kind)), maps) for kind in set(kinds)}
    result[copies] = [turned[kind] for kind in kinds]
    return result


def _maps(tape: Tape) -> Maps:
    """The results of the forward pass's convolutions along planes."""
    outer = distinct(tape.forward_operators)
    found = outer[are_named(tape.source.linked, outer, CONVOLUTION)]
    shapes = [one.shapes for one in operators(tape.source.linked).of_nodes(found)]
    known = [(one[0], one[1]) for one in shapes if len(one) > 1]
    return frozenset((data[0], weight[0]) for data, weight in known if data and weight)


def _turns(tensors: list[Tensor], maps: Maps) -> bool:
    """Whether a copy writes rows of tokens whose channels lie apart."""
    if len(tensors) < 2 or len(tensors[0].shape) != TOKENS:
        return False
    to, taken = tensors[:2]
    items, tokens, channels = to.shape
    rows = (tokens * channels, channels, 1)
    apart = (tokens * channels, 1, tokens)
    same = taken.shape == to.shape and taken.dtype == to.dtype
    return same and (items, channels) in maps and to.strides == rows and taken.strides == apart
