"""Matrix products: 2·m·n·k FLOPs (a multiply and an add for each), operands read once, the product
written once.

The convention of `torch.utils.flop_counter`; the addition of a bias or of the third matrix is not
counted."""

import math

from traceanalyzer.analysis.roofline.op_models.call import (
    Call,
    UnmodelledError,
    Work,
    broadcast,
    read_bytes,
)
from traceanalyzer.analysis.roofline.op_models.tensors import DType


def product(
    call: Call,
    a: int,
    b: int,
    base: int | None = None,
    out: DType | None = None,
) -> Work:
    """`mm(a[m,k], b[k,n])`, batches of it (an operand expanded over the batch is read once) and
    with a vector b[k]; what is added to it (`base`) is read once, a broadcast row as such. The
    product is of type `out`, or a's."""
    left = call.tensor(a)
    right = call.tensor(b)
    if not left.shape or not right.shape:
        raise UnmodelledError("no matrices")
    columns = right.shape[-1] if len(right.shape) > 1 else 1
    result = left.numel // max(left.shape[-1], 1) * columns
    traffic = (
        read_bytes(left, right, None if base is None else call.tensor(base))
        + result * (out or left.dtype).bytes
    )
    return Work(2.0 * left.numel * columns, traffic, left.dtype.precision)


def matmul(call: Call) -> Work:
    """`matmul(a, b)` with leading dimensions broadcast against each other, vectors as rows or
    columns."""
    a = call.tensor(0)
    b = call.tensor(1)
    if not a.shape or not b.shape:
        raise UnmodelledError("matmul of a scalar")
    rows = a.shape[-2] if len(a.shape) > 1 else 1
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    batches = math.prod(broadcast(a.shape[:-2], b.shape[:-2]))
    result = batches * rows * columns
    traffic = read_bytes(a, b) + result * a.dtype.bytes
    return Work(2.0 * result * a.shape[-1], traffic, a.dtype.precision)


def linear(call: Call) -> Work:
    """`linear(x[*,k], w[n,k], bias)`: 2·numel(x)·n FLOPs."""
    x = call.tensor(0)
    weight = call.tensor(1)
    rows = x.numel // max(x.shape[-1], 1)
    columns = weight.numel // max(weight.shape[-1], 1)
    traffic = read_bytes(x, weight, call.optional(2)) + rows * columns * x.dtype.bytes
    return Work(2.0 * x.numel * columns, traffic, x.dtype.precision)


def scaled_mm(call: Call) -> Work:
    """`_scaled_mm(a[m,k], b[k,n], scales.., out_dtype)`: 2·m·n·k FLOPs in the operands' format.

    Argument order: native_functions.yaml (`out_dtype` is argument 6). Two four-bit values share a
    byte."""
    a = call.tensor(0)
    b = call.tensor(1)
    packed = 2 if a.dtype.precision.name == "FP4" else 1
    rows = a.shape[0]
    columns = b.shape[1]
    written = rows * columns * call.dtype(6, DType(2)).bytes
    traffic = read_bytes(a, b, *map(call.optional, (2, 3, 4))) + written
    return Work(2.0 * rows * columns * a.shape[1] * packed, traffic, a.dtype.precision)


def grouped_mm(call: Call) -> Work:
    """`_grouped_mm(a, b, offsets)`: groups of products with ragged rows, columns or inner
    dimensions.

    Operands of 2 and 3 dimensions: every row of the first meets one group of the second, 2·m·k·n
    FLOPs. Both of 2 dimensions: the inner dimension is split, each group's part gives a product,
    2·m·k·n over all of them."""
    a = call.tensor(0)
    b = call.tensor(1)
    groups = call.optional(2) or call.optional(4)
    rows = a.shape[-2]
    inner = a.shape[-1]
    columns = b.shape[-1]
    if len(a.shape) == 3 and len(b.shape) == 3:
        rows *= a.shape[0]
    splits_inner = groups is not None and len(a.shape) == len(b.shape) == 2
    products = groups.numel if groups is not None and splits_inner else 1
    traffic = read_bytes(a, b) + rows * columns * products * 2.0
    return Work(2.0 * rows * columns * inner, traffic, a.dtype.precision)


def addbmm(call: Call) -> Work:
    """`addbmm(c[m,n], a[b,m,k], d[b,k,n])`: 2·b·m·n·k FLOPs, one matrix written."""
    base = call.tensor(0)
    a = call.tensor(1)
    b = call.tensor(2)
    result = a.shape[1] * b.shape[2]
    traffic = read_bytes(base, a, b) + result * a.dtype.bytes
    return Work(2.0 * a.numel * b.shape[2], traffic, a.dtype.precision)
