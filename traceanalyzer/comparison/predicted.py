"""What A's report predicted for the change that B has, beside what B then took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.comparison.model import Predicted

if TYPE_CHECKING:
    from traceanalyzer.comparison.model import Change, Side
    from traceanalyzer.diagnosis.finding import Recommendation
    from traceanalyzer.report.model import Report

CLASS_OF_PART = {"exposed_communication": "communication", "exposed_copy": "transfer"}
"""Parts of the budget whose findings have one class; of idle time it is the cause, and compute has several."""
GRAPH = "cuda_graph"
GRAPH_LAUNCHES = "launches.graph_launches"


def predicted_for(a: Report, b: Report, sides: tuple[Side, Side], changes: list[Change]) -> Predicted | None:
    """The prediction of A's report for the remedy that B shows; None where none is told by what became shorter.

    That is the remedy of the class whose time shrank most; a CUDA graph where B launches graphs and A did not. A step
    that became longer was not what any of them was about.
    """
    before, after = sides[0].unprofiled_step_ms, sides[1].unprofiled_step_ms
    shrunk = [c for c in changes if c.significant and c.difference_ms < 0]
    if not shrunk or before is None or after is None or after >= before or sides[1].unprofiled_source != "measured":
        return None
    if a.summary.basis != "unprofiled":
        return None
    largest = min(shrunk, key=lambda change: change.difference_ms)
    cls = largest.cls if largest.part == "idle" else CLASS_OF_PART.get(largest.part)
    new_graph = _launches_graphs(b) and not _launches_graphs(a)
    found = next((r for r in a.recommendations if _is_it(a, r, cls, new_graph)), None)
    if found is None or found.predicted_step_ms is None:
        return None
    return Predicted(found.id, found.action, found.predicted_step_ms, found.low_ms, found.high_ms, after)


def _is_it(a: Report, advice: Recommendation, cls: str | None, new_graph: bool) -> bool:
    """Whether the advice is for one finding of this class, and a graph where there is a new one."""
    alone = advice.id in {finding.id for finding in a.findings}
    return alone and advice.cls == cls and (advice.remedy == GRAPH) == new_graph


def _launches_graphs(report: Report) -> bool:
    figure = figures_by_path(report).get(GRAPH_LAUNCHES)
    return bool(figure is not None and figure.value)
