"""Attention in one kernel: neither products nor passes over the scores, nor the copies that only
they need.

The fused kernel's time follows from its work. Each score takes the products' arithmetic on the
tensor cores, and an exponential and what surrounds it on the other units (16 special functions a
cycle and SM, of 128 lanes); the two hardly overlap. Backward calculates the scores again: five
products where the forward pass has two, and passes over the rows. Kernels recorded on an H100 took
0.7 to 1.4 times as long as this says (head sizes 32 to 128, 197 to 32768 tokens)."""

import math

import numpy as np

from traceanalyzer.analysis.groups.ops import (
    attention_parts,
    between_products,
    in_stream_order,
    with_text,
)
from traceanalyzer.analysis.groups.ops import op_code as operators
from traceanalyzer.analysis.groups.passes import largest_operands
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import NS_PER_S, dataclass, regex
from traceanalyzer.replay.changes.precision import TENSOR_EFFICIENCY, WIDE
from traceanalyzer.replay.patterns.operators import operators as operators_of
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, distinct

MASKING = regex(r"^aten::(masked_fill_?|where)$")
ADDING = regex(
    r"^aten::(add_?|masked_fill_?|where)$"
)  # operators that lay a mask or a bias over the scores
TILE = 128  # rows and columns of scores that a kernel works on together: sizes are rounded up to it
SLOTS = 12
BACKWARD_SLOTS = 16
"""Issue slots of a score: eight for the exponential, the rest for scaling, maximum, sum and
conversion."""
RANDOM_SLOTS = 20
BIAS_SLOTS = 12
"""What a dropout's random number adds, and what a mask or bias does that is read for each score."""
BACKWARD_EFFICIENCY = 0.5  # share of the tensor cores' peak that the backward pass's products reach
WIDE_EFFICIENCY = 0.25
"""Share of the ordinary cores' fp32 peak that attention on fp32 tensors reaches (PyTorch's
memory-efficient kernel on an H100): often less than the products alone."""
AGAIN = (
    5 / 4
)  # products of the backward pass with the scores calculated again over those written out
ROW_TENSORS = 8  # tensors of the queries' size that the backward pass moves beside its main kernel
FORWARD_TENSORS = 4  # queries, keys, values and the result
WITH_GRADIENT = 2.0
"""Times as long as a flash kernel takes one for a bias that is learned, which none of those has."""
AGAIN_PASSED = 2.0
"""Passes over the scores that a learned bias keeps in the backward pass: its gradient is written for
each item, and added up."""
CAUSAL = 0.5  # of the scores that are calculated where a token sees those before it only
SUM = regex(r"^aten::sum$")
SCALING = regex(r"^aten::(mul|div)_?$")
MATRIX = 2  # dimensions of a matrix


def attention_fused(tape: Tape) -> Tape | None:
    """Each attention that is written out as one kernel; None without any."""
    order = _stream_order(tape)
    parts = attention_parts(tape.source)
    softmax = parts.softmax[tape.row[order]]
    backward = parts.backward[tape.row[order]]
    neighbours = _Neighbours.of(tape, order)  # of the attention before
    end = -1
    time = tape.duration.astype(np.float64)
    gone = np.zeros(len(tape.row), bool)
    for inside in _between_products(tape, order):
        middle = int(inside[softmax[inside]][0])
        first, last = neighbours.around(inside, backward=bool(backward[middle]))
        if first > end:
            end = last
            ops = order[first : last + 1]
            fused = _fused_ns(tape, ops, int(order[middle]), bool(backward[middle]))
            gone[ops[1:]] = True
            time[ops[0]] = min(fused, float(tape.duration[ops].sum()))
    return tape.retimed(time).without_launches(gone) if end >= 0 else None


def _between_products(tape: Tape, order: I64) -> list[I64]:
    """The places (in stream order) of the ops between an attention's products, of each one."""
    number = between_products(tape.source, tape.row[order])
    return [np.flatnonzero(number == one) for one in distinct(number[number >= 0]).tolist()]


def _stream_order(tape: Tape) -> I64:
    """The ops of a tape, stream after stream."""
    place = np.full(len(tape.source.trace.device_ops), -1, np.int64)
    place[tape.row] = np.arange(len(tape.row))
    return place[in_stream_order(tape.source.timed, place >= 0)]


def _written(shapes: list[Shape]) -> int:
    """Elements of the product of an operator's last two tensors; 0 where these are no batches of
    matrices."""
    if len(shapes) < 2 or min(map(len, shapes[-2:])) <= MATRIX:
        return 0
    return math.prod(shapes[-2][:-1]) * shapes[-1][-1]


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """What stands beside an attention's products, by stream order: copies that only they need."""

    copies: Bool  # changes of layout, and memsets
    products: Bool
    scales: Bool  # products with a number
    outer: I64  # the outermost operator of each op
    elements: I64  # elements of the largest operand of each op's operator
    written: I64  # elements of the result of each product, 0 for others

    @classmethod
    def of(cls, tape: Tape, order: I64) -> "_Neighbours":
        source = tape.source
        row = tape.row[order]
        operator = operators(source)[row]
        outer = tape.of_launches(source.linked.tree.outer_operator)[order]
        products = attention_parts(source).product[row]
        of_product = np.where(products, source.roofline.row[row], -1)
        known = operators_of(source.linked).of_rows(of_product)
        results = {one: _written(one.shapes) for one in set(known)}
        written = [results[one] for one in known]
        copies = tape.of_classes("layout", "memset")[order]
        scales = with_text(source.linked, operator, SCALING)
        elements = source.memo(largest_operands)[row]
        return cls(
            copies, products, scales, outer.astype(np.int64), elements, np.array(written, np.int64)
        )

    def around(self, inside: I64, *, backward: bool) -> tuple[int, int]:
        """The first and the last op of the attention whose products these ops lie between."""
        before = int(inside[0]) - 1
        after = int(inside[-1]) + 1
        if backward:
            return self.product(before, -1), self.product(after, 1)
        return self.operands(before), self.result(after)

    def product(self, begin: int, way: int) -> int:
        """The other product of two that follow each other, but for copies; the one itself where
        there is none."""
        at = begin + way
        while 0 <= at < len(self.copies) and self.copies[at]:
            at += way
        return at if 0 <= at < len(self.copies) and self.products[at] else begin

    def operands(self, product: int) -> int:
        """The first of the ops before a product that scale its operands or bring them in order
        within its operator."""
        at = product
        own = self.outer[product]
        while at > 0 and self.copies[at - 1] and self.outer[at - 1] == own >= 0:
            at -= 1
        scaled = (
            own >= 0
            and at > 0
            and self.scales[at - 1]
            and self.elements[at - 1] in self.elements[at : product + 1]
        )
        return at - 1 if scaled else at

    def result(self, product: int) -> int:
        """The copy right after a product that brings its result in another order; the product where
        there is none."""
        at = product + 1
        copied = (
            at < len(self.copies)
            and self.copies[at]
            and self.elements[at] == self.written[product] > 0
        )
        return at if copied else product


def _fused_ns(tape: Tape, ops: I64, softmax: int, backward: bool) -> float:
    """What one kernel takes for these ops, ns; without known GPU or sizes what their products
    take."""
    source = tape.source
    row = tape.row[ops]
    shape = next(iter(_shapes(tape, softmax)), ())
    products = attention_parts(source).product[row] & source.linked.is_matrix[row]
    if len(shape) < MATRIX or 0 in shape or not products.any():
        return float(tape.duration[ops][products].sum())
    wide = np.isin(source.roofline.precision[row[products]], WIDE).any()
    padded = _padded(shape)
    product_flops = source.roofline.flops[row[products]]
    flops = (
        float(np.nansum(product_flops)) * padded / math.prod(shape) * (AGAIN if backward else 1.0)
    )
    arithmetic = flops / _rate(tape, int(row[0]), bool(wide), backward)
    issued = padded * _slots(tape, ops, backward) / _limit(tape, row, "issue_rate")
    queries = float(np.nanmax(product_flops)) / (2 * shape[-1])
    moved = queries * (4 if wide else 2) / _limit(tape, row, "bandwidth")
    if shape in tape.memo(summed_shapes):
        arithmetic *= WITH_GRADIENT
        issued *= WITH_GRADIENT
        again = backward * math.prod(shape) * (4 if wide else 2) * AGAIN_PASSED
        issued += again / _limit(tape, row, "bandwidth")
    causal = CAUSAL if _is_causal(tape, ops, shape) else 1.0
    seconds = max((arithmetic + issued) * causal, FORWARD_TENSORS * moved) + (
        ROW_TENSORS * moved if backward else 0.0
    )
    return (
        seconds * NS_PER_S if math.isfinite(seconds) else float(tape.duration[ops][products].sum())
    )


def summed_shapes(tape: Tape) -> frozenset[Shape]:
    """Shapes of what the backward pass adds up: of scores, where a bias over them is learned."""
    source = tape.source
    rows = source.roofline.row[tape.row[tape.in_backward]]
    found = operators_of(source.linked).of_rows(rows)
    return frozenset(one.first for one in set(found) if one.named(SUM))


def _padded(shape: Shape) -> int:
    """Scores of this shape with those that fill its tiles."""
    tiled = (math.ceil(size / TILE) * TILE for size in shape[-2:])
    return math.prod((*shape[:-2], *tiled))


def _limit(tape: Tape, row: I64, name: str) -> float:
    """A limit of the GPU of these ops (`Linked.limit`); NaN where it is not known."""
    return float(tape.source.linked.limit(name)[row[0]])


def _rate(tape: Tape, row: int, wide: bool, backward: bool) -> float:
    """FLOP/s of an attention kernel's products; NaN where the GPU is not known."""
    gpu = tape.source.linked.gpus.get(int(tape.source.trace.device_ops.device[row]))
    if gpu is None:
        return math.nan
    if wide:
        return (gpu.vector.get("fp32") or math.nan) * WIDE_EFFICIENCY
    peak = gpu.tensor.get("bf16") or gpu.tensor.get("fp16") or math.nan
    return peak * (BACKWARD_EFFICIENCY if backward else TENSOR_EFFICIENCY)


def _slots(tape: Tape, ops: I64, backward: bool) -> float:
    """Issue slots that a score takes beside the products."""
    source = tape.source
    row = tape.row[ops]
    random = source.linked.op_class[row] == source.linked.classes.index("random")
    laid = with_text(source.linked, operators(source)[row], ADDING)
    biased = any(
        len(shapes) > 1 and math.prod(shapes[1]) > 1
        for shapes in (_shapes(tape, int(i)) for i in ops[laid])
    )
    return (
        (BACKWARD_SLOTS if backward else SLOTS)
        + RANDOM_SLOTS * bool(random.any())
        + BIAS_SLOTS * biased
    )


def _is_causal(tape: Tape, ops: I64, shape: Shape) -> bool:
    """Whether scores are left out by one square mask for all heads and items: of texts, those to
    come."""
    masking = with_text(tape.source.linked, operators(tape.source)[tape.row[ops]], MASKING)
    square = shape[-1] == shape[-2] > 1
    taken = (one for i in ops[masking].tolist() for one in _shapes(tape, i))
    masks = (one for one in taken if one[-2:] == shape[-2:])
    return square and any(math.prod(one) == shape[-1] ** 2 for one in masks)


def _shapes(tape: Tape, op: int) -> list[Shape]:
    rows = tape.source.roofline.row[tape.row[[op]]]
    return operators_of(tape.source.linked).of_rows(rows)[0].shapes
