"""Findings and advice as an agent is told them."""

from typing import Any

from traceanalyzer.agent.answer import rounded_figure, sourced_figure
from traceanalyzer.diagnosis.finding import Finding, Recommendation
from traceanalyzer.report.brief import brief

MOST_OF_A_SENTENCE = 900  # characters: the longest list of assumptions has 700
REPLAYED = "replay of the recording without the profiler's cost"


def quoted_sentence(text: str) -> str:
    """A sentence of the report on one line; names of the recording in it are shortened by the
    report itself."""
    return brief(" ".join(text.split()), MOST_OF_A_SENTENCE)


def finding_of(finding: Finding, gain_ms: float | None = None) -> dict[str, Any]:
    """A finding with its headroom; where others count it, with what its advice gains."""
    how = "upper bound: time that removing the cause would save, counted once over all findings"
    ms = finding.headroom_ms
    if ms is None:
        ms = gain_ms
        how = "cannot be known from this recording" if ms is None else "what its advice gains"
    headroom = sourced_figure(ms, "ms per step", how)
    known = {"id": finding.id, "class": finding.cls, "severity": finding.severity}
    return {**known, "title": quoted_sentence(finding.title), "headroom": headroom}


def advice_of(advice: Recommendation) -> dict[str, Any]:
    """A change with the step that is predicted with it."""
    more = advice.as_much_work or advice.together
    how = quoted_sentence(advice.basis)
    unit = "ms for as much work as a step does now" if advice.as_much_work else "ms per step"
    if advice.together:
        unit = f"ms per step, with {', '.join(advice.together.remedies)} too"
    value, low, high = advice.likely_ms if more is None else more.likely_ms
    predicted = {
        "predicted": sourced_figure(value, unit, how),
        "range_ms": [rounded_figure(low), rounded_figure(high)],
        "speedup": rounded_figure(more.speedup if more else advice.predicted_speedup),
    }
    change = {"id": advice.id, "remedy": advice.remedy, "do": advice.action}
    return {**change, "effort": advice.effort, **predicted}
