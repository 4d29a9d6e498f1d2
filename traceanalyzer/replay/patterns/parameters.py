"""Which recorded shapes are those of a model's parameters: they stay as they are whatever batch and
length."""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.analysis.roofline.op_models.tensors import (
    Input,
    Shape,
    Tensor,
    inputs_of,
    without_ones,
)
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import RangeKind

WEIGHTS: dict[str, tuple[int, ...]] = {
    "aten::linear": (1, 2),
    "aten::addmm": (0, 2),
    "aten::embedding": (0,),
    "aten::embedding_bag": (0,),
    "aten::layer_norm": (2, 3),
    "aten::native_layer_norm": (2, 3),
    "aten::group_norm": (2, 3),
    "aten::native_group_norm": (1, 2),
    "aten::batch_norm": (1, 2, 3, 4),
    "aten::native_batch_norm": (1, 2, 3, 4),
    "aten::cudnn_batch_norm": (1, 2, 3, 4),
    "aten::rms_norm": (2,),
    "aten::_fused_rms_norm": (2,),
    "aten::lstm": (2,),
    "aten::gru": (2,),
    ACCUMULATE: (0,),
}
"""Places of parameters among the inputs of operators; of convolutions see below."""
CONVOLUTION = regex(r"^aten::(_?convolution\w*|conv\d\w*|cudnn_convolution\w*)$")
OF_LISTS = regex(r"^aten::_(foreach_|fused_(ada|sgd))")
"""Operators on lists of parameters, or of what has their shapes: not `_fused_rms_norm`."""
PRODUCT = regex(r"^aten::(mm|matmul)$")
BACKWARD = regex(r"backward")


@dataclass(frozen=True)
class Parameters:
    """The shapes of parameters, and the sizes that appear in them."""

    shapes: frozenset[Shape]
    sizes: frozenset[int]

    @cached_property
    def longer_sizes(self) -> frozenset[Shape]:
        """The shapes without dimensions of one."""
        return frozenset(map(without_ones, self.shapes))

    def has_viewed(self, tensor: Tensor) -> bool:
        """Whether a tensor has a parameter's shape but for dimensions of one."""
        return without_ones(tensor.shape) in self.longer_sizes

    def has(self, tensor: Tensor) -> bool:
        """Whether a tensor has a parameter's shape, or that of one transposed."""
        shape = tensor.shape
        if shape in self.shapes:
            return True
        return len(shape) == 2 and shape[::-1] in self.shapes and _is_transposed(tensor)


def parameters_of(joined: Joined) -> Parameters:
    """The parameters that the recorded operators take."""
    ranges = joined.trace.host_ranges
    text = joined.trace.text
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & (ranges.shapes >= 0))
    backward = at(joined.in_backward, joined.linked.tree.node_of_range[rows], False)
    groups = Groups.of(ranges.name[rows], ranges.shapes[rows], ranges.strides[rows], backward)
    shapes = set[Shape]()
    for node in groups.first.tolist():
        row = rows[node]
        name = text(int(ranges.name[row])) or ""
        codes = (ranges.shapes[row], ranges.dtypes[row], ranges.strides[row])
        texts = [text(int(code)) for code in codes]
        places = _places(name)
        if places:
            shapes.update(_shapes(inputs_of(texts[0]), places))
        elif PRODUCT.match(name) and not backward[node]:
            shapes.update(_matrix(inputs_of(*texts)))
    known = frozenset(filter(None, shapes))
    return Parameters(known, frozenset(chain.from_iterable(known)))


def _places(name: str) -> tuple[int, ...]:
    if CONVOLUTION.match(name) and not BACKWARD.search(name):
        return (1, 2)
    return (0,) if OF_LISTS.match(name) else WEIGHTS.get(name, ())


def _shapes(inputs: tuple[Input, ...], places: tuple[int, ...]) -> Iterator[Shape]:
    for place in places:
        given = inputs[place] if place < len(inputs) else None
        if isinstance(given, Tensor):
            yield given.shape
        elif given:
            yield from (tensor.shape for tensor in given)


def _matrix(inputs: tuple[Input, ...]) -> Iterator[Shape]:
    """The second operand of a product outside of a layer, where it is a matrix whose rows lie one
    after the other: not the keys that scores are made of."""
    given = inputs[1] if len(inputs) > 1 else None
    if not isinstance(given, Tensor) or len(given.shape) != 2 or given.strides is None:
        return
    if given.strides[0] >= given.strides[1]:
        yield given.shape


def _is_transposed(tensor: Tensor) -> bool:
    """Whether its columns lie one after the other in memory, as a weight's do that is used
    transposed; taken for granted where strides were not recorded."""
    return tensor.strides is None or tensor.strides[0] <= tensor.strides[1]
