"""A finding on attention that is written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.attention import written_out_attention as find
from traceanalyzer.diagnosis.draft import Draft, Remedy, share, times
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool


def written_out_attention(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Softmax and its neighbours between two batched products, forward or backward."""
    found = find(m, free)
    if found is None:
        return
    total = found.passes.total_ms
    evidence = [
        share(m, total, "passes over the scores between the two products of attention"),
        Evidence("attentions", found.attentions, "", "a step, forward and backward each"),
    ]
    if found.bytes_saved is not None:
        where = "scores read and written by these passes, a step"
        evidence.append(Evidence("traffic saved", found.bytes_saved, "bytes", where))
    evidence += times(found.passes.top)
    remedy = Remedy(
        "Use torch.nn.functional.scaled_dot_product_attention: its kernels keep the scores on the chip.",
        "without the passes between the products; the products' own traffic with the scores goes too",
        name="fused_attention",
    )
    title = "Attention is written out in separate operators"
    yield Draft("attention-written-out", "memory", title, "compute", total, evidence, [remedy], found.passes.rows)
