"""From the rules' drafts to findings and recommendations: headroom settled once, ranked, worded alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import Scenario, less_compute
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.finding import Finding, Recommendation, Severity, Summary
from traceanalyzer.diagnosis.rules import RULES
from traceanalyzer.diagnosis.timing import timing_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.draft import Draft, Remedy

MIN_SHARE = 0.01
"""Findings that could win less than this share of the step are left out: it is within the spread of steps."""
MEDIUM_SHARE = 0.05
"""Findings of unknown headroom are told from this share of the step on; known ones are `medium` from here."""
RANGE_SHARE = 0.02
"""Ranges of predictions narrower than this share of the step are not worth reading."""
HIGH_SHARE = 0.2
"""Findings from this share of the step on are `high`: worth a day's work."""


@dataclass(frozen=True)
class Diagnosis:
    """Verdict, findings by headroom, recommendations by predicted gain."""

    summary: Summary
    findings: list[Finding]
    recommendations: list[Recommendation]


def diagnose(m: Measurements, more: Iterable[Draft] = ()) -> Diagnosis:
    """Diagnose the process; `more` are drafts from outside it (comparison of ranks), which go first."""
    drafts = [*more, *(draft for rule in RULES for draft in rule(m))]
    settled = [(draft, headroom) for draft, headroom in _settle(m, drafts) if _worth_telling(m, draft, headroom)]
    settled.sort(key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True)
    findings = [_finding(m, draft, headroom) for draft, headroom in settled]
    summary = classify(m)
    known = summary.bottleneck != "inconclusive"
    advised = [(d, r, h) for d, h in settled for r in d.remedies if _every_part_counts(m, r)] if known else []
    advice = [a for a in (_advice(m, *one) for one in advised) if _worth_doing(a)]
    advice.sort(key=lambda a: float("inf") if a.predicted_step_ms is None else a.predicted_step_ms)
    across = [f.title for f in findings if f.id == "straggler"]
    return Diagnosis(
        replace(summary, headline=" ".join([summary.headline, *(f"{t}." for t in across)])), findings, advice
    )


def _settle(m: Measurements, drafts: list[Draft]) -> list[tuple[Draft, float | None]]:
    """Give each draft what it claims as far as its part of the step has not been given away already."""
    left = _parts_of_step(m)
    result: list[tuple[Draft, float | None]] = []
    for draft in drafts:
        if draft.claim_ms is None:
            result.append((draft, None))
            continue
        headroom = min(draft.claim_ms, left.get(draft.part, 0.0))
        left[draft.part] = left.get(draft.part, 0.0) - headroom
        result.append((draft, headroom))
    return result


def _parts_of_step(m: Measurements) -> dict[str, float]:
    if m.budget is None or m.idle is None:
        return timing_parts(m)
    budget, idle = m.budget, m.idle
    return {
        "compute": budget.compute,
        "exposed_communication": budget.exposed_communication,
        "exposed_copy": budget.exposed_copy,
        "idle.launch": idle.launch,
        "idle.sync": idle.sync,
        "idle.input": idle.input,
        "idle.host": idle.host,
        "idle.communication": idle.communication,
        "idle.profiler": idle.profiler,
        "idle.other": idle.other,
    }


def _worth_telling(m: Measurements, draft: Draft, headroom: float | None) -> bool:
    """Whether a finding is large enough; one without known headroom goes by its evidence's
    share, or is a plain fact (text) about the recording."""
    if headroom is not None:
        return headroom >= MIN_SHARE * m.mean_step_ms
    share = draft.evidence[0].value
    return isinstance(share, str) or (isinstance(share, float) and share >= MEDIUM_SHARE)


def _every_part_counts(m: Measurements, remedy: Remedy) -> bool:
    """Whether each of the remedies that this one combines would bring something on its own."""
    if remedy.scenario is None or m.replay is None:
        return True
    enough = (1.0 - MIN_SHARE) * m.replay.base_ms
    predicted = [m.replay.predict(part).step_ms for part in remedy.scenario.parts]
    return all(step is not None and step <= enough for step in predicted)


def _worth_doing(advice: Recommendation) -> bool:
    """Whether a remedy is predicted to shorten the step, or its gain is not known: what hides behind something longer
    gains nothing."""
    return advice.predicted_speedup is None or advice.predicted_speedup * (1.0 - MIN_SHARE) >= 1.0


def _finding(m: Measurements, draft: Draft, headroom: float | None) -> Finding:
    return Finding(draft.id, draft.cls, draft.title, _severity(m, headroom), headroom, draft.evidence)


def _severity(m: Measurements, headroom: float | None) -> Severity:
    if headroom is None:
        return "info"
    share = headroom / m.mean_step_ms
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"


def _advice(m: Measurements, draft: Draft, remedy: Remedy, headroom: float | None) -> Recommendation:
    step: float | None = None
    base, basis = m.mean_step_ms, remedy.basis
    scenario = remedy.scenario or _shorter_compute(m, draft, headroom)
    if scenario is not None and m.replay is not None and m.replay.faithful:
        prediction = m.replay.predict(scenario)
        base, step = m.replay.base_ms, prediction.step_ms
        basis = f"replayed without the profiler: {prediction.basis}"
        low, high = prediction.low_ms, prediction.high_ms
        if low is not None and high is not None and high - low > RANGE_SHARE * base:
            basis += f" (range {low:.3g} to {high:.3g} ms)"
    elif headroom is not None and m.steps.found:
        base, step = m.unprofiled_step_ms or base, _bound_ms(m, draft, headroom)
        basis = f"not replayed; gains at most this: {basis}" if m.replay is not None else basis
    speedup = base / step if step else None
    return Recommendation(draft.id + remedy.suffix, draft.cls, remedy.action, step, speedup, basis)


def _bound_ms(m: Measurements, draft: Draft, headroom: float) -> float | None:
    """The least that a step without the profiler can take without what a finding names, ms; None where that is nothing.

    The profiler makes the device idle longer: without it there is no more idle time to win than lies beside the work.
    """
    if m.unprofiled_step_ms is None:
        return m.mean_step_ms - headroom
    least = m.unprofiled_step_ms - headroom
    if m.budget is not None and draft.part.startswith("idle."):
        least = max(least, m.mean_step_ms - m.budget.idle)
    return least if least > 0 else None


def _shorter_compute(m: Measurements, draft: Draft, headroom: float | None) -> Scenario | None:
    """The scenario of a finding on the computation: shorter by its headroom, the remedy's basis says why."""
    if draft.part != "compute" or not headroom or m.budget is None:
        return None
    basis = "; ".join(remedy.basis for remedy in draft.remedies)
    return Scenario(draft.id, less_compute(headroom / m.budget.compute), basis)
