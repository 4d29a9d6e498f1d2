"""Work of the host between launches: moved away, allocations avoided, shapes kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.new_shapes import new_shapes
from traceanalyzer.analysis.replay.loading import no_allocations
from traceanalyzer.analysis.replay.scenarios import Scenario, no_host_work
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.diagnosis.rules.new_shapes import FIXED_SHAPES as FIX_SHAPES
from traceanalyzer.diagnosis.rules.new_shapes import PREPARED, PREPARED_BEFORE

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

MOVED = Scenario("move_host_work", no_host_work, "no host work between launches but dispatch")
NOT_ALLOCATED = Scenario(
    "avoid_allocations",
    no_allocations,
    "no device or pinned memory is allocated or freed within the step",
    missing="no memory is allocated or freed within the steps",
)
MOVE = (
    "Take Python work out of the step: logging, metrics and I/O to another thread or once every 100 steps; record "
    "with_stack=True to see the lines."
)
AVOID = "Allocate once: reuse buffers, and keep the caching allocator from freeing (no torch.cuda.empty_cache(); "
SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where sizes change)."


def _move(m: Measurements) -> Offer | None:
    """Where the host works for long stretches between launches."""
    return Offer(MOVE, MOVED) if m.step.idle is not None and m.step.idle.host > 0 else None


def _avoid(m: Measurements) -> Offer:
    """Where memory is allocated or freed within the steps."""
    how = AVOID + SEGMENTS if program(m).pytorch else "Allocate once, outside of the step: a pool, or buffers reused."
    return Offer(how, NOT_ALLOCATED)


def _fix(m: Measurements) -> Offer | None:
    """Where cuDNN gets operators of new shapes from step to step."""
    return Offer(FIX_SHAPES, PREPARED_BEFORE) if new_shapes(m, PREPARED) is not None else None


MOVE_HOST_WORK = Remedy("move_host_work", "host", "host-work", _move)
AVOID_ALLOCATIONS = Remedy("avoid_allocations", "host", "host-work", _avoid)
FIXED_SHAPES = Remedy("fixed_shapes", "host", "new-shapes", _fix)
