"""Pointwise operators: every input read once as it is stored, one result of the broadcast shape written.

FLOPs are counted a result element: an arithmetic operation or an elementary function (exp, tanh, sqrt, a
division) is one, an activation as many as its formula has. Integer and boolean work is no FLOPs.
"""

import math
from collections.abc import Callable

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read
from traceanalyzer.analysis.roofline.op_models.shapes import broadcast
from traceanalyzer.analysis.roofline.op_models.tensors import BOOL, FLOAT, DType, Kind, Tensor, promoted


def pointwise(operands: int, flops: float = 1.0, out: DType | None = None) -> Callable[[Call], Work]:
    """The model of `f(x1, .., xn)` with up to `operands` tensors in front (others are scalars) and this much work."""

    def model(call: Call) -> Work:
        return _mapped(call, [t for i in range(operands) if (t := call.optional(i)) is not None], flops, out)

    return model


def real_function(flops: float = 1.0) -> Callable[[Call], Work]:
    """The model of `f(x)` whose result is real: integers become floats."""

    def model(call: Call) -> Work:
        x = call.tensor(0)
        return _mapped(call, [x], flops, x.dtype if x.dtype.kind >= Kind.FLOAT else FLOAT)

    return model


def at(*positions: int, flops: float = 1.0) -> Callable[[Call], Work]:
    """The model of a pointwise function of the tensors at these positions."""

    def model(call: Call) -> Work:
        return _mapped(call, [call.tensor(i) for i in positions], flops, None)

    return model


def comparison(call: Call) -> Work:
    """`a < b`: reads both, writes booleans."""
    return pointwise(2, 1.0, BOOL)(call)


def where(call: Call) -> Work:
    """`where(condition, a, b)`: reads all three, writes the type of a and b; a choice is no FLOP."""
    tensors = [call.tensor(0), *(t for i in (1, 2) if (t := call.optional(i)) is not None)]
    return _mapped(call, tensors, 0.0, promoted(*tensors[1:]))


def masked_fill(call: Call) -> Work:
    """`masked_fill_(x, mask, value)`: reads x and the mask, writes x."""
    x, mask = call.tensor(0), call.tensor(1)
    return _mapped(call, [x, mask], 0.0, x.dtype)


def fill(call: Call) -> Work:
    """`fill_(x, value)`, `zero_(x)`: writes x, reads nothing."""
    return Work(0.0, call.tensor(0).bytes)


def random(call: Call) -> Work:
    """`normal_(x)`, `uniform_(x)`, ..: writes x; generating is not counted."""
    return fill(call)


def generated(call: Call) -> Work:
    """`arange(.., out=x)`: writes x."""
    if not call.tensors:
        raise UnmodelledError("the result was not recorded")
    return Work(0.0, call.tensors[-1].bytes)


def dropout(call: Call) -> Work:
    """`native_dropout(x, p, train)`: reads x, writes the result and a boolean mask; a product and a scaling."""
    x = call.tensor(0)
    return Work(2.0 * x.numel, read(x) + x.dense_bytes + x.numel * BOOL.bytes, x.dtype.precision)


def dropout_backward(call: Call) -> Work:
    """`native_dropout_backward(grad, mask, scale)`: reads both, writes the gradient."""
    grad, mask = call.tensor(0), call.tensor(1)
    return Work(2.0 * grad.numel, read(grad, mask) + grad.dense_bytes, grad.dtype.precision)


def glu(call: Call) -> Work:
    """`glu(x)` = a·sigmoid(b) of the halves of x: reads x, writes half of it; 5 FLOPs a result element."""
    x = call.tensor(0)
    return Work(5.0 * x.numel / 2, read(x) + x.dense_bytes / 2, x.dtype.precision)


def glu_backward(call: Call) -> Work:
    """`glu_backward(grad, x)`: reads both, writes the gradient of x; 9 FLOPs an element of grad."""
    grad, x = call.tensor(0), call.tensor(1)
    return Work(9.0 * grad.numel, read(grad, x) + x.dense_bytes, x.dtype.precision)


def _mapped(call: Call, tensors: list[Tensor], flops: float, out: DType | None) -> Work:
    if not tensors:
        raise UnmodelledError("no tensor")
    elements = math.prod(broadcast(*(t.shape for t in tensors)))
    dtype = promoted(*tensors)
    result = tensors[0].dtype if call.name.endswith("_") else (out or dtype)
    counted = flops if dtype.kind >= Kind.FLOAT else 0.0
    return Work(counted * elements, read(*tensors) + elements * result.bytes, dtype.precision)
