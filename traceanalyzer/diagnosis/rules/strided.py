"""Finding on kernels whose operands lie in different orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.strided import SECTOR_BYTES, strided_work
from traceanalyzer.diagnosis.draft import Draft, Remedy, share, times
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

EXAMPLES = 3
"""Pairs of operands named in the evidence."""


def uncoalesced(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Elementwise kernels that read or write one operand across its order. What the same work takes in one order is not
    in the recording, so no headroom is claimed; other findings may have it."""
    found = strided_work(m)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "elementwise kernels whose operands lie in different orders")]
    evidence += [
        Evidence("operands", text, "", f"neighbours {SECTOR_BYTES} bytes or more apart")
        for text in found.examples[:EXAMPLES]
    ]
    evidence += times(found.kernels.top)
    action = (
        "Bring the operands into one order before the loop: one contiguous() or one memory format for weights and "
        "inputs, transposes folded into the products that make or take the tensor."
    )
    remedy = Remedy(action, "what the same work takes in one order is not in the recording")
    title = "Elementwise kernels access memory across its order (uncoalesced)"
    yield Draft("uncoalesced-access", "memory", title, "compute", None, evidence, [remedy])
