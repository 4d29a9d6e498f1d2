"""Fused attention: two products forward, five backward, of each query with the keys it may see.

FLOPs forward: 2·pairs·(d + dv) for each batch entry and query head; backward, with the scores calculated again,
2·pairs·(3·d + 2·dv). Without a mask pairs are queries times keys; a causal mask leaves the triangle (which
`torch.utils.flop_counter` does not take off). Softmax is not counted. Source: Dao et al., FlashAttention-2, section
4.1; torch/utils/flop_counter.py. Traffic is that of fused kernels: scores never reach memory."""

import enum
from typing import NamedTuple

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read_bytes
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Tensor
from traceanalyzer.base import dataclass


class Mask(enum.IntEnum):
    """Which keys a query sees; the numbers are those of `custom_mask_type`."""

    NONE = 0
    TOP_LEFT = 1  # query i sees keys 0..i
    BOTTOM_RIGHT = 2  # the last query sees all keys


@dataclass(frozen=True)
class AttentionArguments:
    """Positions of an attention operator's arguments after query, key and value (or gradient,
    query, key, value)."""

    mask: int  # a boolean, or where `typed` a `Mask`
    bias: int | None = None
    # tensors are [batch, heads, sequence, d], else [batch, sequence, heads, d]
    heads_first: bool = True
    typed: bool = False
    lengths: int | None = None
    """Where sequences are packed one after the other the tensor of their ends (of queries; of keys
    the next)."""
    saved: tuple[int, int] = (4, 5)  # backward: result and log-sum-exp of the forward pass


SDPA = AttentionArguments(mask=5, bias=3)
FORWARD = {
    "aten::_scaled_dot_product_flash_attention": AttentionArguments(mask=4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": AttentionArguments(mask=4, bias=5),
    "aten::_scaled_dot_product_efficient_attention": AttentionArguments(mask=6, bias=3),
    "aten::_scaled_dot_product_cudnn_attention": AttentionArguments(mask=6, bias=3),
    "aten::_scaled_dot_product_fused_attention_overrideable": SDPA,
    "aten::_flash_attention_forward": AttentionArguments(mask=8, heads_first=False, lengths=3),
    "aten::_efficient_attention_forward": AttentionArguments(
        mask=9, bias=3, heads_first=False, typed=True, lengths=4
    ),
    "aten::_cudnn_attention_forward": AttentionArguments(mask=10, bias=3, lengths=4),
    "flash_attn::_flash_attn_forward": AttentionArguments(mask=5, heads_first=False),
}
BACKWARD = {
    "aten::_scaled_dot_product_flash_attention_backward": AttentionArguments(mask=11, lengths=6),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": AttentionArguments(
        mask=7, bias=8
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": AttentionArguments(
        mask=11, bias=4, saved=(5, 6)
    ),
    "aten::_scaled_dot_product_cudnn_attention_backward": AttentionArguments(
        mask=14, bias=8, lengths=9
    ),
    "aten::_cudnn_attention_backward": AttentionArguments(mask=14, bias=8, lengths=9),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": AttentionArguments(
        13, 4, lengths=8, saved=(6, 7)
    ),
    "aten::_flash_attention_backward": AttentionArguments(mask=11, heads_first=False, lengths=6),
    "aten::_efficient_attention_backward": AttentionArguments(
        14, 4, heads_first=False, typed=True, lengths=6, saved=(5, 10)
    ),
    "flash_attn::_flash_attn_backward": AttentionArguments(mask=11, heads_first=False),
}


class AttentionSizes(NamedTuple):
    """Extents of one attention. Packed sequences count as equally long: FLOPs of others are more,
    never fewer."""

    rows: float  # queries of all heads and batches
    pairs: float  # of a query and a key that it may see, in all of these
    d: int
    dv: int


def forward(call: Call, arguments: AttentionArguments) -> Work:
    """Of an attention operator with inputs (query, key, value, ..)."""
    q = call.tensor(0)
    k = call.tensor(1)
    v = call.tensor(2)
    rows, pairs, d, dv = _sizes(call, arguments, q, k, v)
    traffic = read_bytes(q, k, v, call.optional(arguments.bias)) + rows * (
        dv * q.dtype.bytes + FLOAT.bytes
    )
    return Work(2.0 * pairs * (d + dv), traffic, q.dtype.precision)


def backward(call: Call, arguments: AttentionArguments) -> Work:
    """Of an attention operator's backward with inputs (gradient, query, key, value, ..)."""
    grad, q, k, v = (call.tensor(i) for i in range(4))
    _, pairs, d, dv = _sizes(call, arguments, q, k, v)
    traffic = read_bytes(
        grad, q, k, v, *map(call.optional, arguments.saved), call.optional(arguments.bias)
    )
    traffic += q.dense_bytes + k.dense_bytes + v.dense_bytes
    return Work(2.0 * pairs * (3 * d + 2 * dv), traffic, q.dtype.precision)


def visible_pairs(queries: float, keys: float, mask: Mask) -> float:
    """How many (query, key) pairs a mask leaves of one head."""
    if mask is Mask.NONE:
        return queries * keys
    square = min(queries, keys)
    beside = (
        max(queries - keys, 0) * keys if mask is Mask.TOP_LEFT else max(keys - queries, 0) * queries
    )
    return square * (square + 1) / 2 + beside


def _sizes(
    call: Call, arguments: AttentionArguments, q: Tensor, k: Tensor, v: Tensor
) -> AttentionSizes:
    ends = call.optional(arguments.lengths)
    if ends is not None and ends.numel > 1:
        batch: float = ends.numel - 1
        tokens, heads, d = q.shape[-3:]
        queries = tokens / batch
        keys = k.shape[-3] / batch
        dv = v.shape[-1]
    elif len(q.shape) != 4:
        raise UnmodelledError("neither a batch of sequences nor their ends")
    else:
        head, sequence = (1, 2) if arguments.heads_first else (2, 1)
        batch = q.shape[0]
        heads = q.shape[head]
        d = q.shape[3]
        dv = v.shape[3]
        queries = q.shape[sequence]
        keys = k.shape[sequence]
    pairs = visible_pairs(queries, keys, _mask(call, arguments)) * batch * heads
    return AttentionSizes(batch * heads * queries, pairs, d, dv)


def _mask(call: Call, arguments: AttentionArguments) -> Mask:
    if not call.values:
        return Mask.TOP_LEFT  # not recorded: the least work
    if arguments.typed:
        number = call.integer(arguments.mask)
        return Mask(number) if number in tuple(Mask) else Mask.NONE
    if not call.flag(arguments.mask):
        return Mask.NONE
    # The flash kernels align the triangle to the end, scaled_dot_product_attention to the
    # beginning.
    return Mask.TOP_LEFT if arguments.heads_first else Mask.BOTTOM_RIGHT
