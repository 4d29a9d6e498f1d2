"""Layer, batch, group and RMS normalisation, forward and backward.

Forward: the input is read once and as much is written, beside weights and statistics. FLOPs an element: mean 1,
variance 3, normalising 2, weight and bias 2. Backward, with x^ the normalised input and h = grad·weight: x^ 2,
both sums for the parameters 3, h 1, the sums of h and h·x^ 3, dx = r·(h - a - x^·b) 4.
"""

import math

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, UnmodelledError, Work, read
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Tensor

FORWARD_FLOPS = 8.0
BACKWARD_FLOPS = 13.0
RMS_FORWARD_FLOPS = 4.0
"""A square, its sum, two products."""
RMS_BACKWARD_FLOPS = 10.0
"""x^ 1, the weight's sum 2, h 1, the sum of h·x^ 2, dx = r·(h - x^·b) 3, and scaling 1."""


def layer_norm(call: Call) -> Work:
    """`native_layer_norm(x, shape, weight, bias, eps)`: also writes mean and 1/deviation of each row in float."""
    x = call.tensor(0)
    rows = x.numel // max(math.prod(call.integers(1)), 1)
    return _forward(x, [call.optional(2), call.optional(3)], 2 * rows)


def batch_norm(call: Call) -> Work:
    """`native_batch_norm(x, weight, bias, mean, var, ..)`, `cudnn_batch_norm(..)`: two statistics a channel."""
    x = call.tensor(0)
    return _forward(x, [call.optional(1), call.optional(2)], 2 * _channels(x))


def statistics(flops: float, reads: int, figures: int) -> Model:
    """The model of `batch_norm_stats(x, eps)`, `batch_norm_backward_reduce(grad, x, ..)`: reads so many tensors like x,
    writes so many figures a channel."""

    def model(call: Call) -> Work:
        x = call.tensor(reads - 1)
        traffic = read(*(call.tensor(i) for i in range(reads))) + figures * _channels(x) * FLOAT.bytes
        return Work(flops * x.numel, traffic, x.dtype.precision)

    return model


def batch_norm_elemt(call: Call) -> Work:
    """`batch_norm_elemt(x, weight, bias, mean, invstd, eps)`: normalises with given statistics; 4 FLOPs an element."""
    x = call.tensor(0)
    traffic = read(x, *(call.optional(i) for i in range(1, 5))) + x.dense_bytes
    return Work(4.0 * x.numel, traffic, x.dtype.precision)


def group_norm(call: Call) -> Work:
    """`native_group_norm(x, weight, bias, N, C, HxW, groups, eps)`: two statistics a group."""
    return _forward(call.tensor(0), [call.optional(1), call.optional(2)], 2 * call.integer(3) * call.integer(6))


def rms_norm(call: Call) -> Work:
    """`_fused_rms_norm(x, shape, weight, eps)`: writes one statistic a row."""
    x = call.tensor(0)
    rows = x.numel // max(math.prod(call.integers(1)), 1)
    return _forward(x, [call.optional(2)], rows, RMS_FORWARD_FLOPS)


def _channels(x: Tensor) -> int:
    if len(x.shape) < 2:
        raise UnmodelledError("no channels")
    return x.shape[1]


def _forward(x: Tensor, parameters: list[Tensor | None], statistics: int, flops: float = FORWARD_FLOPS) -> Work:
    traffic = read(x, *parameters) + x.dense_bytes + statistics * FLOAT.bytes
    return Work(flops * x.numel, traffic, x.dtype.precision)


def backward(weight: int, saved: tuple[int, ...], flops: float = BACKWARD_FLOPS, parameters: int = 2) -> Model:
    """The model of `native_layer_norm_backward(grad, x, ..)` and its kin, with weight and saved statistics at these
    inputs, which write gradients of x and of so many parameters; cuDNN's begin x, grad."""

    def model(call: Call) -> Work:
        grad, x, scale = call.tensor(0), call.tensor(1), call.optional(weight)
        gradients = x.dense_bytes + (parameters * scale.bytes if scale else 0.0)
        traffic = read(grad, x, scale, *(call.optional(i) for i in saved)) + gradients
        return Work(flops * x.numel, traffic, x.dtype.precision)

    return model
