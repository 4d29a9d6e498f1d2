"""Softmax and its logarithm, forward and backward."""

from traceanalyzer.analysis.roofline.op_models.call import Call, Work, read
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT

FORWARD_FLOPS = 5.0
"""An element: maximum, difference, exponential, sum, quotient (of the logarithm: another difference)."""
BACKWARD_FLOPS = 4.0
"""An element: product with the result, its sum, difference, product."""


def softmax(call: Call) -> Work:
    """`_softmax(x, dim, half_to_float)`, `_log_softmax(..)`: reads x, writes as much, in float where asked for."""
    x = call.tensor(0)
    widened = len(call.values) > 2 and call.values[2].lower() == "true"
    return Work(FORWARD_FLOPS * x.numel, read(x) + x.numel * (FLOAT if widened else x.dtype).bytes, x.dtype.precision)


def softmax_backward(call: Call) -> Work:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`: reads both, writes the input's gradient."""
    grad, output = call.tensor(0), call.tensor(1)
    result = call.dtype(3, grad.dtype)
    return Work(BACKWARD_FLOPS * grad.numel, read(grad, output) + grad.numel * result.bytes, grad.dtype.precision)
