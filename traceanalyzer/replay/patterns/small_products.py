"""Runs of small matrix products of one shape that one batched product could do: none needs what
another gives.

Layers are recorded like items: a product of equal shapes after another. So a run counts where the
recording shows that it is no chain. Its products give another size than they take; or views bring
each result to dimensions that the next product does not take (query, key and value of one input);
or the program takes as many items of that size out of tensors as the products have operands of
it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, isin
from traceanalyzer.analysis.groups import ops
from traceanalyzer.analysis.groups.products import TENSOR_EFFICIENCY
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.trace import I32, I64, Bool

MIN_BATCH = 3  # fewer small products of one shape in a row are not worth merging
LINEAR = regex(r"^aten::linear$")
PRODUCT = regex(r"^aten::(linear|mm|matmul|bmm|mv|_scaled_mm|addmm|baddbmm|addmv)$")
ADDED_TO = regex(r"^aten::(addmm|baddbmm|addmv)$")
"""Their first tensor is added to the product; where it is a bias, these are a layer and have
weights."""
TAKES_OUT = regex(r"^aten::(unbind|select|split|chunk|slice|narrow)$")
"""Operators that take items out of a tensor, launching nothing."""
DIMENSION_FIRST = {"unbind", "select", "slice", "narrow"}
"""Those whose first number is the dimension; that of others is their second."""
TAKES_ALL = {"unbind", "split", "chunk"}
"""Those that give all of the tensor, in pieces."""
TURNS = regex(r"^aten::(transpose|permute)$")
VIEW = regex(r"^aten::(view|reshape|_unsafe_view)$")
NONE = Operator("")


@dataclass(frozen=True, eq=False)
class SmallProducts:
    """Runs of small products of one shape with nothing between them, of which none needs
    another."""

    kernels: ops.OpsGroup
    in_a_row: float
    batched_ms: float  # time a step as batched products
    turned_share: float
    """Of runs outside of the backward pass, those of layers whose results views turn, as query, key
    and value."""


def every_small_product(rated: Rated) -> SmallProducts | None:
    """The runs of such products of all ops; None without any."""
    return small_product_runs(rated, np.ones(len(rated.timed.trace.device_ops), bool))


def small_product_runs(rated: Rated, free: Bool) -> SmallProducts | None:
    """Such runs, of ops that are `free`; None without any."""
    roofline = rated.roofline
    order = ops.in_stream_order(rated.timed, ops.steady(rated.timed))
    small = ops.of_class(rated.joined, "gemm") & free & roofline.small & (roofline.row >= 0)
    shape = at(rated.trace.host_ranges.shapes, roofline.row, -1)[order]
    run = ops.runs_of_neighbours(rated.timed, order, small[order])[0].astype(np.int64)
    # A run also ends where the shape changes.
    other_shape = np.diff(shape, prepend=shape[:1]) != 0
    shapes_met = np.cumsum(other_shape & small[order])
    in_run = run >= 0
    run[in_run] += shapes_met[in_run]
    long = (run >= 0) & (np.bincount(run + 1)[run + 1] >= MIN_BATCH)
    order = order[long]
    run = run[long]
    if not len(run):
        return None
    known = list(_described(rated, order, run))
    independent = _independent(rated, known)
    chosen = isin(run, np.array(independent, np.int64))
    if not chosen.any():
        return None
    order = order[chosen]
    run = np.unique(run[chosen], return_inverse=True)[1]
    rows = np.zeros(len(small), bool)
    rows[order] = True
    attainable = np.bincount(run, weights=roofline.attainable[order] / TENSOR_EFFICIENCY)
    batched = np.maximum(ops.greatest(ops.duration(rated.linked)[order], run), attainable)
    return SmallProducts(
        ops.group(rated.timed, rows),
        len(run) / len(batched),
        ops.per_step(rated.timed, batched),
        _turned_share(rated, known, set(independent)),
    )


class _Run(NamedTuple):
    """One run of products."""

    number: int
    nodes: I32  # of the host tree, that launched them
    size: int  # elements that each of its products gives
    operands: int  # operands of that size: each may be what a product before it gave
    is_layer: bool  # whether it has weights


def _described(rated: Rated, order: I64, run: I64) -> Iterator[_Run]:
    """The runs of these ops whose products' shapes say what they give."""
    number, first = np.unique(run, return_index=True)
    products = operators(rated.linked).of_rows(rated.roofline.row[order[first]])
    nodes = np.split(rated.joined.launch_node[order], first[1:])
    for product, name, launched in zip(products, number.tolist(), nodes, strict=True):
        size = _size_of_result(product)
        if size is not None:
            operands = [math.prod(shape) for shape in _operands(product)]
            yield _Run(name, launched, size, operands.count(size), len(operands) == 1)


def _place_of_data(product: Operator) -> int:
    return 1 if product.named(ADDED_TO) else 0


def _size_of_result(product: Operator) -> int | None:
    """How many elements a product gives; None where its shapes do not say so."""
    place = _place_of_data(product)
    data = _shape(product, place)
    weights = _shape(product, place + 1)
    if not product.named(PRODUCT) or not data or len(weights) not in {1, 2, len(data)}:
        return None
    if len(weights) == 1:
        return math.prod(data[:-1])
    return math.prod(data[:-1]) * weights[0 if product.named(LINEAR) else -1]


def _operands(product: Operator) -> Sequence[Shape]:
    """The operands that may be results of products: no weights, and no bias."""
    place = _place_of_data(product)
    data = product.shapes[place]
    adds_bias = place > 0 and len(product.shapes[0]) < len(data)
    return [data] if product.named(LINEAR) or adds_bias else product.shapes[: place + 2]


def _independent(rated: Rated, known: Sequence[_Run]) -> list[int]:
    """The runs, of these, whose products need nothing of each other."""
    found = set[int]()
    unsure = dict[bool, list[_Run]](((False, []), (True, [])))
    for candidate in known:
        if not candidate.operands or _turned(rated, candidate):
            found.add(candidate.number)
        else:
            unsure[bool(rated.joined.in_backward[candidate.nodes[0]])].append(candidate)
    found |= _of_items(rated, unsure[False])
    # Those of the backward pass that they give rise to.
    outer = rated.linked.tree.outer_operator
    of_found = np.zeros(len(outer) + 1, bool)
    for candidate in known:
        of_found[outer[candidate.nodes]] |= candidate.number in found
    learned = made_by(rated.linked, of_found[outer]) if unsure[True] else of_found
    return sorted(found | {one.number for one in unsure[True] if learned[one.nodes].all()})


def _turned_share(rated: Rated, known: Sequence[_Run], chosen: set[int]) -> float:
    """How many of the chosen runs outside of the backward pass are layers whose results are turned, as
    a share."""
    forward = [
        one for one in known if one.number in chosen and not rated.joined.in_backward[one.nodes[0]]
    ]
    turned = sum(one.is_layer and _turned(rated, one) for one in forward)
    return turned / max(len(forward), 1)


def _of_items(rated: Rated, runs: list[_Run]) -> set[int]:
    """Runs of a size of which the program takes as many items out of tensors as they have
    operands."""
    asked = Counter[int]()
    items = _items(rated) if runs else Counter[int]()
    for products in runs:
        asked[products.size] += products.operands * len(products.nodes)
    return {one.number for one in runs if items[one.size] >= asked[one.size]}


def _turned(rated: Rated, run: _Run) -> bool:
    """Whether views give each result of a run dimensions that the next product does not take."""
    tree = rated.linked.tree
    known = operators(rated.linked)
    for first, following in pairwise(
        np.searchsorted(tree.outermost_operators, tree.outer_operator[run.nodes]).tolist()
    ):
        *between, product = known.of_nodes(
            tree.outermost_operators[first + 1 : max(following, first) + 1]
        ) or [NONE]
        views = [
            i
            for i, one in enumerate(between)
            if one.named(VIEW) and math.prod(one.first) == run.size
        ]
        is_turned = len(views) == 1 and between[-1].named(TURNS)
        turned = between[views[0] + 1].first if is_turned else ()
        if math.prod(turned) != run.size or len(turned) in map(len, product.shapes):
            return False
    return True


def _items(rated: Rated) -> Counter[int]:
    """How many items of a size the steady state's forward passes take out of tensors."""
    tree = rated.linked.tree
    outer = rated.linked.tree.outermost_operators
    counted = Counter[int]()
    outer = outer[
        operators_named(rated.linked, TAKES_OUT)[outer] & ~rated.joined.in_backward[outer]
    ]
    for size, count in operators(rated.linked).tell(
        outer[rated.timed.steady_host(tree.start[outer])[:]], _items_of
    ):
        counted[size] += count
    return counted


def _items_of(operator: Operator) -> tuple[int, int]:
    """The size of what such an operator takes out of a tensor, and how many it takes."""
    shape = operator.first
    name = operator.name.removeprefix("aten::")
    numbers = [_number(operator, place) for place in (1, 2, 3)]
    dimension = numbers[0 if name in DIMENSION_FIRST else 1]
    length = shape[dimension] if -len(shape) <= dimension < len(shape) else 0
    each = _items_taken(name, numbers, length)
    if not 0 < each <= length:
        return 0, 0
    pieces = length // each if name in TAKES_ALL else 1
    return math.prod(shape) // length * each, pieces


def _items_taken(name: str, numbers: Sequence[int], length: int) -> int:
    """How many items of its dimension one piece has, given the operator's numbers."""
    if name in ("unbind", "select"):
        return 1
    if name == "split":
        return numbers[0]
    if name == "chunk":
        return -(-length // max(numbers[0], 1))
    return numbers[2] if name == "narrow" else min(numbers[2], length) - numbers[1]


def _number(operator: Operator, place: int) -> int:
    """A value that an operator was called with; 0 without a number in that place."""
    text = operator.values[place] if place < len(operator.values) else ""
    return int(text) if text.lstrip("-").isdecimal() else 0


def _shape(operator: Operator, place: int) -> Shape:
    """The shape of what an operator was called with; empty where there is none in that place."""
    return operator.shapes[place] if place < len(operator.shapes) else ()
