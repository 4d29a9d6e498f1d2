"""Where what layers take as rows is samples times what each of them has.

A forecaster's series, a clip's frames or a graph's nodes are folded into the rows of the first layer:
[16, 321, 512] becomes [5136, 512], and the batch is 16. Told by tensors before that layer, or by the
rows that the loss is taken of."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from traceanalyzer.analysis.roofline.op_models.tensors import Shape, Tensor
from traceanalyzer.replay.patterns.operators import LOSSES, Operator
from traceanalyzer.replay.patterns.parameters import Parameters
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions

UNFOLDED = 3
"""Dimensions of samples that have several things each, of so many features."""


def unfolded(
    root: Dimensions, before: Sequence[Operator], losses: Sequence[Operator], parameters: Parameters
) -> Dimensions:
    """The root with the batch that was folded into its rows: by operators `before` it, else by the
    losses of a step. Unchanged where neither tells. Of a matrix what stood before tells nothing:
    a layer's own rows are samples times tokens, or tokens times samples."""
    shapes = [shape for operator in before for shape in _data(operator, parameters)]
    folded = [shape for shape in shapes if _folds_into(shape, root.batch)]
    if folded and not root.rows:
        return _of_unfolded(root, folded[-1])
    return _with_rows_of_loss(root, losses)


def _with_rows_of_loss(root: Dimensions, losses: Sequence[Operator]) -> Dimensions:
    """A root without a length whose rows are a multiple of those that all losses have."""
    rows = {operator.first[0] for operator in losses if _is_loss(operator) and operator.first}
    samples = rows.pop() if len(rows) == 1 else 0
    tells = 1 < samples < root.batch and root.batch % samples == 0
    if root.length is not None or not tells:
        return root
    basis = f"the {samples} rows of the loss, {root.batch // samples} each in {root.basis}"
    return Dimensions(samples, None, basis=basis, folds=frozenset({root.batch}))


def _data(operator: Operator, parameters: Parameters) -> Iterator[Shape]:
    """Shapes of the tensors that an operator takes and that are no parameters."""
    for tensor in operator.typed:
        if isinstance(tensor, Tensor) and not parameters.has(tensor):
            yield tensor.shape


def _folds_into(shape: Shape, rows: int) -> bool:
    """Whether the outer dimensions of a tensor, several of them, are so many rows."""
    if len(shape) < UNFOLDED or not 1 < shape[0] < rows:
        return False
    return rows in (math.prod(shape[:outer]) for outer in range(2, len(shape)))


def _of_unfolded(root: Dimensions, shape: Shape) -> Dimensions:
    """What a root says whose rows are the outer dimensions of a tensor. Where its length is a whole
    part of the tensor's last dimension, it counts the patches of that."""
    basis = f"{list(shape)}, folded into {root.basis}"
    folds = frozenset({root.batch})
    found = replace(root, batch=shape[0], basis=basis, rows=False, folds=folds)
    length = root.length
    if length is not None and shape[-1] > length and shape[-1] % length == 0:
        return replace(found, length=shape[-1], parts=frozenset({length}))
    return found


def _is_loss(operator: Operator) -> bool:
    return operator.named(*(pattern for pattern, _ in LOSSES))
