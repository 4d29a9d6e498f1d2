"""Pointwise operators and what only moves: every input read once as it is stored, one result of the
broadcast shape written. FLOPs are counted a result element: an arithmetic operation or an
elementary function (exp, tanh, sqrt, a division) is one, an activation as many as its formula has.
Integer and boolean work, copies, casts, joins and collectives (the bytes each rank moves over its
link) are no FLOPs; views cost nothing and have no model."""

import math

from traceanalyzer.analysis.names.collectives import (
    bus_factor,
    collective_kind,
    element_bytes,
    message_bytes,
)
from traceanalyzer.analysis.roofline.op_models.call import (
    Call,
    UnmodelledError,
    Work,
    broadcast,
    read_bytes,
)
from traceanalyzer.analysis.roofline.op_models.tensors import (
    FLOAT,
    DType,
    ElementKind,
    Tensor,
    promoted,
)


def pointwise(call: Call, operands: int, flops: float = 1.0, out: DType | None = None) -> Work:
    """`f(x1, .., xn)` with up to `operands` tensors in front (others are scalars) and this much
    work."""
    given = call.optionals(range(operands))
    return _mapped(call, given, flops, out)


def real_function(call: Call, flops: float = 1.0) -> Work:
    """`f(x)` whose result is real: integers become floats."""
    x = call.tensor(0)
    return _mapped(call, [x], flops, x.dtype if x.dtype.kind >= ElementKind.FLOAT else FLOAT)


def pointwise_at(call: Call, *positions: int, flops: float = 1.0) -> Work:
    """A pointwise function of the tensors at these positions."""
    return _mapped(call, [call.tensor(i) for i in positions], flops, None)


def where(call: Call) -> Work:
    """`where(condition, a, b)`: reads all three, writes the type of a and b; a choice is no
    FLOP."""
    tensors = [call.tensor(0), *call.optionals((1, 2))]
    return _mapped(call, tensors, 0.0, promoted(*tensors[1:]))


def masked_fill(call: Call) -> Work:
    """`masked_fill_(x, mask, value)`: reads x and the mask, writes x."""
    x = call.tensor(0)
    mask = call.tensor(1)
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
    counted = flops if dtype.kind >= ElementKind.FLOAT else 0.0
    return Work(counted * elements, read_bytes(*tensors) + elements * result.bytes, dtype.precision)


def copy(call: Call) -> Work:
    """`copy_(target, source)`: reads the source as it is stored (broadcast: once), writes the
    target."""
    target = call.tensor(0)
    source = call.tensor(1)
    return Work(0.0, read_bytes(source) + target.bytes, source.dtype.precision)


def cast(call: Call) -> Work:
    """`_to_copy(x, dtype, ..)`: reads x, writes it in the new type."""
    x = call.tensor(0)
    written = x.numel * call.dtype(1, x.dtype).bytes
    return Work(0.0, read_bytes(x) + written, x.dtype.precision)


def cat(call: Call) -> Work:
    """`cat(tensors, dim)`: reads each, writes as much."""
    parts = call.tensor_list(0)
    return Work(0.0, sum(t.bytes + t.dense_bytes for t in parts), parts[0].dtype.precision)


def pad(call: Call) -> Work:
    """`constant_pad_nd(x, pad)`: reads x, writes it with the padding on each side of its last
    dimensions."""
    x = call.tensor(0)
    amounts = call.integers(1)
    before = amounts[::2]
    after = amounts[1::2]
    sizes = list(reversed(x.shape))
    for axis, (first, last) in enumerate(zip(before, after, strict=False)):
        sizes[axis] = max(sizes[axis] + first + last, 0)
    return Work(0.0, read_bytes(x) + math.prod(sizes) * x.dtype.bytes, x.dtype.precision)


def on_the_link(call: Call) -> Work:
    """`record_param_comms`: the message times the bus factor of nccl-tests (all-reduce 2·(n-1)/n,
    gathers (n-1)/n)."""
    link = call.link
    if link is None:
        raise UnmodelledError("no record of a collective")
    kind = collective_kind(link.name)
    size = message_bytes(
        kind, link.in_elements, link.out_elements, link.group_size, element_bytes(link.dtype)
    )
    factor = bus_factor(kind, link.group_size)
    if size < 0 or factor is None:
        raise UnmodelledError("its size or its kind is not known")
    return Work(0.0, size * factor)
