"""What autocast asks of an operator's operands, what format its result has, and how large that is.

The lists are those of PyTorch 2.13 for CUDA (`ATen/autocast_mode.h`). Operators of no list take both
formats, and give the wider one."""

import math
from collections.abc import Iterator, Sequence
from enum import Enum

from traceanalyzer.analysis.roofline.op_models.call import broadcast
from traceanalyzer.analysis.roofline.op_models.tensors import (
    BFLOAT16,
    FLOAT,
    HALF,
    SCALAR_TYPES,
    ElementKind,
    Shape,
    Tensor,
)
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.operators import JOINING, Operator, convolved, flow


class CastRule(Enum):
    """What autocast does to the operands of an operator."""

    TO_16_BITS = regex(
        r"^aten::(_?convolution|conv\dd|conv_tbc|conv_transpose\dd|cudnn_convolution(_transpose)?|prelu|add(mm|mv|r|bmm)"
        r"|matmul|einsum|mm|mv|linalg_(vecdot|multi_dot)|linear|baddbmm|bmm|chain_matmul|_thnn_fused_(lstm|gru)_cell"
        r"|(lstm|gru|rnn_tanh|rnn_relu)_cell|_cudnn_rnn|(_scaled_dot_product_flash|scaled_dot_product)_attention)$"
    )
    TO_FP32 = regex(
        r"^aten::(acos|asin|cosh|erfinv|exp|expm1|log|log10|log2|log1p|reciprocal|rsqrt|sinh|tan|pow|softplus"
        r"|(native_)?layer_norm|rms_norm|group_norm|(frobenius|nuclear)_norm|cosine_similarity|nll_loss|nll_loss2d|kl_div"
        r"|(poisson_nll|cosine_embedding|hinge_embedding|(smooth_)?l1|huber|mse|margin_ranking|multilabel_margin"
        r"|soft_margin|triplet_margin|multi_margin)_loss|binary_cross_entropy_with_logits|[pc]?dist|renorm|logsumexp"
        r"|_?upsample_(?!lanczos)\w+(?<!_backward)|(log_)?softmax|cumsum|cumprod|prod)$"
    )
    ADDED_UP_IN_FP32 = regex(r"^aten::(sum|norm|linalg_(vector|matrix)_norm)$")
    """They read 16 bits, and give fp32."""
    TO_THE_WIDEST = regex(
        r"^aten::(addcdiv|addcmul|atan2|bilinear|cross|dot|vdot|grid_sampler|index_put|tensordot|scatter_add)$"
    )
    NONE = regex(r"")


ASKED = {CastRule.TO_16_BITS: True, CastRule.TO_FP32: False}
"""Whether these ask for 16 bits."""
CONVERTS = regex(r"^aten::(to|_to_copy)$")
"""The program's own casts; in fp32 they launch nothing."""
AS_THE_FIRST = regex(r"(batch|instance)_norm|_$")
"""The result has the first operand's format whatever the others have."""
NARROW = (HALF, BFLOAT16)
FORMAT = 1
"""Place of the number format among the values of a cast."""


VIEWS = regex(
    r"^aten::(view|_unsafe_view|reshape|transpose|permute|t|numpy_T|unsqueeze|squeeze|flatten|unflatten|detach|contiguous"
    r"|clone|movedim|swapaxes|alias)$"
)
"""They give what they take in another shape."""
PARTS = regex(r"^aten::(chunk|split|split_with_sizes|tensor_split|unbind)$")
"""They take a tensor apart."""
PART = regex(r"^aten::(slice|select)$")
DIMENSION = 1
"""Place of the dimension that a part is cut along; the first and the last index of it follow."""
CONVOLUTIONS = regex(r"^aten::(_?convolution|conv\dd|conv_transpose\dd)$")
PRODUCTS = regex(r"^aten::(matmul|bmm)$")
ATTENTION = regex(r"^aten::_?scaled_dot_product_\w*attention$")
EMBEDDING = regex(r"^aten::embedding$")
NORMS = regex(r"norm$")
RESIZES = regex(
    r"pool|upsample|interpolate|index|gather|scatter|loss|^aten::(mean|sum|max|min|amax|amin|var|std|any|all|repeat\w*|expand"
    r"|expand_as|pad|constant_pad_nd|topk|sort|arg\w+|unfold|linalg_\w+|norm|logsumexp|_cudnn_rnn|einsum|broadcast_tensors"
    r"|embedding_bag|baddbmm)$"
)
"""Their result is of another size than their operands, and not told by these alone."""


def rule_of(name: str) -> CastRule:
    """What autocast does to the operands of an operator of this name."""
    return next(rule for rule in CastRule if rule.value.match(name))


@dataclass(frozen=True, eq=False)
class Kind:
    """Calls of one operator with operands of the same shapes."""

    operator: Operator
    rule: CastRule
    floats: tuple[Tensor, ...]
    """Its operands of floating-point numbers that have dimensions."""
    target: bool | None
    """Whether it is a cast of the program's to 16 bits (True) or to fp32; None for all others."""
    size: int | None
    """Elements of the result; None where these operands do not tell."""
    shape: Shape | None
    is_view: bool
    takes_apart: bool
    as_the_first: bool

    def asked(self, narrow: Sequence[bool]) -> bool | None:
        """Whether operands have to be in 16 bits; None where they may be in either format.
        `narrow`: which are."""
        if self.rule is CastRule.TO_THE_WIDEST:
            return all(narrow)
        return ASKED.get(self.rule, self.target)

    def gives(self, narrow: Sequence[bool]) -> bool:
        """Whether the result is in 16 bits."""
        if self.rule is CastRule.ADDED_UP_IN_FP32:
            return False
        wanted = self.asked(narrow)
        if wanted is not None:
            return wanted
        return narrow[0] if self.as_the_first else all(narrow)


def kind_of(operator: Operator) -> Kind:
    """What is known of all calls like this one."""
    given = [one for one in _tensors(operator) if one.shape and one.numel]
    size, shape = _result_of(operator, given) if given else (None, None)
    return Kind(
        operator,
        rule_of(operator.name),
        tuple(one for one in given if one.dtype.kind is ElementKind.FLOAT),
        _target_of(operator),
        size,
        shape,
        is_view=operator.named(VIEWS),
        takes_apart=operator.named(PARTS),
        as_the_first=operator.named(AS_THE_FIRST),
    )


def _tensors(operator: Operator) -> Iterator[Tensor]:
    for given in operator.typed:
        yield from (given,) if isinstance(given, Tensor) else given or ()


def _target_of(operator: Operator) -> bool | None:
    values = operator.values
    if not operator.named(CONVERTS) or len(values) <= FORMAT or not values[FORMAT].isdigit():
        return None
    dtype = SCALAR_TYPES.get(int(values[FORMAT]))
    return dtype in NARROW if dtype in (*NARROW, FLOAT) else None


def _result_of(operator: Operator, given: Sequence[Tensor]) -> tuple[int | None, Shape | None]:
    if operator.named(VIEWS):
        return given[0].numel, None
    if operator.named(JOINING):
        return sum(one.numel for one in given), None
    shape = _shape_of(operator, given)
    return (None, None) if shape is None else (math.prod(shape), shape)


def _shape_of(operator: Operator, given: Sequence[Tensor]) -> Shape | None:
    shapes = [tensor.shape for tensor in given]
    if operator.named(PARTS, RESIZES):
        return None
    if operator.named(PART):
        return _part(operator, shapes[0])
    if operator.named(CONVOLUTIONS):
        return convolved(operator)
    told = _told_by_shapes(operator, shapes)
    if told is not None:
        return told
    known = flow(operator).gives
    if known is not None:
        return known
    return shapes[0] if operator.named(NORMS) else broadcast(*shapes)


def _told_by_shapes(operator: Operator, shapes: Sequence[Shape]) -> Shape | None:
    left = shapes[0]
    right = shapes[-1]
    if operator.named(EMBEDDING):
        return (*right, left[-1])
    if operator.named(ATTENTION) and len(shapes) > 2:
        return (*left[:-1], shapes[2][-1])
    if operator.named(PRODUCTS) and min(len(left), len(right)) > 1:
        batch = broadcast(left[:-2], right[:-2])
        return (*batch, left[-2], right[-1])
    return None


def _part(operator: Operator, shape: Shape) -> Shape | None:
    """What is left of a shape, where the values are recorded."""
    try:
        dimension, first, *rest = (int(text) for text in operator.values[DIMENSION:] if text)
        size = shape[dimension]
    except (ValueError, IndexError):
        return None
    before = shape[: dimension % len(shape)]
    after = shape[len(before) + 1 :]
    if not rest:
        return (*before, *after)
    left = range(size)[first : rest[0]]
    return (*before, len(left), *after)
