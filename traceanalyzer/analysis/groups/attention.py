"""Attention written out: a softmax between two batched products, whose scores go through memory several times."""

import re

import numpy as np

from traceanalyzer.analysis.groups.ops import Group, group, in_stream_order, operators, steady, with_text
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64, Bool
from traceanalyzer.trace.distinct import distinct

PRODUCT = re.compile(r"^aten::(?:bmm|baddbmm)$")
"""Batched products: of queries and keys, of scores and values."""
SOFTMAX = re.compile(r"^aten::_?(?:log_)?softmax(?:_backward_data)?$|^aten::_safe_softmax$|masked_softmax")
"""Operators between them that make attention of it."""
MAX_BETWEEN = 16
"""Kernels between two products of one attention: scaling, softmax, dropout, casts, a mask made for it, a copy of the
values, and each one's copy."""


@dataclass(frozen=True, eq=False)
class WrittenOutAttention:
    """Passes over the scores between the two products."""

    passes: Group
    attentions: float
    """A step, forward and backward each."""
    bytes_saved: float | None
    """What the passes read and write a step; None where not known."""


def written_out_attention(rated: Rated, free: Bool) -> WrittenOutAttention | None:
    """Softmax and its neighbours between two batched products, forward or backward, of ops that are `free`."""
    order = in_stream_order(rated.timed, steady(rated.timed))
    between = between_products(rated, order)
    rows = np.zeros(len(free), bool)
    rows[order[between >= 0]] = True
    passes = group(rated.timed, rows & free)
    if passes.total_ms <= 0:
        return None
    number = len(distinct(between[between >= 0])) / rated.timed.steps.steady_count
    moved = rated.roofline.bytes[passes.rows]
    known = np.isfinite(moved).any()
    return WrittenOutAttention(
        passes, number, float(np.nansum(moved)) / rated.timed.steps.steady_count if known else None
    )


def between_products(rated: Rated, order: I64) -> I64:
    """For each op of `order` the number of the attention between whose products it lies, -1 outside of any."""
    operator = operators(rated)[order]
    product, softmax = (
        np.flatnonzero(with_text(rated.linked, operator, PRODUCT)),
        with_text(rated.linked, operator, SOFTMAX),
    )
    step, stream = rated.timed.steps.of_op[order], rated.trace.device_ops.stream[order]
    seen = np.concatenate(([0], np.cumsum(softmax)))
    result = np.full(len(order), -1, np.int64)
    pairs = zip(product[:-1].tolist(), product[1:].tolist(), strict=True)
    for number, (a, b) in enumerate(pairs):
        near = 1 < b - a <= MAX_BETWEEN + 1 and step[a] == step[b] and stream[a] == stream[b]
        if near and seen[b] > seen[a + 1]:
            result[a + 1 : b] = number
    return result
