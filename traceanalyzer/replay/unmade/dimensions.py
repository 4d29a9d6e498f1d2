"""Which of the recorded sizes is the batch, and which the sequence length.

The first operators of a step that hold weights take the program's input: indices of an embedding
are [batch, length], images [batch, channels, height, width], features [batch, .., features].
Attention states both: its queries are [batch, heads, length, features]. What the user says comes
first."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import ElementKind, Shape, Tensor
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, convolved, operators
from traceanalyzer.replay.patterns.parameters import CONVOLUTION, Parameters, parameters_of
from traceanalyzer.replay.tape import within_optimizer
from traceanalyzer.replay.unmade.folded import unfolded
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.trace import I64

NO_SHAPES = (
    "the recording has no shapes of operators' inputs, which say what goes with batch and length: "
    "record with record_shapes=True (`collect torch` does)"
)
NO_BATCH = (
    "which size is the batch cannot be told from the shapes of the first operators: say it with "
    "--batch-now"
)
NO_LENGTH = "no operator takes sequences: there is no length to change"
ATTENTION = regex(r"^aten::(_?scaled_dot_product_\w*attention)$")
RECURRENT = regex(r"^aten::(lstm|gru|rnn_tanh|rnn_relu)$")
EMBEDDING = regex(r"^aten::embedding$")
LINEAR = regex(r"^aten::linear$")
MATMUL = regex(r"^aten::(matmul|addmm|mm)$")
ADDED = regex(r"^aten::addmm$")
"""Takes what it adds first."""
LINES = regex(r"^aten::conv1d$")
VIEW = regex(r"^aten::view$")
SIZES = 1
"""Place of the new sizes among a view's values."""
STEPS_LOOKED_AT = 2
MATRIX = 2
SEQUENCE = 3
"""Dimensions of a batch of sequences of features."""
HEADS = 4
"""Dimensions of a batch of sequences parted in heads."""
BATCH_FIRST = 8
"""Place among the values of a recurrent layer that says whether the batch comes first."""


def dimensions_of(rated: Rated, batch_now: int | None = None) -> Dimensions:
    """Batch and length of the recorded steps. Raises QuestionError where they cannot be told."""
    nodes = forward_nodes(rated)
    found = _with_shapes(rated, _of_first_steps(rated, nodes))
    if not found:
        raise QuestionError(NO_SHAPES)
    parameters = rated.joined.memo(parameters_of)
    root = _root(found, parameters)
    attention = list(_attention(_named(rated, nodes, ATTENTION)))
    dimensions = _of_shapes(root, attention, batch_now)
    products = _named(rated, nodes, MATMUL)
    routed = _routed(products, parameters, dimensions.batch)
    lines = _named(rated, nodes, LINES)
    views = _named(rated, nodes, VIEW)
    if dimensions.is_decode:
        return replace(dimensions, routed=routed)
    parts = dimensions.parts | _parts(dimensions.length, lines, views)
    return replace(dimensions, routed=routed, parts=parts)


def _with_shapes(rated: Rated, nodes: I64) -> list[Operator]:
    every = operators(rated.linked).of_nodes(nodes)
    return [one for one in every if one.shapes or one.lists]


def _named(rated: Rated, nodes: I64, pattern: re.Pattern[str]) -> list[Operator]:
    """The operators of such a name among these nodes."""
    return _with_shapes(rated, nodes[operators_named(rated.linked, pattern)[nodes]])


def _of_first_steps(rated: Rated, nodes: I64) -> I64:
    """The nodes up to the end of the second steady step: input comes first in each."""
    steps = rated.timed.steps
    steady = np.arange(len(steps))[steps.steady][:STEPS_LOOKED_AT]
    if not len(steady):
        return nodes
    return nodes[rated.linked.tree.start[nodes] <= int(steps.host_end[steady[-1]])]


def _of_shapes(
    root: Dimensions | None, attention: list[tuple[Shape, Shape]], batch_now: int | None
) -> Dimensions:
    """Batch and length as the user says, the first operators and attention."""
    if batch_now is not None:
        return _with_cache(_as_told(batch_now, root, attention), attention)
    if root is None:
        raise QuestionError(NO_BATCH)
    return _with_cache(_settled(root, attention), attention)


def _as_told(
    batch: int, root: Dimensions | None, attention: list[tuple[Shape, Shape]]
) -> Dimensions:
    """The user's batch, and the length that the first operators or attention have with it."""
    if root is not None and root.batch == batch:
        return replace(root, basis="--batch-now", rows=False)
    length = next((shape[-2] for shape, _ in attention), None)
    rows = batch if root is None else root.batch
    folds = frozenset({rows} if rows > batch and rows % batch == 0 else ())
    return Dimensions(batch, length, basis="--batch-now", folds=folds)


def _routed(products: list[Operator], parameters: Parameters, batch: int) -> frozenset[int]:
    """Rows that layers multiply with their weights, where they are no whole number of samples and
    no size of a parameter."""
    rows = {size for operator in products for size in _rows_of_layer(operator, parameters)}
    return frozenset(size for size in rows if size % batch and size not in parameters.sizes)


def _parts(length: int | None, lines: list[Operator], views: list[Operator]) -> frozenset[int]:
    """Sizes in proportion to the length: what convolutions along it leave of it, one after the
    other, and chunks that views cut it or such a size into."""
    if length is None or length == 1:
        return frozenset()
    known = {length}
    for operator in lines:
        if operator.first[-1:] and operator.first[-1] in known:
            left = convolved(operator) or ()
            known.update(left[-1:])
    return frozenset(_with_chunks(views, known) - {length})


def _with_chunks(views: list[Operator], lengths: set[int]) -> set[int]:
    """These lengths, and the chunks that views cut them into, or chunks before. A view that is like
    one that told nothing tells nothing until there is another length."""
    known = set(lengths)
    in_vain = set[tuple[Shape, tuple[str, ...]]]()
    for operator in views:
        view = (operator.first, operator.values)
        chunks = set() if view in in_vain else _chunks(operator, known) - known
        if chunks:
            known |= chunks
            in_vain.clear()
        else:
            in_vain.add(view)
    return known


def _chunks(operator: Operator, lengths: set[int]) -> set[int]:
    """How many chunks a view cuts one of these lengths into, which lies between the batch and the
    features of what it takes: [batch, length, features] becomes [batch, chunks, each, features]."""
    taken = operator.first
    values = operator.values
    sizes = re.findall(r"\d+", values[SIZES]) if len(values) > SIZES else []
    given = tuple(map(int, sizes))
    if len(given) != len(taken) + 1 or math.prod(given) != math.prod(taken):
        return set()
    for axis in range(1, len(taken) - 1):
        rest = (*given[:axis], *given[axis + 2 :])
        if taken[axis] in lengths and rest == (*taken[:axis], *taken[axis + 1 :]):
            return {size for size in given[axis : axis + 1] if 1 < size < taken[axis]}
    return set()


def _rows_of_layer(operator: Operator, parameters: Parameters) -> Iterator[int]:
    """The rows of data that a product takes with a layer's weights."""
    tensors = [one for one in operator.typed if isinstance(one, Tensor)]
    if len(tensors) < 2:
        return
    data, weight = tensors[-2:]
    if len(data.shape) == MATRIX and parameters.has(weight) and not parameters.has(data):
        yield data.shape[0]


def forward_nodes(rated: Rated) -> I64:
    """Nodes of the operators of the forward pass, from the first steady step on, in their order."""
    tree = rated.linked.tree
    steps = rated.timed.steps
    nodes = np.flatnonzero(~tree.is_call)
    nodes = nodes[~rated.joined.in_backward[nodes] & ~rated.linked.memo(within_optimizer)[nodes]]
    steady = np.arange(len(steps))[steps.steady]
    if not len(steady):
        return nodes
    begin = int(steps.host_start[steady[0]])
    end = int(steps.host_end[steady[-1]])
    start = tree.start[nodes]
    inside = nodes[(start >= begin) & (start <= end)]
    chosen = inside if len(inside) else nodes
    return chosen[np.argsort(tree.start[chosen], kind="stable")]


def _root(found: list[Operator], parameters: Parameters) -> Dimensions | None:
    """What the first operator with weights says that says anything."""
    for place, operator in enumerate(found):
        tensors = [t for t in operator.typed if isinstance(t, Tensor)]
        root = next(_roots_of(operator, tensors, parameters), None) if tensors else None
        if root is not None:
            return unfolded(root, found[:place], found[place:], parameters)
    return None


def _roots_of(
    operator: Operator, tensors: list[Tensor], parameters: Parameters
) -> Iterator[Dimensions]:
    """What an operator that takes these tensors says; nothing where it has no weights."""
    name = operator.name
    first = tensors[0]
    if EMBEDDING.match(name) and len(tensors) > 1:
        yield from _of_indices(tensors[1])
    elif CONVOLUTION.match(name) and not parameters.has(first):
        yield from _of_images(first.shape)
    elif RECURRENT.match(name) and len(first.shape) == SEQUENCE:
        yield _of_sequence(first.shape, operator.values)
    elif ADDED.match(name) and len(tensors) > 1:
        yield from _of_features(tensors[1], tensors[-1], parameters)
    elif LINEAR.match(name) or MATMUL.match(name):
        yield from _of_features(first, tensors[-1], parameters)


def _of_indices(indices: Tensor) -> Iterator[Dimensions]:
    """Of an embedding: positions, which all sequences share, say nothing."""
    shape = indices.shape
    if indices.dtype.kind is not ElementKind.INTEGER or not shape or indices.numel < 1:
        return
    if len(shape) == 1:
        yield Dimensions(shape[0], None, basis=f"indices [{shape[0]}] of the first embedding")
    elif len(shape) == 2:
        yield Dimensions(shape[0], shape[1], basis=f"indices {list(shape)} of the first embedding")


def _of_images(shape: Shape) -> Iterator[Dimensions]:
    if len(shape) < SEQUENCE:
        return
    length = shape[-1] if len(shape) == SEQUENCE else None
    yield Dimensions(shape[0], length, basis=f"input {list(shape)} of the first convolution")


def _of_sequence(shape: Shape, values: tuple[str, ...]) -> Dimensions:
    first = len(values) > BATCH_FIRST and values[BATCH_FIRST].lower() == "true"
    batch, length = shape[:2] if first else shape[1::-1]
    return Dimensions(batch, length, basis=f"input {list(shape)} of the first recurrent layer")


def _of_features(data: Tensor, other: Tensor, parameters: Parameters) -> Iterator[Dimensions]:
    """Of a product; one of two parameters says nothing, unless both look alike."""
    shape = data.shape
    if len(shape) < 2 or (parameters.has(data) and shape != other.shape):
        return
    length = shape[1] if len(shape) == SEQUENCE and shape[1] > 1 else None
    basis = f"input {list(shape)} of the first linear layer"
    yield Dimensions(shape[0], length, basis=basis, rows=len(shape) == MATRIX)


def _attention(found: list[Operator]) -> Iterator[tuple[Shape, Shape]]:
    """Shapes of queries and keys of operators of attention."""
    for operator in found:
        shapes = operator.shapes
        if len(shapes) > 1 and len(shapes[0]) == HEADS:
            yield shapes[0], shapes[1]


def _settled(root: Dimensions, attention: list[tuple[Shape, Shape]]) -> Dimensions:
    """What the first operator says, with batch and length the other way around where attention has
    them so."""
    rows = root.rows and all(query[0] != root.batch for query, _ in attention)
    for query, _ in attention:
        outer = (query[0], query[2])
        if outer == (root.batch, root.length):
            break
        if outer == (root.length, root.batch) and root.length is not None:
            return Dimensions(root.length, root.batch, basis=f"{root.basis}, length first")
    return replace(root, rows=rows)


def _with_cache(found: Dimensions, attention: list[tuple[Shape, Shape]]) -> Dimensions:
    """A pass over one token for each sequence, whose keys are more, is a decode's."""
    if found.length not in (None, 1):
        return found
    kept = frozenset(key[2] for query, key in attention if query[2] == 1 < key[2])
    return replace(found, cached=kept) if kept else found
