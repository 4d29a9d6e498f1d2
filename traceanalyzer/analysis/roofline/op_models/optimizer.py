"""Operators on lists of tensors and fused optimizer steps: every list read once, what is updated
written.

Recordings name the type of a list only as `TensorList`; it is taken from the kernel's name
(`tensors.py`). Lists of more than 30 tensors PyTorch leaves out of recordings. An optimizer updates
the parameters whose gradients the backward pass before it accumulated, and each of those is
recorded with its shape and type (`torch::autograd::AccumulateGrad`). That is not so where there are
several groups of parameters or ranks share them out, so it is only believed where the launches
agree: the kernels of such an operator have a block for each begun chunk of each tensor."""

from collections.abc import Callable

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.roofline.op_models.call import Call, Work
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, TensorList, inputs_of
from traceanalyzer.trace import I64, RangeKind, Trace, distinct

ACCUMULATE = "torch::autograd::AccumulateGrad"
ON_PARAMETERS = {f"aten::_fused_{name}_" for name in ("adam", "adamw", "sgd", "adagrad")} | {
    f"aten::_foreach_{name}"
    for name in ("lerp_", "addcmul_", "addcdiv_", "mul_", "sqrt", "div_", "zero_")
}
"""Operators that optimizers call on all parameters, their gradients or their moments."""
CHUNK = 65_536
"""Elements that one block of such a kernel takes, of one tensor (`kChunkSize` of ATen's
MultiTensorApply.cuh)."""


def foreach_operator(call: Call, flops: float) -> Work:
    """`_foreach_f(list, list or scalar, ..)`: reads each list, writes one; this much work an
    element."""
    first = call.tensor_list(0)
    lists = [
        given for given in call.inputs if isinstance(given, tuple) and len(given) == len(first)
    ]
    return _updated(first, read=_bytes(*lists), written=_bytes(first), flops=flops)


def over_lists(call: Call, flops: float, reads: tuple[int, ...] = (0,)) -> Work:
    """Of an operator that reads these lists and writes the first, with this much work an element.

    Recordings do not say whether two lists are the same tensors. Optimizers square a gradient with
    `_foreach_addcmul_` (`exp_avg_sq.addcmul_(grad, grad)`), so its last list is not counted: the
    least that may move."""
    first = call.tensor_list(0)
    return _updated(
        first, read=_bytes(*map(call.tensor_list, reads)), written=_bytes(first), flops=flops
    )


def foreach_norm(call: Call) -> Work:
    """`_foreach_norm(list, order)`: reads it, writes a number for each tensor; 2 FLOPs an
    element."""
    first = call.tensor_list(0)
    written = len(first) * first[0].dtype.bytes
    return _updated(first, read=_bytes(first), written=written, flops=2.0)


def fused_adam(
    call: Call,
    flops: float,
    state: tuple[int, ...],
    kept: Callable[[Call], tuple[int, ...]] = lambda _: (),
) -> Work:
    """`_fused_adam_(parameters, gradients, first, second, largest, steps, ..)` and its kin: reads
    gradients and its state, parameters too, and writes these; settings say which are `kept`."""
    parameters = call.tensor_list(0)
    gradients = call.tensor_list(1)
    moved = _bytes(parameters, *map(call.tensor_list, (*state, *kept(call))))
    return _updated(parameters, read=_bytes(gradients) + moved, written=moved, flops=flops)


def momentum(call: Call) -> tuple[int, ...]:
    """The place of the buffers of SGD with momentum; where its value was not recorded a third list
    tells."""
    if call.has_value(4):
        return (2,) if float(call.value(4)) else ()
    return (2,) if len(call.inputs) > 2 and isinstance(call.inputs[2], tuple) else ()


def _updated(tensors: TensorList, *, read: float, written: float, flops: float) -> Work:
    return Work(flops * sum(t.numel for t in tensors), read + written, tensors[0].dtype.precision)


def _bytes(*lists: TensorList) -> float:
    return sum((t.bytes for tensors in lists for t in tensors), 0.0)


def updated_parameters(joined: HostAttribution, rows: I64) -> dict[int, TensorList]:
    """The parameters that the operators in these rows (of `ON_PARAMETERS`, ascending) updated,
    where it is known."""
    trace = joined.trace
    ranges = joined.trace.host_ranges
    gradients = np.flatnonzero(
        texts_where(trace.strings, ACCUMULATE.__eq__)[ranges.name] & (ranges.shapes >= 0)
    )
    if not len(gradients) or not len(rows):
        return {}
    passes = _forward_operators_before(joined, rows, gradients)
    before = np.searchsorted(ranges.start[gradients], ranges.start[rows]) - 1
    of_row = np.where(before >= 0, passes[before], -1)
    read: dict[bytes, TensorList] = {}
    known = {
        number: _tensors(trace, gradients[passes == number], read)
        for number in distinct(of_row).tolist()
    }
    chunks_of = {id(tensors): _chunks(tensors) for tensors in read.values()}
    blocks = _blocks(joined, rows).tolist()
    launches = zip(rows.tolist(), of_row.tolist(), blocks, strict=True)
    return {
        row: known[number]
        for row, number, launched in launches
        if known[number] and chunks_of[id(known[number])] == launched
    }


def _forward_operators_before(joined: HostAttribution, rows: I64, gradients: I64) -> I64:
    """How many forward operators the thread of the rows had begun before each of these gradients:
    equal within one backward pass, as its thread waits for that."""
    ranges = joined.trace.host_ranges
    of_thread = ranges.thread == ranges.thread[rows[0]]
    forward = (ranges.kind == RangeKind.OP) & of_thread & (ranges.sequence >= 0)
    return np.searchsorted(ranges.start[forward], ranges.start[gradients])


def _chunks(tensors: TensorList) -> int:
    """Blocks that a kernel on lists of these tensors is launched with."""
    return sum(-(-tensor.numel // CHUNK) for tensor in tensors)


def _blocks(joined: HostAttribution, rows: I64) -> I64:
    """Thread blocks of all kernels that each of these operators launched itself; 0 where they were
    not recorded."""
    launched = owner_nodes(joined.linked, joined.launch_node)
    inside = np.flatnonzero(
        (launched >= 0) & joined.linked.is_kernel & (joined.trace.device_ops.blocks > 0)
    )
    row_of_node = np.where(joined.linked.tree.is_call, -1, joined.linked.tree.row[:])
    of_op = row_of_node[launched[inside]]
    order = np.searchsorted(rows, of_op)
    hit = rows[np.minimum(order, len(rows) - 1)] == of_op
    sums = np.bincount(
        order[hit], weights=joined.trace.device_ops.blocks[inside[hit]], minlength=len(rows)
    )
    return sums.astype(np.int64)


def _tensors(trace: Trace, rows: I64, read: dict[bytes, TensorList]) -> TensorList:
    """The gradients' tensors; none if one of them cannot be read. Steps that are alike (`read`)
    share one tuple."""
    shapes = trace.host_ranges.shapes[rows]
    dtypes = trace.host_ranges.dtypes[rows]
    key = shapes.tobytes() + dtypes.tobytes()
    if key not in read:
        texts = zip(
            map(trace.text, shapes.tolist()),
            map(trace.text, dtypes.tolist()),
            strict=True,
        )
        first = (input_ for text in texts for input_ in inputs_of(*text)[:1])
        tensors = tuple(one for one in first if isinstance(one, Tensor))
        read[key] = tensors if len(tensors) == len(rows) else ()
    return read[key]
