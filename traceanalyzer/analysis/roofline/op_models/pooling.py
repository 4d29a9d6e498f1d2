"""Pooling and resampling: the input read once, the result written; a FLOP for each element of a window."""

import math

from traceanalyzer.analysis.roofline.op_models.call import (
    Call,
    Model,
    UnmodelledError,
    Work,
    per_dimension,
    read,
    windows,
)
from traceanalyzer.analysis.roofline.op_models.tensors import LONG, Tensor

BILINEAR_FLOPS = 7.0
"""Three interpolations of a product and an add each, and a difference."""


def max_pool(dimensions: int, *, positions: bool = True) -> Model:
    """The model of `max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)`: writes positions too."""

    def model(call: Call) -> Work:
        x, kernel = call.tensor(0), per_dimension(call.integers(1), dimensions, 1)
        result = _pooled(call, x, kernel, dilation=4, ceil=5)
        cell = x.dtype.bytes + (LONG.bytes if positions else 0)
        return Work(float(result * math.prod(kernel)), read(x) + result * cell, x.dtype.precision)

    return model


def avg_pool(dimensions: int) -> Model:
    """The model of `avg_pool2d(x, kernel, stride, padding, ceil, ..)`."""

    def model(call: Call) -> Work:
        x, kernel = call.tensor(0), per_dimension(call.integers(1), dimensions, 1)
        result = _pooled(call, x, kernel, dilation=None, ceil=4)
        return Work(float(result * math.prod(kernel)), read(x) + result * x.dtype.bytes, x.dtype.precision)

    return model


def max_pool_backward(call: Call) -> Work:
    """`max_pool2d_with_indices_backward(grad, x, .., positions)`: reads both, writes a gradient like x; an add each."""
    grad, x, positions = call.tensor(0), call.tensor(1), call.tensor(7)
    return Work(float(grad.numel), read(grad, positions) + x.dense_bytes, x.dtype.precision)


def like_input(call: Call) -> Work:
    """`avg_pool2d_backward(grad, x, ..)`, `_adaptive_avg_pool2d_backward(grad, x)`: reads grad, writes one like x."""
    grad, x = call.tensor(0), call.tensor(1)
    return Work(float(max(x.numel, grad.numel)), read(grad) + x.dense_bytes, x.dtype.precision)


def adaptive(call: Call) -> Work:
    """`_adaptive_avg_pool2d(x, sizes)`: an add an element of x."""
    x, sizes = call.tensor(0), call.integers(1)
    result = math.prod(x.shape[: len(x.shape) - len(sizes)]) * math.prod(sizes)
    return Work(float(x.numel), read(x) + result * x.dtype.bytes, x.dtype.precision)


def upsample(flops: float) -> Model:
    """The model of `upsample_nearest2d(x, sizes, ..)`, `upsample_bilinear2d(..)` with this much work a result."""

    def model(call: Call) -> Work:
        x, sizes = call.tensor(0), call.integers(1)
        result = x.shape[0] * x.shape[1] * math.prod(sizes)
        return Work(flops * result, read(x) + result * x.dtype.bytes, x.dtype.precision)

    return model


def upsample_backward(flops: float) -> Model:
    """The model of `upsample_nearest2d_backward(grad, sizes, input_sizes, ..)`: reads grad, writes the input's."""

    def model(call: Call) -> Work:
        grad = call.tensor(0)
        result = math.prod(call.integers(2))
        return Work(flops * grad.numel, read(grad) + result * grad.dtype.bytes, grad.dtype.precision)

    return model


def _pooled(call: Call, x: Tensor, kernel: list[int], dilation: int | None, ceil: int) -> int:
    """Elements of the result; a stride that was left out is the kernel's size."""
    n = len(kernel)
    if len(x.shape) <= n:
        raise UnmodelledError("no channels")
    stride = call.integers(2) if len(call.values) > 2 and call.values[2] else []
    spread = per_dimension(call.integers(dilation) if dilation is not None else [], n, 1)
    found = windows(
        x.shape[-n:],
        kernel,
        per_dimension(stride, n, 1) if stride else kernel,
        per_dimension(call.integers(3), n, 0),
        spread,
        ceil=call.flag(ceil),
    )
    return math.prod(x.shape[:-n]) * math.prod(found)
