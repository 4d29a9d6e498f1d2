"""Reductions: the input read once, what is left written; a FLOP an element for each operation of the sum."""

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, UnmodelledError, Work, read
from traceanalyzer.analysis.roofline.op_models.shapes import reduced
from traceanalyzer.analysis.roofline.op_models.tensors import BOOL, LONG, Kind, Tensor


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
    if text.lstrip("-").isdigit() and len(call.inputs) > index + 1:
        return reduced(x.shape, [int(text)])
    return 1


def _reduced(x: Tensor, flops: float, result: float) -> Work:
    counted = flops if x.dtype.kind >= Kind.FLOAT else 0.0
    return Work(counted * x.numel, read(x) + result, x.dtype.precision)
