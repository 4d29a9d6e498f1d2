"""Fused attention: two products forward, five backward, of each query with the keys it may see.

FLOPs forward: 2·pairs·(d + dv) for each batch entry and query head; backward, with the scores calculated again,
2·pairs·(3·d + 2·dv). Without a mask pairs are queries times keys; a causal mask leaves the triangle (which
`torch.utils.flop_counter` does not take off). Softmax is not counted. Source: Dao et al., FlashAttention-2, section
4.1; torch/utils/flop_counter.py. Traffic is that of fused kernels: scores never reach memory.
"""

import enum

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, UnmodelledError, Work, read
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Tensor
from traceanalyzer.base import dataclass


class Mask(enum.IntEnum):
    """Which keys a query sees; the numbers are those of `custom_mask_type`."""

    NONE = 0
    TOP_LEFT = 1
    """Query i sees keys 0..i."""
    BOTTOM_RIGHT = 2
    """The last query sees all keys."""


@dataclass(frozen=True)
class Arguments:
    """Positions of an attention operator's arguments after query, key and value (or gradient, query, key, value)."""

    mask: int
    """A boolean, or where `typed` a `Mask`."""
    bias: int | None = None
    heads_first: bool = True
    """Tensors are [batch, heads, sequence, d], else [batch, sequence, heads, d]."""
    typed: bool = False
    lengths: int | None = None
    """Where sequences are packed one after the other the tensor of their ends (of queries; of keys the next)."""
    saved: tuple[int, int] = (4, 5)
    """Backward: result and log-sum-exp of the forward pass."""


SDPA = Arguments(mask=5, bias=3)
FORWARD = {
    "aten::_scaled_dot_product_flash_attention": Arguments(mask=4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": Arguments(mask=4, bias=5),
    "aten::_scaled_dot_product_efficient_attention": Arguments(mask=6, bias=3),
    "aten::_scaled_dot_product_cudnn_attention": Arguments(mask=6, bias=3),
    "aten::_scaled_dot_product_fused_attention_overrideable": SDPA,
    "aten::_flash_attention_forward": Arguments(mask=8, heads_first=False, lengths=3),
    "aten::_efficient_attention_forward": Arguments(mask=9, bias=3, heads_first=False, typed=True, lengths=4),
    "aten::_cudnn_attention_forward": Arguments(mask=10, bias=3, lengths=4),
    "flash_attn::_flash_attn_forward": Arguments(mask=5, heads_first=False),
}
BACKWARD = {
    "aten::_scaled_dot_product_flash_attention_backward": Arguments(mask=11, lengths=6),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": Arguments(mask=7, bias=8),
    "aten::_scaled_dot_product_efficient_attention_backward": Arguments(mask=11, bias=4, saved=(5, 6)),
    "aten::_scaled_dot_product_cudnn_attention_backward": Arguments(mask=14, bias=8, lengths=9),
    "aten::_cudnn_attention_backward": Arguments(mask=14, bias=8, lengths=9),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": Arguments(13, 4, lengths=8, saved=(6, 7)),
    "aten::_flash_attention_backward": Arguments(mask=11, heads_first=False, lengths=6),
    "aten::_efficient_attention_backward": Arguments(14, 4, heads_first=False, typed=True, lengths=6, saved=(5, 10)),
    "flash_attn::_flash_attn_backward": Arguments(mask=11, heads_first=False),
}


@dataclass(frozen=True)
class Sizes:
    """Extents of one attention. Packed sequences count as equally long: FLOPs of others are more, never fewer."""

    batch: float
    heads: int
    queries: float
    keys: float
    d: int
    dv: int


def forward(arguments: Arguments) -> Model:
    """The model of an attention operator with inputs (query, key, value, ..)."""

    def model(call: Call) -> Work:
        q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
        sizes = _sizes(call, arguments, q, k, v)
        pairs = visible_pairs(sizes.queries, sizes.keys, _mask(call, arguments)) * sizes.batch * sizes.heads
        rows = sizes.batch * sizes.heads * sizes.queries
        traffic = read(q, k, v, _bias(call, arguments)) + rows * (sizes.dv * q.dtype.bytes + FLOAT.bytes)
        return Work(2.0 * pairs * (sizes.d + sizes.dv), traffic, q.dtype.precision)

    return model


def backward(arguments: Arguments) -> Model:
    """The model of an attention operator's backward with inputs (gradient, query, key, value, ..)."""

    def model(call: Call) -> Work:
        grad, q, k, v = (call.tensor(i) for i in range(4))
        sizes = _sizes(call, arguments, q, k, v)
        pairs = visible_pairs(sizes.queries, sizes.keys, _mask(call, arguments)) * sizes.batch * sizes.heads
        saved = (call.optional(i) for i in arguments.saved)
        traffic = read(grad, q, k, v, *saved, _bias(call, arguments))
        traffic += q.dense_bytes + k.dense_bytes + v.dense_bytes
        return Work(2.0 * pairs * (3 * sizes.d + 2 * sizes.dv), traffic, q.dtype.precision)

    return model


def visible_pairs(queries: float, keys: float, mask: Mask) -> float:
    """How many (query, key) pairs a mask leaves of one head."""
    if mask is Mask.NONE:
        return queries * keys
    square = min(queries, keys)
    triangle = square * (square + 1) / 2
    if mask is Mask.TOP_LEFT:
        return triangle + max(queries - keys, 0) * keys
    return triangle + max(keys - queries, 0) * queries


def _sizes(call: Call, arguments: Arguments, q: Tensor, k: Tensor, v: Tensor) -> Sizes:
    ends = call.optional(arguments.lengths) if arguments.lengths is not None else None
    packed = ends is not None and ends.numel > 1
    if packed and ends is not None:
        many = ends.numel - 1
        tokens, heads, d = q.shape[-3:]
        return Sizes(many, heads, tokens / many, k.shape[-3] / many, d, v.shape[-1])
    if len(q.shape) != 4:
        raise UnmodelledError("neither a batch of sequences nor their ends")
    heads, queries, keys = (1, 2, 2) if arguments.heads_first else (2, 1, 1)
    return Sizes(q.shape[0], q.shape[heads], q.shape[queries], k.shape[keys], q.shape[3], v.shape[3])


def _mask(call: Call, arguments: Arguments) -> Mask:
    if arguments.typed:
        number = call.integer(arguments.mask)
        return Mask(number) if number in {mask.value for mask in Mask} else Mask.NONE
    causal = call.flag(arguments.mask)
    if not causal:
        return Mask.NONE
    # The flash kernels align the triangle to the end, scaled_dot_product_attention to the beginning.
    return Mask.TOP_LEFT if arguments.heads_first else Mask.BOTTOM_RIGHT


def _bias(call: Call, arguments: Arguments) -> Tensor | None:
    return call.optional(arguments.bias) if arguments.bias is not None else None
