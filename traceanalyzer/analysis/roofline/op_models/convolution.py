"""Convolutions, pooling and resampling: the input (and weight) read once, the result written.

A convolution has 2 FLOPs for each result element, input channel of its group and weight tap,
forward and backward: the formula of `torch.utils.flop_counter` (which, unlike this, counts the
weight gradient of grouped convolutions as if they had no groups). Implementations that calculate
with fewer (Winograd, FFT) do the same work. A bias is added without counting. Pooling has a FLOP
for each element of a window."""

import math
from collections.abc import Sequence

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read_bytes
from traceanalyzer.analysis.roofline.op_models.tensors import LONG, Tensor
from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class ConvolutionArguments:
    """Positions of a convolution's arguments. `transposed` is the position of the flag, or the flag
    itself."""

    bias: int | None
    stride: int
    padding: int
    dilation: int | None
    transposed: int | bool = False
    output_padding: int | None = None
    groups: int | None = None


WORKING = {
    "cudnn_convolution": ConvolutionArguments(None, 3, 2, 4, groups=5),
    "cudnn_convolution_transpose": ConvolutionArguments(
        None, 4, 2, 5, transposed=True, output_padding=3, groups=6
    ),
    "cudnn_convolution_relu": ConvolutionArguments(2, 3, 4, 5, groups=6),
    "cudnn_convolution_add_relu": ConvolutionArguments(4, 5, 6, 7, groups=8),
    "mkldnn_convolution miopen_convolution": ConvolutionArguments(2, 4, 3, 5, groups=6),
    "_slow_conv2d_forward slow_conv3d_forward": ConvolutionArguments(3, 4, 5, None),
    "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d": ConvolutionArguments(
        3, 4, 5, 6
    ),
    "slow_conv_transpose2d slow_conv_transpose3d": ConvolutionArguments(
        3, 4, 5, 7, transposed=True, output_padding=6
    ),
}
COMPOSITE = {
    "convolution _convolution": ConvolutionArguments(
        2, 3, 4, 5, transposed=6, output_padding=7, groups=8
    ),
    "conv1d conv2d conv3d": ConvolutionArguments(2, 3, 4, 5, groups=6),
    "conv_transpose1d conv_transpose2d conv_transpose3d": ConvolutionArguments(
        2, 3, 4, 7, True, output_padding=5, groups=6
    ),
}
RESULT_BY_VALUES = frozenset(
    (
        *(name for names in WORKING for name in names.split()),
        *("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d"),
        *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d"),
    )
)
"""Operators whose result has a shape that their values say, not their inputs."""
TRUE = frozenset(("true", "1"))  # of a mask
BILINEAR_FLOPS = 7.0  # three interpolations of a product and an add each, and a difference


def result_shape(call: Call) -> tuple[int, ...]:
    """The result's shape of a convolution whose values were recorded."""
    name = call.name.rpartition("::")[2]
    arguments = next(one for names, one in COMPOSITE.items() if name in names.split())
    flag = arguments.transposed
    transposed = flag if isinstance(flag, bool) else call.flag(flag)
    return _result_shape(call, arguments, call.tensor(0), call.tensor(1), transposed=transposed)


def convolution_forward(call: Call, arguments: ConvolutionArguments) -> Work:
    """Of a convolution whose arguments stand at these positions."""
    x = call.tensor(0)
    weight = call.tensor(1)
    flag = arguments.transposed
    transposed = flag if isinstance(flag, bool) else call.flag(flag)
    if call.values:
        result = math.prod(_result_shape(call, arguments, x, weight, transposed=transposed))
    else:
        result = _read_after(call, x, weight.shape[1 if transposed else 0])
    # Input 2 of cudnn_convolution_add_relu is a tensor that is added to the result.
    added = call.optional(2) if arguments.bias not in (None, 2) else None
    traffic = read_bytes(x, weight, call.optional(arguments.bias), added) + result * x.dtype.bytes
    return Work(_flops(x.numel if transposed else result, weight), traffic, x.dtype.precision)


def convolution_backward(call: Call) -> Work:
    """`convolution_backward(grad, x, w, bias_sizes, <arguments as of convolution>, mask)`.

    Each gradient of x and w that the mask asks for is a kernel with the FLOPs of the forward pass,
    and reads `grad`."""
    grad = call.tensor(0)
    x = call.tensor(1)
    weight = call.tensor(2)
    if call.values:
        wanted = [item.lower() in TRUE for item in call.items(10)]
        transposed = call.flag(7)
    else:  # not recorded: as in the midst of a network
        wanted = [True, True, False]
        transposed = grad.shape[1] != weight.shape[0]
    bias_bytes = sum(call.integers(3)) * weight.dtype.bytes if wanted[2] else 0.0
    return _gradients(grad, x, weight, (wanted[0], wanted[1]), transposed, bias_bytes)


def library_backward(call: Call, mask: int, *, transposed: bool = False) -> Work:
    """`cudnn_convolution_backward(x, grad, w, .., mask)` of PyTorch before 1.11, and its like; the
    gradients of x and w where the mask was not recorded: as in the midst of a network."""
    wanted = [True, True]
    if call.has_value(mask):
        wanted = [item.lower() in TRUE for item in call.items(mask)]
    x = call.tensor(0)
    grad = call.tensor(1)
    weight = call.tensor(2)
    return _gradients(grad, x, weight, (wanted[0], wanted[1]), transposed)


def _gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    wanted: tuple[bool, bool],
    transposed: bool,
    bias_bytes: float = 0.0,
) -> Work:
    """The gradients of x and of the weight, as they are wanted, from that of the result."""
    wants_x, wants_weight = wanted
    once = _flops((x if transposed else grad).numel, weight)
    traffic = read_bytes(grad) * max(wants_x + wants_weight, 1) + bias_bytes
    if wants_x:
        traffic += read_bytes(weight) + x.dense_bytes
    if wants_weight:
        traffic += read_bytes(x) + weight.dense_bytes
    return Work(once * (wants_x + wants_weight), traffic, x.dtype.precision)


def _read_after(call: Call, x: Tensor, channels: int) -> int:
    """Elements of a result with the batch of x and so many channels."""
    return call.result_read_after(len(x.shape), x.shape[0], channels).numel


def _flops(elements: int, weight: Tensor) -> float:
    """2 · elements of the result · weight elements for each of its channels; of a transposed one,
    of the input."""
    return 2.0 * elements * (weight.numel // max(weight.shape[0], 1))


def _result_shape(
    call: Call, arguments: ConvolutionArguments, x: Tensor, weight: Tensor, *, transposed: bool
) -> tuple[int, ...]:
    """Batch, channels and positions of the result. Source: documentation of torch.nn.Conv2d,
    ConvTranspose2d."""
    kernel = weight.shape[2:]
    n = len(kernel)
    batch = x.shape[: -n - 1]
    sizes = x.shape[len(x.shape) - n :]
    stride = per_dimension(call.integers(arguments.stride), n, 1)
    spread = call.integers(arguments.dilation) if arguments.dilation is not None else []
    dilation = per_dimension(spread, n, 1)
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
    dimensions = zip(sizes, stride, padding, dilation, kernel, extra, strict=True)
    spatial = (_transposed_size(*dimension) for dimension in dimensions)
    return (*batch, weight.shape[1] * groups, *spatial)


def _transposed_size(
    size: int, stride: int, padding: int, dilation: int, kernel: int, extra: int
) -> int:
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1


def per_dimension(values: Sequence[int], dimensions: int, otherwise: int) -> list[int]:
    """A parameter for each spatial dimension: one value stands for all, none for `otherwise`."""
    if len(values) not in {0, 1, dimensions}:
        raise UnmodelledError("parameters do not fit the dimensions")
    if values and len(values) == dimensions:
        return list(values)
    return [values[0] if values else otherwise] * dimensions


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *,
    ceil: bool = False,
) -> list[int]:
    """How many windows fit each spatial dimension: floor((n + 2·p - d·(k - 1) - 1) / s) + 1.

    Source: documentation of torch.nn.Conv2d and MaxPool2d."""
    found = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if s < 1:
            raise UnmodelledError("a stride below one")
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        # A window that would start in the right padding is left out.
        found.append(count - 1 if ceil and (count - 1) * s >= n + p else count)
    return found


def pool(
    call: Call, dimensions: int, dilation: int | None, ceil: int, *, positions: bool = False
) -> Work:
    """`max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)`, which writes positions
    too, and `avg_pool2d(x, kernel, stride, padding, ceil, ..)`; a stride that was left out is the
    kernel's size."""
    x = call.tensor(0)
    cell = x.dtype.bytes + (LONG.bytes if positions else 0)
    if len(x.shape) <= dimensions:
        raise UnmodelledError("no channels")
    if not call.values:
        # windows that do not overlap read each element once
        read = read_bytes(x) + _read_after(call, x, x.shape[1]) * cell
        return Work(float(x.numel), read, x.dtype.precision)
    kernel = per_dimension(call.integers(1), dimensions, 1)
    stride = (call.has_value(2) and call.integers(2)) or kernel
    padding = per_dimension(call.integers(3), dimensions, 0)
    spread = per_dimension([] if dilation is None else call.integers(dilation), dimensions, 1)
    stride = per_dimension(stride, dimensions, 1)
    positions_of_x = x.shape[-dimensions:]
    found = windows(positions_of_x, kernel, stride, padding, spread, ceil=call.flag(ceil))
    result = math.prod(x.shape[:-dimensions]) * math.prod(found)
    traffic = read_bytes(x) + result * cell
    return Work(float(result * math.prod(kernel)), traffic, x.dtype.precision)


def max_pool_backward(call: Call) -> Work:
    """`max_pool2d_with_indices_backward(grad, x, .., positions)`: reads both, writes a gradient
    like x; an add each."""
    grad = call.tensor(0)
    x = call.tensor(1)
    positions = call.tensor(7)
    return Work(float(grad.numel), read_bytes(grad, positions) + x.dense_bytes, x.dtype.precision)


def like_input(call: Call) -> Work:
    """`avg_pool2d_backward(grad, x, ..)`, `_adaptive_avg_pool2d_backward(grad, x)`: reads grad,
    writes one like x."""
    grad = call.tensor(0)
    x = call.tensor(1)
    adds = float(max(x.numel, grad.numel))
    return Work(adds, read_bytes(grad) + x.dense_bytes, x.dtype.precision)


def adaptive(call: Call) -> Work:
    """`_adaptive_avg_pool2d(x, sizes)`: an add an element of x."""
    x = call.tensor(0)
    result = _resized(call, x)
    return Work(float(x.numel), read_bytes(x) + result * x.dtype.bytes, x.dtype.precision)


def upsample(call: Call, flops: float) -> Work:
    """`upsample_nearest2d(x, sizes, ..)`, `upsample_bilinear2d(..)` with this much work a
    result."""
    x = call.tensor(0)
    result = _resized(call, x)
    return Work(flops * result, read_bytes(x) + result * x.dtype.bytes, x.dtype.precision)


def _resized(call: Call, x: Tensor) -> int:
    """Elements of a result with the batch and channels of x; its other sizes are input 1."""
    if not call.values:
        return _read_after(call, x, x.shape[1])
    sizes = call.integers(1)
    kept = x.shape[: len(x.shape) - len(sizes)]
    return math.prod(kept) * math.prod(sizes)


def upsample_backward(call: Call, flops: float) -> Work:
    """`upsample_nearest2d_backward(grad, sizes, input_sizes, ..)`: reads grad, writes the
    input's."""
    grad = call.tensor(0)
    traffic = read_bytes(grad) + math.prod(call.integers(2)) * grad.dtype.bytes
    return Work(flops * grad.numel, traffic, grad.dtype.precision)
