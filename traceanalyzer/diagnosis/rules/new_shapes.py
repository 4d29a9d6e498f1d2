"""Operators of cuDNN whose input shapes change: it prepares each new one on the host, within the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.new_shapes import new_shapes as find
from traceanalyzer.analysis.replay.changes.prepared import prepared_before
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

PREPARED = "convolution|cudnn"
"""Operators for which cuDNN chooses an algorithm and builds a plan: convolutions, and attention where it is cuDNN's."""

CUDNN_BENCHMARK = "cudnn.benchmark"
"""The condition that says whether each new convolution is tried with all algorithms, or a heuristic is asked."""

PREPARED_BEFORE = Scenario(
    "prepared_before",
    prepared_before(PREPARED),
    "these operators are ready when they are called: no long work of the host in them, nothing tried out",
)

FIXED_SHAPES = (
    "Keep the shapes of convolutions and attention: crop, pad or bucket the inputs, generate with a static KV cache. "
    "Where they must change, leave torch.backends.cudnn.benchmark off, and cuDNN out of attention: "
    "torch.backends.cuda.enable_cudnn_sdp(False)."
)


def new_shapes(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """cuDNN's operators get inputs of other shapes from step to step, and the GPU idles while the host is in them."""
    found = find(m, PREPARED)
    if found is None or m.step.idle is None or m.idle is None or m.idle.host <= 0:
        return
    idle_ms = found.idle_ms * m.step.idle.host / m.idle.host
    setting = next((c.value for c in m.trace.conditions if c.name == CUDNN_BENCHMARK), "not known")
    evidence = [
        Evidence("operators whose shapes change", ", ".join(found.operators), "", "steady state"),
        Evidence("idle during CPU work in them", found.idle_ms, "ms", "per recorded step"),
        Evidence("steps with other shapes than the one before", found.changed, "", f"of {found.steps} steady steps"),
        Evidence("shapes", found.shapes, "", "in the steady steps"),
        Evidence(CUDNN_BENCHMARK, setting, "", "conditions of the recording"),
    ]
    yield Draft(
        "new-shapes",
        "host",
        "Changing input shapes make cuDNN re-plan inside the step",
        "idle.host",
        idle_ms,
        evidence,
        [Remedy(FIXED_SHAPES, PREPARED_BEFORE.basis, PREPARED_BEFORE, name="fixed_shapes")],
    )
