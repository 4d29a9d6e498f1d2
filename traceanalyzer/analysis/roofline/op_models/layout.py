"""What only moves: copies, casts, joins, and collectives (the bytes each rank moves over its link). No FLOPs; views
cost nothing and have no model.
"""

from traceanalyzer.analysis.names.collectives import bus_factor, collective_kind, element_bytes, message_bytes
from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read


def copy(call: Call) -> Work:
    """`copy_(target, source)`: reads the source as it is stored (broadcast: once), writes the target."""
    target, source = call.tensor(0), call.tensor(1)
    return Work(0.0, read(source) + target.bytes, source.dtype.precision)


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


def on_the_link(call: Call) -> Work:
    """`record_param_comms`: the message times the bus factor of nccl-tests (all-reduce 2·(n-1)/n, gathers (n-1)/n)."""
    link = call.link
    if link is None:
        raise UnmodelledError("no record of a collective")
    kind = collective_kind(link.name)
    size = message_bytes(kind, link.in_elements, link.out_elements, link.group_size, element_bytes(link.dtype))
    factor = bus_factor(kind, link.group_size)
    if size < 0 or factor is None:
        raise UnmodelledError("its size or its kind is not known")
    return Work(0.0, size * factor)
