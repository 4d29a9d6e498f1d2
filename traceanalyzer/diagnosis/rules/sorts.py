"""Finding on sorts of which only the first few are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.groups.ops import group, per_step, steady
from traceanalyzer.analysis.replay.changes.top_few import sorts_of_few, taken_by_topk, topk_ns
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.draft import Draft, Remedy, share, times
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

EXAMPLES = 3
"""Sorts named in the evidence."""
SCENARIO = Scenario(
    "topk",
    taken_by_topk,
    "topk reads what is sorted 12 times at the memory's rate, in 20 launches, and takes no longer than the sort",
    missing="no sort was recorded of which only the first few are taken",
)
ACTION = "Take the first few without sorting the rest: values, indices = x.topk(k) instead of x.sort() and [:k]."


def sorted_whole(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Sorts after which a slice takes the first few."""
    found = m.once(sorts_of_few)
    if not found.sorts.any():
        return
    operator = m.tree.outer_operator[m.tree.node_of_call[m.launch]]
    rows = steady(m) & free & (m.launch >= 0) & found.sorts[operator]
    if not rows.any():
        return
    kernels = group(m, rows)
    each, first = np.unique(operator[rows], return_index=True)
    needed = topk_ns(found.bytes[each], m.limit("bandwidth")[rows][first])
    claim_ms = max(kernels.total_ms - per_step(m, needed), 0.0)
    evidence = [share(m, kernels.total_ms, "sorts of which the first few are taken")]
    evidence += [Evidence("sorted", text, "", "shape and what is taken") for text in found.examples[:EXAMPLES]]
    evidence += times(kernels.top)
    remedy = Remedy(ACTION, "replaced by topk", SCENARIO, name="faster_kernels")
    title = "All is sorted where only the first few are taken"
    yield Draft("sorted-whole", "memory", title, "compute", claim_ms, evidence, [remedy], rows)
