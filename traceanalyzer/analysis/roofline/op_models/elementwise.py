"""Pointwise operators: every input read once as it is stored, one result of the broadcast shape written.

FLOPs are counted a result element: an arithmetic operation or an elementary function (exp, tanh, sqrt, a
division) is one, an activation as many as its formula has. Integer and boolean work is no FLOPs.
"""

import math

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, UnmodelledError, Work, broadcast, read
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, DType, Kind, Tensor, promoted


def pointwise(operands: int, flops: float = 1.0, out: DType | None = None) -> Model:
    """The model of `f(x1, .., xn)` with up to `operands` tensors in front (others are scalars) and this much work."""

    def model(call: Call) -> Work:
        return _mapped(call, [t for i in range(operands) if (t := call.optional(i)) is not None], flops, out)

    return model


def real_function(flops: float = 1.0) -> Model:
    """The model of `f(x)` whose result is real: integers become floats."""

    def model(call: Call) -> Work:
        x = call.tensor(0)
        return _mapped(call, [x], flops, x.dtype if x.dtype.kind >= Kind.FLOAT else FLOAT)

    return model


def at(*positions: int, flops: float = 1.0) -> Model:
    """The model of a pointwise function of the tensors at these positions."""

    def model(call: Call) -> Work:
        return _mapped(call, [call.tensor(i) for i in positions], flops, None)

    return model


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


def generated(call: Call) -> Work:
    """`arange(.., out=x)`: writes x."""
    if not call.tensors:
        raise UnmodelledError("the result was not recorded")
    return Work(0.0, call.tensors[-1].bytes)


def _mapped(call: Call, tensors: list[Tensor], flops: float, out: DType | None) -> Work:
    if not tensors:
        raise UnmodelledError("no tensor")
    elements = math.prod(broadcast(*(t.shape for t in tensors)))
    dtype = promoted(*tensors)
    result = tensors[0].dtype if call.name.endswith("_") else (out or dtype)
    counted = flops if dtype.kind >= Kind.FLOAT else 0.0
    return Work(counted * elements, read(*tensors) + elements * result.bytes, dtype.precision)
