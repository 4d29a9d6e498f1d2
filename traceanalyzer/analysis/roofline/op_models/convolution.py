"""Convolutions forward and backward: 2 FLOPs for each result element, input channel of its group and weight tap.

The formula of `torch.utils.flop_counter` (which, unlike this, counts the weight gradient of grouped convolutions
as if they had no groups). Implementations that calculate with fewer (Winograd, FFT) do the same work. A bias is
added without counting. Inputs, weight and result move once.
"""

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
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class Arguments:
    """Positions of a convolution's arguments. `transposed` is the position of the flag, or the flag itself."""

    bias: int | None
    stride: int
    padding: int
    dilation: int | None
    transposed: int | bool = False
    output_padding: int | None = None
    groups: int | None = None


GENERAL = Arguments(2, 3, 4, 5, transposed=6, output_padding=7, groups=8)
"""`convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)`."""
CONV_ND = Arguments(2, 3, 4, 5, groups=6)
"""`conv2d(x, w, bias, stride, padding, dilation, groups)`."""
CONV_TRANSPOSE_ND = Arguments(2, 3, 4, 7, transposed=True, output_padding=5, groups=6)
WORKING = {
    "cudnn_convolution": Arguments(None, 3, 2, 4, groups=5),
    "cudnn_convolution_transpose": Arguments(None, 4, 2, 5, transposed=True, output_padding=3, groups=6),
    "cudnn_convolution_relu": Arguments(2, 3, 4, 5, groups=6),
    "cudnn_convolution_add_relu": Arguments(4, 5, 6, 7, groups=8),
    "mkldnn_convolution miopen_convolution": Arguments(2, 4, 3, 5, groups=6),
    "_slow_conv2d_forward slow_conv3d_forward": Arguments(3, 4, 5, None),
    "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d": Arguments(3, 4, 5, 6),
    "slow_conv_transpose2d slow_conv_transpose3d": Arguments(3, 4, 5, 7, transposed=True, output_padding=6),
}


def forward(arguments: Arguments) -> Model:
    """The model of a convolution whose arguments stand at these positions."""

    def model(call: Call) -> Work:
        x, weight = call.tensor(0), call.tensor(1)
        flag = arguments.transposed
        transposed = flag if isinstance(flag, bool) else call.flag(flag)
        result = math.prod(_result_shape(call, arguments, x, weight, transposed=transposed))
        bias = call.optional(arguments.bias) if arguments.bias is not None else None
        # Input 2 of cudnn_convolution_add_relu is a tensor that is added to the result.
        added = call.optional(2) if arguments.bias not in (None, 2) else None
        traffic = read(x, weight, bias, added) + result * x.dtype.bytes
        return Work(_flops(x if transposed else result, weight), traffic, x.dtype.precision)

    return model


def backward(call: Call) -> Work:
    """`convolution_backward(grad, x, w, bias_sizes, <arguments as of convolution>, mask)`.

    Each of the gradients of x and w takes as many FLOPs as the forward pass and reads `grad`: they are kernels of their
    own. The mask says which are made.
    """
    grad, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    wants_x, wants_weight, wants_bias = call.flags(10)
    once = _flops(x if call.flag(7) else grad.numel, weight)
    traffic = read(grad) * max(wants_x + wants_weight, 1)
    if wants_x:
        traffic += read(weight) + x.dense_bytes
    if wants_weight:
        traffic += read(x) + weight.dense_bytes
    if wants_bias:
        traffic += sum(call.integers(3)) * weight.dtype.bytes
    return Work(once * (wants_x + wants_weight), traffic, x.dtype.precision)


def _flops(positions: Tensor | int, weight: Tensor) -> float:
    """2 · elements of the result · weight elements for each of its channels; of a transposed one, of the input."""
    elements = positions if isinstance(positions, int) else positions.numel
    return 2.0 * elements * (weight.numel // max(weight.shape[0], 1))


def _result_shape(call: Call, arguments: Arguments, x: Tensor, weight: Tensor, *, transposed: bool) -> tuple[int, ...]:
    """Batch, channels and positions of the result. Source: documentation of torch.nn.Conv2d, ConvTranspose2d."""
    kernel = weight.shape[2:]
    n = len(kernel)
    batch = x.shape[: -n - 1]
    sizes = x.shape[len(x.shape) - n :]
    stride = per_dimension(call.integers(arguments.stride), n, 1)
    dilation = per_dimension(call.integers(arguments.dilation) if arguments.dilation is not None else [], n, 1)
    if call.value(arguments.padding) == "same":
        return (*batch, weight.shape[0], *sizes)
    valid = call.value(arguments.padding) == "valid"
    padding = [0] * n if valid else per_dimension(call.integers(arguments.padding), n, 0)
    if not transposed:
        return (*batch, weight.shape[0], *windows(sizes, kernel, stride, padding, dilation))
    if arguments.output_padding is None:
        raise UnmodelledError("the padding of the result is not an argument")
    extra = per_dimension(call.integers(arguments.output_padding), n, 0)
    groups = call.integer(arguments.groups) if arguments.groups is not None else 1
    spatial = (
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra, strict=True)
    )
    return (*batch, weight.shape[1] * groups, *spatial)
