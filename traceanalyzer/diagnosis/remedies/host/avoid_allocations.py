"""Memory allocated once instead of within the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import no_allocations
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "avoid_allocations",
    no_allocations,
    "no device or pinned memory is allocated or freed within the step",
    missing="no memory is allocated or freed within the steps",
)
PYTORCH = "no torch.cuda.empty_cache() in the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where sizes change"
OTHER = "a memory pool (cudaMallocAsync), or buffers made before the loop"


def offer(m: Measurements) -> Offer:
    """Wherever memory is allocated or freed within the steps."""
    return Offer(f"Allocate once: {PYTORCH if program(m).pytorch else OTHER}.", SCENARIO)


REMEDY = Remedy("avoid_allocations", "host", "host-work", offer)
