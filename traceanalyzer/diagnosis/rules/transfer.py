"""Findings on memory copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import COPIES_HIDDEN
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

ROWS = 3
"""Kinds of copies named in the evidence."""


def exposed_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Copies while nothing else ran on the device."""
    budget = m.step.budget
    if budget is None or budget.exposed_copy <= 0:
        return
    evidence = [share(m, budget.exposed_copy, "copies with nothing beside them")]
    shown = sorted(m.copies, key=lambda row: -row.exposed_ms)[:ROWS]
    for row in shown:
        where = f"{row.direction}, {row.source_memory} to {row.target_memory}, {row.size}"
        evidence.append(Evidence("exposed copy time", row.exposed_ms, "ms", where))
        if row.bandwidth_gbs is not None:
            evidence.append(Evidence("achieved bandwidth", row.bandwidth_gbs, "GB/s", where))
    pageable = any(row.source_memory == "pageable" or row.target_memory == "pageable" for row in shown)
    action = (
        ("Pin the host memory (pin_memory=True); pageable copies are slow and block the host. " if pageable else "")
        + "Copy on a side stream with non_blocking=True while the previous step computes; send less "
        "(smaller types, compute on the GPU what can be)."
    )
    basis = "copies completely hidden behind compute"
    yield Draft(
        "exposed-copies",
        "transfer",
        "Memory copies run while the GPU computes nothing",
        "exposed_copy",
        budget.exposed_copy,
        evidence,
        [Remedy(action, basis, COPIES_HIDDEN, name="pinned_memory" if pageable else "copy_ahead")],
    )
