"""Finding on computation in kernels that no rule knows: what limits them is not guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.bounds import unknown_kernels, unknown_share
from traceanalyzer.analysis.groups.counters import busy_counters
from traceanalyzer.diagnosis.draft import Draft, share, times
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

MIN_SHARE = 0.2
"""Less of the computation changes no verdict."""


def unknown_work(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Kernels whose limit neither a model, nor counters, nor their names tell."""
    unknown = unknown_share(m)
    if m.step.budget is None or unknown < MIN_SHARE:
        return
    time = unknown * m.step.budget.compute
    evidence = [
        share(m, time, "computation in kernels of no known kind"),
        *times(unknown_kernels(m)),
        *(
            Evidence(name, mean, "", f"mean of {samples:,} samples while the GPU was busy")
            for name, mean, samples in busy_counters(m)
        ),
        Evidence("next step", "traceanalyzer collect ncu, then analyze --ncu", "", "measures what limits each kernel"),
    ]
    what = "What limits these kernels is not known: profile them with Nsight Compute (ncu)"
    yield Draft("unknown-kernels", "inconclusive", what, "none", None, evidence)
