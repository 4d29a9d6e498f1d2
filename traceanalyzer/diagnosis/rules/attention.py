"""Attention written out: a softmax between two batched products, whose scores go through memory several times."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.rules.kernel_rows import (
    Claim,
    duration,
    in_stream_order,
    operators,
    per_step,
    steady,
    top_kernels,
    with_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64, Bool

PRODUCT = re.compile(r"^aten::(?:bmm|baddbmm)$")
"""Batched products: of queries and keys, of scores and values."""
SOFTMAX = re.compile(r"^aten::_?(?:log_)?softmax(?:_backward_data)?$|^aten::_safe_softmax$|masked_softmax")
"""Operators between them that make attention of it."""
MAX_BETWEEN = 8
"""Kernels between two products of one attention: scaling, mask, softmax, dropout, casts, and each one's copy."""


def written_out_attention(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Softmax and its neighbours between two batched products, forward or backward."""
    order = in_stream_order(m, steady(m))
    between = _between(m, order)
    rows = np.zeros(len(m.trace.device_ops), bool)
    rows[order[between >= 0]] = True
    rows &= free
    total = per_step(m, duration(m)[rows])
    if total <= 0:
        return
    number = len(np.unique(between[between >= 0])) / m.steps.steady_count
    moved = m.roofline.bytes[rows]
    evidence = [
        share(total, m.mean_step_ms, "passes over the scores between the two products of attention"),
        Evidence("attentions", number, "", "a step, forward and backward each"),
    ]
    if np.isfinite(moved).any():
        saved = float(np.nansum(moved)) / m.steps.steady_count
        evidence.append(Evidence("traffic saved", saved, "bytes", "scores read and written by these passes, a step"))
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)]
    action = "Use torch.nn.functional.scaled_dot_product_attention: its kernels keep the scores on the chip."
    remedy = Remedy(
        action, "without the passes between the products; the products' own traffic with the scores goes too"
    )
    title = "Attention is written out in separate operators"
    yield Claim(Draft("attention-written-out", "memory", title, "compute", total, evidence, [remedy]), rows)


def _between(m: Measurements, order: I64) -> I64:
    """For each op of `order` the number of the attention between whose products it lies, -1 outside of any."""
    operator = operators(m)[order]
    product, softmax = np.flatnonzero(with_text(m, operator, PRODUCT)), with_text(m, operator, SOFTMAX)
    step, stream = m.steps.of_op[order], m.trace.device_ops.stream[order]
    seen = np.concatenate(([0], np.cumsum(softmax)))
    result = np.full(len(order), -1, np.int64)
    pairs = zip(product[:-1].tolist(), product[1:].tolist(), strict=True)
    for number, (a, b) in enumerate(pairs):
        near = 1 < b - a <= MAX_BETWEEN + 1 and step[a] == step[b] and stream[a] == stream[b]
        if near and seen[b] > seen[a + 1]:
            result[a + 1 : b] = number
    return result
