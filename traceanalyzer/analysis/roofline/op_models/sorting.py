"""Sorting and selection: one pass over the input at least, comparisons are no FLOPs."""

from __future__ import annotations

from traceanalyzer.analysis.roofline.op_models.call import Call, Work, read
from traceanalyzer.analysis.roofline.op_models.tensors import LONG


def sort(call: Call) -> Work:
    """`sort(x)`: reads x, writes values and positions (64 bit)."""
    x = call.tensor(0)
    return Work(0.0, read(x) + x.numel * (x.dtype.bytes + LONG.bytes), x.dtype.precision)


def topk(call: Call) -> Work:
    """`topk(x, k, dim)`: reads x, writes k values and positions for each row."""
    x, k = call.tensor(0), call.integer(1)
    dim = call.integer(2) if len(call.values) > 2 and call.values[2] else -1
    length = x.shape[dim] if x.shape else 1
    return Work(0.0, read(x) + x.numel // max(length, 1) * k * (x.dtype.bytes + LONG.bytes), x.dtype.precision)


def bucketize(call: Call) -> Work:
    """`bucketize(x, edges)`, `searchsorted(edges, x)`: reads both, writes a position for each value."""
    first, second = call.tensor(0), call.tensor(1)
    values = second if call.name.endswith("searchsorted") else first
    return Work(0.0, read(first, second) + values.numel * LONG.bytes)
