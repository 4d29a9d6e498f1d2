"""Look-ups and their backward, sorting and selection: only the rows that are touched move, the
index tensor is read once, and sorting passes over its input once at least (comparisons are no
FLOPs)."""

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read_bytes
from traceanalyzer.analysis.roofline.op_models.tensors import LONG, Tensor


def embedding(call: Call) -> Work:
    """`embedding(table[m,d], index)`: reads the index and its rows, writes numel(index)·d."""
    table = call.tensor(0)
    index = call.tensor(1)
    return _looked_up(table, index, index.numel * table.shape[-1])


def embedding_backward(call: Call) -> Work:
    """`embedding_dense_backward(grad, index, m, ..)`: reads both, writes the table's gradient; an
    add an element."""
    grad = call.tensor(0)
    index = call.tensor(1)
    table = call.integer(2) * grad.shape[-1] * grad.dtype.bytes
    return Work(float(grad.numel), read_bytes(grad, index) + table, grad.dtype.precision)


def embedding_bag(call: Call) -> Work:
    """`_embedding_bag(table, index, offsets, ..)`: reads the rows, writes one for each bag; an add
    an element."""
    table = call.tensor(0)
    index = call.tensor(1)
    offsets = call.tensor(2)
    gathered = index.numel * table.shape[-1]
    width = table.shape[-1]
    traffic = (
        read_bytes(index, offsets)
        + (min(gathered, table.stored) + offsets.numel * width) * table.dtype.bytes
    )
    return Work(float(gathered), traffic, table.dtype.precision)


def index_select(call: Call) -> Work:
    """`index_select(x, dim, index)`: reads the index and the slices it names, writes them."""
    x = call.tensor(0)
    index = call.tensor(2)
    slices = x.shape[call.integer(1)] if x.shape else 1
    return _looked_up(x, index, x.numel // max(slices, 1) * index.numel)


def gather(call: Call) -> Work:
    """`gather(x, dim, index)`: reads the index and an element of x for each of its own, writes
    them."""
    return _looked_up(call.tensor(0), call.tensor(2), call.tensor(2).numel)


def index_put(call: Call) -> Work:
    """`x[i, ..] = values` or `+=`: reads the values, writes as many elements of x; adding reads
    those too.

    Lists of index tensors are in no recording, so values that are broadcast over what they are
    written to, and all of `x[i, ..]` read, have no model. The indices' own bytes are left out."""
    x = call.tensor(0)
    values = call.tensor(2)
    if not values.shape:
        raise UnmodelledError("how much is written was not recorded")
    adds = call.flag(3)
    traffic = read_bytes(values) + min(values.numel, x.stored) * x.dtype.bytes * (1 + adds)
    return Work(float(values.numel * adds), traffic, x.dtype.precision)


def scatter_operator(call: Call, flops: float, passes: int) -> Work:
    """`scatter_(x, dim, index, source)`, `index_add_(..)`: reads index and source (or a value),
    passes so often over what is touched (adding reads it, too); so many FLOPs for each."""
    x = call.tensor(0)
    places = call.tensor(2)
    source = call.optional(3)
    elements = (source or places).numel
    traffic = read_bytes(places, source) + passes * min(elements, x.stored) * x.dtype.bytes
    return Work(flops * elements, traffic, x.dtype.precision)


def _looked_up(x: Tensor, places: Tensor, elements: int) -> Work:
    moved = min(elements, x.stored) + elements
    return Work(0.0, read_bytes(places) + moved * x.dtype.bytes, x.dtype.precision)


def topk(call: Call) -> Work:
    """`topk(x, k, dim)`: reads x, writes k values and positions for each row."""
    x = call.tensor(0)
    k = call.integer(1)
    length = x.shape[call.integer(2) if call.has_value(2) else -1] if x.shape else 1
    rows = x.numel // max(length, 1)
    written = rows * k * (x.dtype.bytes + LONG.bytes)
    return Work(0.0, read_bytes(x) + written, x.dtype.precision)


def bucketize(call: Call) -> Work:
    """`bucketize(x, edges)`, `searchsorted(edges, x)`: reads both, writes a position for each
    value."""
    given = call.tensor(0), call.tensor(1)
    return Work(
        0.0, read_bytes(*given) + given[call.name.endswith("searchsorted")].numel * LONG.bytes
    )
