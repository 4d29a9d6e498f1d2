"""Copies, casts, joins: what is read and written, no FLOPs. Views cost nothing and have no model."""

from __future__ import annotations

from traceanalyzer.analysis.roofline.op_models.call import Call, Work, read


def copy(call: Call) -> Work:
    """`copy_(target, source)`: reads the source as it is stored (broadcast: once), writes the target."""
    target, source = call.tensor(0), call.tensor(1)
    return Work(0.0, read(source) + target.bytes, source.dtype.precision)


def clone(call: Call) -> Work:
    """`clone(x)`, `contiguous(x)`, `flip(x)`, `roll(x)`: reads x, writes as many elements."""
    x = call.tensor(0)
    return Work(0.0, read(x) + x.dense_bytes, x.dtype.precision)


def cast(call: Call) -> Work:
    """`_to_copy(x, dtype, ..)`: reads x, writes it in the new type."""
    x = call.tensor(0)
    return Work(0.0, read(x) + x.numel * call.dtype(1, x.dtype).bytes, x.dtype.precision)


def cat(call: Call) -> Work:
    """`cat(tensors, dim)`: reads each, writes as much."""
    parts = call.tensor_list(0)
    return Work(0.0, sum(t.bytes + t.dense_bytes for t in parts), parts[0].dtype.precision)


def pad(call: Call) -> Work:
    """`constant_pad_nd(x, pad)`: reads x, writes it with the padding on each side of its last dimensions."""
    x, amounts = call.tensor(0), call.integers(1)
    elements = 1
    for position, size in enumerate(reversed(x.shape)):
        elements *= max(size + sum(amounts[2 * position : 2 * position + 2]), 0)
    return Work(0.0, read(x) + elements * x.dtype.bytes, x.dtype.precision)
