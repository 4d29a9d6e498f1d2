"""Reductions, normalisation, softmax and losses: the input read once, what is left written; a FLOP
an element for each operation of the sum.

Layer, batch, group and RMS normalisation forward read the input once and write as much, beside
weights and statistics. FLOPs an element: mean 1, variance 3, normalising 2, weight and bias 2.
Backward, with x^ the normalised input and h = grad·weight: x^ 2, both sums for the parameters 3, h
1, the sums of h and h·x^ 3, dx = r·(h - a - x^·b) 4."""

import math

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read_bytes
from traceanalyzer.analysis.roofline.op_models.tensors import (
    FLOAT,
    LONG,
    DType,
    ElementKind,
    Tensor,
)

RMS_FLOPS = 4.0
"""A square, its sum, two products. Backward 10: x^ 1, the weight's sum 2, h 1, sum of h·x^ 2, dx =
r·(h - x^·b) 3, scaling 1."""


def layer_norm(call: Call) -> Work:
    """`native_layer_norm(x, shape, weight, bias, eps)`: also writes mean and 1/deviation of each
    row in float."""
    x = call.tensor(0)
    return _forward(x, [call.optional(2), call.optional(3)], 2 * _rows(call))


def batch_norm(call: Call) -> Work:
    """`native_batch_norm(x, weight, bias, mean, var, ..)`, `cudnn_batch_norm(..)`: two statistics a
    channel."""
    x = call.tensor(0)
    return _forward(x, [call.optional(1), call.optional(2)], 2 * _channels(x))


def statistics(call: Call, flops: float, reads: int, figures: int) -> Work:
    """`batch_norm_stats(x, eps)`, `batch_norm_backward_reduce(grad, x, ..)`: so many figures a
    channel."""
    x = call.tensor(reads - 1)
    traffic = read_bytes(*map(call.tensor, range(reads))) + figures * _channels(x) * FLOAT.bytes
    return Work(flops * x.numel, traffic, x.dtype.precision)


def batch_norm_elemt(call: Call) -> Work:
    """`batch_norm_elemt(x, weight, bias, mean, invstd, eps)`: normalises with given statistics; 4
    FLOPs an element."""
    x = call.tensor(0)
    traffic = read_bytes(x, *map(call.optional, range(1, 5))) + x.dense_bytes
    return Work(4.0 * x.numel, traffic, x.dtype.precision)


def group_norm(call: Call) -> Work:
    """`native_group_norm(x, weight, bias, N, C, HxW, groups, eps)`: two statistics a group, a few
    bytes, left out where the number of groups was not recorded."""
    statistics = 2 * call.integer(3) * call.integer(6) if call.values else 0
    return _forward(call.tensor(0), [call.optional(1), call.optional(2)], statistics)


def rms_norm(call: Call) -> Work:
    """`_fused_rms_norm(x, shape, weight, eps)`: writes one statistic a row."""
    x = call.tensor(0)
    return _forward(x, [call.optional(2)], _rows(call), RMS_FLOPS)


def _rows(call: Call) -> int:
    """How many rows a norm over the last dimensions of input 0 has; where these were not recorded
    its weight, input 2, has their shape."""
    norm = call.integers(1) if call.has_value(1) else call.tensor(2).shape
    return call.tensor(0).numel // max(math.prod(norm), 1)


def _forward(
    x: Tensor, parameters: list[Tensor | None], statistics: int, flops: float = 8.0
) -> Work:
    traffic = read_bytes(x, *parameters) + x.dense_bytes + statistics * FLOAT.bytes
    return Work(flops * x.numel, traffic, x.dtype.precision)


def _channels(x: Tensor) -> int:
    if len(x.shape) < 2:
        raise UnmodelledError("no channels")
    return x.shape[1]


def normalise_backward(
    call: Call, weight: int, saved: tuple[int, ...], flops: float = 13.0, parameters: int = 2
) -> Work:
    """`native_layer_norm_backward(grad, x, ..)` and its kin, with weight and saved statistics at
    these inputs, which write gradients of x and of so many parameters; cuDNN's begin x, grad."""
    grad = call.tensor(0)
    x = call.tensor(1)
    scale = call.optional(weight)
    gradients = x.dense_bytes + (parameters * scale.bytes if scale else 0.0)
    traffic = read_bytes(grad, x, scale, *map(call.optional, saved)) + gradients
    return Work(flops * x.numel, traffic, x.dtype.precision)


def nll(call: Call) -> Work:
    """`nll_loss_forward(x[n,c], target[n], weight, ..)`: reads the target and one element of x for
    each."""
    x = call.tensor(0)
    target = call.tensor(1)
    taken = target.numel * x.dtype.bytes
    traffic = read_bytes(target, call.optional(2)) + taken + 2 * x.dtype.bytes
    return Work(float(target.numel), traffic, x.dtype.precision)


def nll_backward(call: Call) -> Work:
    """`nll_loss_backward(grad, x, target, weight, ..)`: reads gradient and target, writes a
    gradient like x (zeros)."""
    grad = call.tensor(0)
    x = call.tensor(1)
    target = call.tensor(2)
    traffic = read_bytes(grad, target, call.optional(3)) + x.dense_bytes
    return Work(float(target.numel), traffic, x.dtype.precision)


def loss(call: Call, flops: float) -> Work:
    """A loss `f(x, target, reduction)`: reads both, writes one number, or each where reduction is 0
    (none)."""
    x = call.tensor(0)
    target = call.tensor(1)
    written = x.dense_bytes if call.values[2:3] == ("0",) else x.dtype.bytes
    return Work(flops * x.numel, read_bytes(x, target) + written, x.dtype.precision)


def softmax(call: Call) -> Work:
    """`_softmax(x, dim, half_to_float)`, `_log_softmax(..)`: reads x, writes as much, in float
    where asked for. FLOPs: maximum, difference, exponential, sum, quotient (of the logarithm:
    another difference)."""
    x = call.tensor(0)
    widened = call.has_value(2) and call.values[2].lower() == "true"
    written = x.numel * (FLOAT if widened else x.dtype).bytes
    return Work(5.0 * x.numel, read_bytes(x) + written, x.dtype.precision)


def softmax_backward(call: Call) -> Work:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`: reads both, writes the input's
    gradient. FLOPs: product with the result, its sum, difference, product."""
    grad = call.tensor(0)
    output = call.tensor(1)
    traffic = read_bytes(grad, output) + grad.numel * call.dtype(3, grad.dtype).bytes
    return Work(4.0 * grad.numel, traffic, grad.dtype.precision)


def reduction_over(
    call: Call, flops: float, results: int = 1, dims: int = 1, out: DType | None = None
) -> Work:
    """A reduction with this much work an element, as many results (of x's type, or `out`: `argmax`
    writes positions, `any` booleans), dimensions named at input `dims`."""
    x = call.tensor(0)
    return _reduced(x, flops, results * _left(call, x, dims) * (out or x.dtype).bytes)


def extreme(call: Call) -> Work:
    """`max(x)`, `max(x, dim)`, `max(a, b)`: with a dimension the positions are written too (64
    bit)."""
    if call.optional(1) is not None:
        raise UnmodelledError("the pointwise maximum is `maximum`")
    x = call.tensor(0)
    if not call.has_value(1):
        return _reduced(x, 1.0, x.dtype.bytes)
    return _reduced(x, 1.0, _left(call, x, 1) * (x.dtype.bytes + LONG.bytes))


def scan(call: Call) -> Work:
    """`cumsum(x, dim)`: reads x, writes as much (sums of integers in 64 bit); a FLOP an element."""
    x = call.tensor(0)
    written = x.dtype if x.dtype.kind >= ElementKind.FLOAT else LONG
    return _reduced(x, 1.0, x.numel * written.bytes)


def _left(call: Call, x: Tensor, index: int) -> int:
    """Elements of the result; a single number is a dimension only where another input follows (else
    it is a type)."""
    text = call.values[index] if index < len(call.values) else ""
    alone = text.lstrip("-").isdecimal() and len(call.inputs) > index + 1
    named = call.integers(index) if text.startswith("[") or alone else []
    gone = {d % max(len(x.shape), 1) for d in named}
    return math.prod(n for i, n in enumerate(x.shape) if i not in gone) if named else 1


def _reduced(x: Tensor, flops: float, result: float) -> Work:
    return Work(
        (flops if x.dtype.kind >= ElementKind.FLOAT else 0.0) * x.numel,
        read_bytes(x) + result,
        x.dtype.precision,
    )
