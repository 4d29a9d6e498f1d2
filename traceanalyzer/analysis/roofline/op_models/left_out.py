"""Lists of more than 30 tensors, which PyTorch leaves out of recordings, where the recording tells them elsewhere.

An optimizer updates the parameters whose gradients the backward pass before it accumulated, and each of those is
recorded with its shape and type (`torch::autograd::AccumulateGrad`). That is not so where there are several groups
of parameters or ranks share them out, so it is only believed where the launches agree: the kernels of such an
operator have a block for each begun chunk of each tensor.
"""

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, TensorList, parse_inputs
from traceanalyzer.trace import I64, RangeKind, Trace, distinct

ACCUMULATE = "torch::autograd::AccumulateGrad"
ON_PARAMETERS = frozenset(
    {
        *(f"aten::_fused_{name}_" for name in ("adam", "adamw", "sgd", "adagrad")),
        *(f"aten::_foreach_{name}" for name in ("lerp_", "addcmul_", "addcdiv_", "mul_", "sqrt", "div_", "zero_")),
    }
)
"""Operators that optimizers call on all parameters, their gradients or their moments."""
CHUNK = 65_536
"""Elements that one block of such a kernel takes, of one tensor (`kChunkSize` of ATen's MultiTensorApply.cuh)."""


def parameters_of(joined: Joined, rows: I64) -> dict[int, TensorList]:
    """The parameters that the operators in these rows (of `ON_PARAMETERS`, ascending) updated, where it is known."""
    trace, ranges = joined.trace, joined.trace.host_ranges
    gradients = np.flatnonzero(texts_where(trace.strings, ACCUMULATE.__eq__)[ranges.name] & (ranges.shapes >= 0))
    if not len(gradients) or not len(rows):
        return {}
    passes = _backward_passes(trace, gradients, int(ranges.thread[rows[0]]))
    before = np.searchsorted(ranges.start[gradients], ranges.start[rows]) - 1
    of_row = np.where(before >= 0, passes[before], -1)
    read: dict[bytes, TensorList] = {}
    known = {n: _tensors(trace, gradients[passes == n], read) for n in distinct(of_row).tolist()}
    chunks = {n: sum(-(-t.numel // CHUNK) for t in tensors) for n, tensors in known.items()}
    blocks = _blocks(joined, rows).tolist()
    return {
        row: known[n]
        for row, n, launched in zip(rows.tolist(), of_row.tolist(), blocks, strict=True)
        if known[n] and chunks[n] == launched
    }


def _blocks(joined: Joined, rows: I64) -> I64:
    """Thread blocks of all kernels that each of these operators launched itself; 0 where they were not recorded."""
    launched = owner_nodes(joined.linked, joined.launch_node)
    inside = np.flatnonzero((launched >= 0) & joined.linked.is_kernel & (joined.trace.device_ops.blocks > 0))
    of_op = np.where(joined.linked.tree.is_call, -1, joined.linked.tree.row[:])[launched[inside]]
    order = np.searchsorted(rows, of_op)
    hit = rows[np.minimum(order, len(rows) - 1)] == of_op
    sums = np.bincount(order[hit], weights=joined.trace.device_ops.blocks[inside[hit]], minlength=len(rows))
    return sums.astype(np.int64)


def _backward_passes(trace: Trace, gradients: I64, thread: int) -> I64:
    """For each accumulated gradient how many forward operators the thread had begun: equal within one backward
    pass, for the thread that started it waits."""
    ranges = trace.host_ranges
    forward = (ranges.kind == RangeKind.OP) & (ranges.thread == thread) & (ranges.sequence >= 0)
    return np.searchsorted(ranges.start[forward], ranges.start[gradients])


def _tensors(trace: Trace, rows: I64, read: dict[bytes, TensorList]) -> TensorList:
    """The gradients' tensors; none if one of them cannot be read. Steps that are alike (`read`) share one tuple."""
    ranges = trace.host_ranges
    shapes, dtypes = ranges.shapes[rows], ranges.dtypes[rows]
    key = shapes.tobytes() + dtypes.tobytes()
    if key not in read:
        texts = zip(map(trace.text, shapes.tolist()), map(trace.text, dtypes.tolist()), strict=True)
        inputs = [(parse_inputs(shape or "[]", dtype, None) or (None,))[0] for shape, dtype in texts]
        tensors = tuple(t for t in inputs if isinstance(t, Tensor))
        read[key] = tensors if len(tensors) == len(inputs) else ()
    return read[key]
