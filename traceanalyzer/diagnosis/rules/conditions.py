"""Findings on the measurement itself: conditions that spoil it, and what the profiler cost. Nothing to win in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.figures import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

PROFILER_COST = 0.2
"""From here on the recorded step is another one than the program's: its host time has grown by a fifth."""


def spoiled(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """A condition of the recording makes its figures those of something else."""
    for condition in m.trace.conditions:
        if condition.spoils:
            name = "-".join(condition.name.lower().replace(".", " ").replace("_", " ").split())
            evidence = [Evidence(condition.name, condition.value, "", "conditions of the recording")]
            yield Draft(f"condition-{name}", "inconclusive", f"Caveat: {condition.spoils}", "none", None, evidence)


def profiler_cost(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The recorded step is much slower than the same step without the profiler."""
    timed = m.unprofiled_time
    if timed is None or m.mean_step_ms <= (1 + PROFILER_COST) * timed.step_ms:
        return
    plain = timed.step_ms
    evidence = [
        Evidence("profiler's cost", m.mean_step_ms / plain - 1, "share", "of the unprofiled step", PROFILER_COST),
        Evidence("recorded step", m.mean_step_ms, "ms", "mean of the steady state"),
        Evidence("unprofiled step", plain, "ms", "median"),
    ]
    yield Draft(
        "profiler-cost", "inconclusive", "The profiler slows the recorded steps markedly", "none", None, evidence
    )


def profiler_note(m: Measurements) -> str | None:
    """What the profiler cost, in a sentence; None where the unprofiled step time is not known."""
    if m.unprofiled_time is None:
        return None
    plain = m.unprofiled_time.step_ms
    cost = m.mean_step_ms / plain - 1
    what = f"slowed the step by {cost:.1%}" if cost >= 0 else "did not slow the step"
    return f"Profiling {what}: {digits(plain, 4)} ms without, {digits(m.mean_step_ms, 4)} ms with."
