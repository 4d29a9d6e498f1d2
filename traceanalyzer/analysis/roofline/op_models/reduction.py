"""Reductions, softmax and losses: the input read once, what is left written;
a FLOP an element for each operation of the sum.
"""

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, UnmodelledError, Work, read, reduced
from traceanalyzer.analysis.roofline.op_models.tensors import BOOL, FLOAT, LONG, Kind, Tensor


def nll(call: Call) -> Work:
    """`nll_loss_forward(x[n,c], target[n], weight, ..)`: reads the target and one element of x for each."""
    x, target = call.tensor(0), call.tensor(1)
    traffic = read(target, call.optional(2)) + target.numel * x.dtype.bytes + 2 * x.dtype.bytes
    return Work(float(target.numel), traffic, x.dtype.precision)


def nll_backward(call: Call) -> Work:
    """`nll_loss_backward(grad, x, target, weight, ..)`: reads gradient and target, writes a gradient like x (zeros)."""
    grad, x, target = call.tensor(0), call.tensor(1), call.tensor(2)
    return Work(float(target.numel), read(grad, target, call.optional(3)) + x.dense_bytes, x.dtype.precision)


def compared(flops: float) -> Model:
    """The model of a loss of `f(x, target, .., reduction)`, as of `mse_loss`: reads both, writes the mean or each.

    Reduction is input 2: 0 is none (each element is written), else one number is.
    """

    def model(call: Call) -> Work:
        x, target = call.tensor(0), call.tensor(1)
        each = len(call.values) > 2 and call.values[2] == "0"
        written = x.dense_bytes if each else x.dtype.bytes
        return Work(flops * x.numel, read(x, target) + written, x.dtype.precision)

    return model


SOFTMAX_FLOPS = 5.0
"""An element: maximum, difference, exponential, sum, quotient (of the logarithm: another difference)."""
SOFTMAX_BACKWARD_FLOPS = 4.0
"""An element: product with the result, its sum, difference, product."""


def softmax(call: Call) -> Work:
    """`_softmax(x, dim, half_to_float)`, `_log_softmax(..)`: reads x, writes as much, in float where asked for."""
    x = call.tensor(0)
    widened = len(call.values) > 2 and call.values[2].lower() == "true"
    return Work(SOFTMAX_FLOPS * x.numel, read(x) + x.numel * (FLOAT if widened else x.dtype).bytes, x.dtype.precision)


def softmax_backward(call: Call) -> Work:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`: reads both, writes the input's gradient."""
    grad, output = call.tensor(0), call.tensor(1)
    traffic = read(grad, output) + grad.numel * call.dtype(3, grad.dtype).bytes
    return Work(SOFTMAX_BACKWARD_FLOPS * grad.numel, traffic, grad.dtype.precision)


def over(flops: float, results: int = 1, dims: int = 1) -> Model:
    """The model of a reduction with this much work an element, as many results, dimensions named at input `dims`."""

    def model(call: Call) -> Work:
        x = call.tensor(0)
        return _reduced(x, flops, results * _left(call, x, dims) * x.dtype.bytes)

    return model


def extreme(call: Call) -> Work:
    """`max(x)`, `max(x, dim)`, `max(a, b)`: with a dimension the positions are written too (64 bit)."""
    x, other = call.tensor(0), call.optional(1)
    if other is not None:
        raise UnmodelledError("the pointwise maximum is `maximum`")
    if len(call.values) < 2 or not call.values[1]:
        return _reduced(x, 1.0, x.dtype.bytes)
    return _reduced(x, 1.0, _left(call, x, 1) * (x.dtype.bytes + LONG.bytes))


def position(call: Call) -> Work:
    """`argmax(x, dim)`: writes positions (64 bit)."""
    x = call.tensor(0)
    return _reduced(x, 1.0, _left(call, x, 1) * LONG.bytes)


def truth(call: Call) -> Work:
    """`any(x, dim)`, `all(x, dim)`: writes booleans; no FLOPs."""
    x = call.tensor(0)
    return _reduced(x, 0.0, _left(call, x, 1) * BOOL.bytes)


def scan(call: Call) -> Work:
    """`cumsum(x, dim)`: reads x, writes as much (sums of integers in 64 bit); a FLOP an element."""
    x = call.tensor(0)
    return _reduced(x, 1.0, x.numel * (x.dtype if x.dtype.kind >= Kind.FLOAT else LONG).bytes)


def _left(call: Call, x: Tensor, index: int) -> int:
    """Elements of the result. A single number is a dimension only where another input follows (else a type)."""
    text = call.values[index] if index < len(call.values) else ""
    if text.startswith("["):
        return reduced(x.shape, call.integers(index))
    if text.lstrip("-").isdecimal() and len(call.inputs) > index + 1:
        return reduced(x.shape, [int(text)])
    return 1


def _reduced(x: Tensor, flops: float, result: float) -> Work:
    counted = flops if x.dtype.kind >= Kind.FLOAT else 0.0
    return Work(counted * x.numel, read(x) + result, x.dtype.precision)
