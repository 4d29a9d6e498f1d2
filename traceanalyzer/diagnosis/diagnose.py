"""From the rules' drafts to findings and recommendations: headroom settled once, ranked, worded alike.

All of it speaks of one step (`Measurements.step`): headroom is part of it, and every prediction starts from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.scenarios import Scenario, less_compute
from traceanalyzer.analysis.replay.whatif import SCENARIO_SPREAD
from traceanalyzer.diagnosis.classify import classify, too_few_ops
from traceanalyzer.diagnosis.culprit import culprit
from traceanalyzer.diagnosis.finding import AsMuchWork, Finding, Recommendation, Severity, Summary
from traceanalyzer.diagnosis.other_kind import other_kind
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.rules import RULES
from traceanalyzer.diagnosis.rules.device import GPU_BUSY
from traceanalyzer.diagnosis.shares import step_shares
from traceanalyzer.diagnosis.timing import timing_parts
from traceanalyzer.diagnosis.words import in_words_of, without_steps
from traceanalyzer.figures import digits
from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.draft import Draft, Remedy
    from traceanalyzer.diagnosis.finding import BottleneckClass, RemedyName
    from traceanalyzer.diagnosis.remedies.advice import Advice
    from traceanalyzer.trace import Bool

    Rule = Callable[[Measurements, Bool], Iterator[Draft]]

MIN_SHARE = 0.01
"""Findings that could win less than this share of the step are left out: it is within the spread of steps."""
MEDIUM_SHARE = 0.05
"""Findings of unknown headroom are told from this share of the step on; known ones are `medium` from here."""
HIGH_SHARE = 0.2
"""Findings from this share of the step on are `high`: worth a day's work."""
LARGE_SPEEDUP = 1.25
"""A change that gains a fifth of the step decides what is named first."""
OF_DEVICE = ("compute", "memory")
"""Classes of the GPU's own work."""
OF_HOST = ("launch", "sync", "host")
"""Classes of a device that waits for its host."""
LEAST_ADVISED = 0.02
"""Share of the step that what a rule proposes must be predicted to save, as with remedies."""
GAINS_LITTLE = 0.1
"""What gains less of the step than this gives way to the GPU's own work where that is the bottleneck."""
AT_MOST = 0.05
"""Share of the step that a remedy of a rule must save at most, where it is only known that it saves no more: what such
a bound allows is hardly ever reached."""
LEAST_TOUCHED = 0.1
"""Share of the step that kernels must take before a remedy of unknown gain is said for them: hardly more than half of
their time can be saved."""
BEYOND = 1.05
"""A change that gains this many times its finding's headroom gains from other findings, too, and says so."""


@dataclass(frozen=True)
class Diagnosis:
    """Verdict, findings by headroom, recommendations by predicted gain."""

    summary: Summary
    findings: list[Finding]
    recommendations: list[Recommendation]


def diagnose(m: Measurements, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Diagnose the process."""
    settled = [(draft, headroom) for draft, headroom in settle(m, rules) if _worth_telling(m, draft, headroom)]
    if too_few_ops(m):
        settled = [(draft, headroom) for draft, headroom in settled if headroom is None]
    settled.sort(key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True)
    advice = _advice(m, settled)
    summary = classify(m, [_worth_most(advice), _largest(m, settled)])
    findings = _findings(m, settled, summary.bottleneck)
    if not m.steps.found and not m.trace.only_step_times:
        findings, advice = [_of_recording(f) for f in findings], [_advised_of_recording(a) for a in advice]
    advice = [] if summary.bottleneck == "inconclusive" else _agreeing(advice, summary.bottleneck)
    whole = "the step" if m.steps.found else "the recording"
    apart = other_kind(summary, step_shares(m), advice[0] if advice else None, whole)
    across = [f"{f.title}." for f in findings if f.id == "straggler"]
    headline = " ".join(text for text in (summary.headline, apart, *across) if text)
    return Diagnosis(replace(summary, headline=headline, culprit=culprit(m, summary.bottleneck)), findings, advice)


def settle(m: Measurements, rules: Sequence[Rule] = RULES) -> list[tuple[Draft, float | None]]:
    """The rules' drafts, each with what it claims as far as its part of the step has not been given away already."""
    left, free = _parts_of_step(m), np.ones(len(m.trace.device_ops), bool)
    result: list[tuple[Draft, float | None]] = []
    for rule in rules:
        for draft in rule(m, free):
            if draft.claim_ms is not None and draft.claim_ms <= 0:
                continue
            if draft.rows is not None:
                free = free & ~draft.rows
            headroom = None if draft.claim_ms is None else min(draft.claim_ms, left.get(draft.part, 0.0))
            left[draft.part] = left.get(draft.part, 0.0) - (headroom or 0.0)
            result.append((draft, headroom))
    return result


def _parts_of_step(m: Measurements) -> dict[str, float]:
    budget, idle = m.step.budget, m.step.idle
    if budget is None or idle is None:
        return timing_parts(m)
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
        return headroom >= MIN_SHARE * m.step.step_ms
    share = draft.evidence[0].value
    return isinstance(share, str) or (isinstance(share, float) and share >= MEDIUM_SHARE)


def _agreeing(advice: list[Recommendation], cls: BottleneckClass) -> list[Recommendation]:
    """The advice with that on the GPU's own work, of which nothing is predicted, in front, where the verdict names
    that work, nothing that is predicted shortens it, and other changes gain little."""
    if not advice or any(one.cls in OF_DEVICE and one.predicted_step_ms is not None for one in advice):
        return advice
    if (advice[0].predicted_speedup or 1.0) * (1.0 - GAINS_LITTLE) >= 1.0:
        return advice
    unpredicted = [one.cls == cls and one.id == GPU_BUSY and one.predicted_step_ms is None for one in advice]
    return [a for a, first in zip(advice, unpredicted, strict=True) if first] + [
        a for a, first in zip(advice, unpredicted, strict=True) if not first
    ]


def _worth_most(advice: list[Recommendation]) -> BottleneckClass | None:
    """The class of the change that gains most, where that is a large part of the step."""
    predicted = [a for a in advice if a.predicted_speedup is not None]
    return predicted[0].cls if predicted and (predicted[0].predicted_speedup or 1.0) >= LARGE_SPEEDUP else None


def _largest(m: Measurements, settled: list[tuple[Draft, float | None]]) -> BottleneckClass | None:
    """The class of the finding with the most headroom, where that is a large part of the step; what is said of the
    GPU's own work does not compete, because its headroom is only a bound."""
    known = [(headroom, draft.cls) for draft, headroom in settled if headroom is not None and draft.id != GPU_BUSY]
    headroom, cls = max(known, key=lambda one: one[0], default=(0.0, None))
    return cls if headroom >= HIGH_SHARE * m.step.step_ms else None


def _findings(m: Measurements, settled: list[tuple[Draft, float | None]], bottleneck: BottleneckClass) -> list[Finding]:
    """The findings by headroom. That of the GPU's own work is only a bound, and told where the verdict names it."""
    unnamed = bottleneck == "inconclusive"
    told = [(d, None if d.id == GPU_BUSY and (d.cls != bottleneck or unnamed) else h) for d, h in settled]
    told.sort(key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True)
    return [_finding(m, draft, headroom) for draft, headroom in told]


def _finding(m: Measurements, draft: Draft, headroom: float | None) -> Finding:
    return Finding(draft.id, draft.cls, draft.title, _severity(m, headroom), headroom, draft.evidence)


def _of_recording(finding: Finding) -> Finding:
    """A finding in words for a recording without steps."""
    said = [replace(e, metric=without_steps(e.metric), where=without_steps(e.where)) for e in finding.evidence]
    return replace(finding, title=without_steps(finding.title), evidence=said)


def _advised_of_recording(advice: Recommendation) -> Recommendation:
    return replace(advice, action=without_steps(advice.action), basis=without_steps(advice.basis))


def _severity(m: Measurements, headroom: float | None) -> Severity:
    if headroom is None:
        return "info"
    share = headroom / m.step.step_ms if m.step.step_ms > 0 else 0.0
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"


def _advice(m: Measurements, settled: list[tuple[Draft, float | None]]) -> list[Recommendation]:
    """What to do, by the step that it is predicted to lead to. Where the step can be replayed, remedies speak for
    themselves, and the rules do not."""
    drafts = [draft for draft, _ in settled]
    offered = [advised for one in advise(m) if (advised := _of_remedy(m, one, drafts)) is not None]
    replayed = m.replay is not None and m.replay.faithful
    known = {remedy.id for remedy in REMEDIES} if replayed else set()
    wanted = [(d, r, h) for d, h in settled for r in d.remedies if _offered(m, d, r, known)]
    made = [recommendation for one in wanted if _worth_doing(m, recommendation := _recommendation(m, *one))]
    return sorted([*offered, *made], key=lambda one: one.predicted_step_ms or float("inf"))


def _of_remedy(m: Measurements, advice: Advice, drafts: list[Draft]) -> Recommendation | None:
    """A remedy as a recommendation; None where no finding says that there is anything to change, or the program's
    framework has no words for it. What needs other changes first, or makes a step do more, says what that leads to and
    is not ranked with changes that shorten the step."""
    remedy, p, against = advice.remedy, advice.prediction, _against(advice, drafts)
    if against is None:
        return None
    action = in_words_of(m.framework, against.id, advice.offer.action)
    if action is None:
        return None
    basis = f"replayed without the profiler: {p.basis}"
    said = advice.offer.told
    told = basis if p.step_ms is None or not said else f"{digits(p.step_ms)} ms for {said}; {basis}"
    more = AsMuchWork(p.step_ms, p.low_ms, p.high_ms, p.speedup) if advice.offer.aside and p.step_ms else None
    if not advice.offer.single:
        return Recommendation(against.id, against.cls, action, None, None, told, remedy.id, as_much_work=more)
    return Recommendation(against.id, against.cls, action, p.step_ms, p.speedup, told, remedy.id, p.low_ms, p.high_ms)


def _against(advice: Advice, drafts: list[Draft]) -> Draft | None:
    """The finding that a remedy is against: the one that it says itself, that names it, that it is usually against, or
    the first of its class; for kernels of any kind that on the GPU's own work. One on kernels whose time is hardly what
    is saved gives way to the largest on the host."""
    remedy, said = advice.remedy, advice.offer.against
    tests: tuple[Callable[[Draft], bool], ...] = (
        lambda d: said is not None and d.id == said[0],
        lambda d: any(r.name == remedy.id for r in d.remedies),
        lambda d: d.id == remedy.finding,
        lambda d: d.cls == (said[1] if said is not None else remedy.cls),
        lambda d: d.id == GPU_BUSY and remedy.cls in OF_DEVICE,
    )
    found = next((draft for test in tests for draft in drafts if test(draft)), None)
    if found is None or found.cls not in OF_DEVICE or remedy.cls == "communication" or not advice.for_host:
        return found
    return max((d for d in drafts if d.cls in OF_HOST), key=lambda d: d.claim_ms or 0.0, default=found)


def _offered(m: Measurements, draft: Draft, remedy: Remedy, known: set[RemedyName]) -> bool:
    """Whether a rule's remedy is said: no remedy of the list speaks for it, the program's framework has it, and it is
    neither about kernels of CUDA graphs, of which the recording has neither operators nor data, nor of unknown gain
    for kernels that take little of the step."""
    if draft.part == "compute" and not remedy.bound and (program(m).in_graphs or _touches_little(draft)):
        return False
    return (remedy.alone or remedy.name not in known) and _every_part_counts(m, remedy) and _has_words(m, draft, remedy)


def _touches_little(draft: Draft) -> bool:
    """Whether it is not known what can be saved of kernels that take a small share of the step."""
    share = draft.evidence[0].value
    return draft.claim_ms is None and isinstance(share, float) and share < LEAST_TOUCHED


def _has_words(m: Measurements, draft: Draft, remedy: Remedy) -> bool:
    """Whether the program's framework has what a remedy asks for."""
    return in_words_of(m.framework, draft.id + remedy.suffix, remedy.action) is not None


def _every_part_counts(m: Measurements, remedy: Remedy) -> bool:
    """Whether each of the remedies that this one combines would bring something on its own."""
    replay = m.replay
    if remedy.scenario is None or not remedy.scenario.parts or replay is None:
        return True
    return replay.faithful and all(replay.gain_ms(part) >= MIN_SHARE * replay.base_ms for part in remedy.scenario.parts)


def _worth_doing(m: Measurements, advice: Recommendation) -> bool:
    """Whether a remedy is predicted to shorten the step, or its gain is not known: what hides behind something longer
    gains nothing. Where the step can be replayed, and this change cannot, its gain is only bounded from above."""
    bounded = m.replay is not None and m.replay.faithful and not advice.basis.startswith("replayed")
    least = AT_MOST if bounded else LEAST_ADVISED
    return advice.predicted_speedup is None or advice.predicted_speedup * (1.0 - least) >= 1.0


def _recommendation(m: Measurements, draft: Draft, remedy: Remedy, headroom: float | None) -> Recommendation:
    base, basis = m.step.step_ms, remedy.basis
    step: float | None = None
    low: float | None = None
    high: float | None = None
    scenario = remedy.scenario or _shorter_compute(m, draft, headroom)
    if remedy.bound:
        pass
    elif scenario is not None and m.replay is not None and m.replay.faithful:
        prediction = m.replay.predict(scenario)
        step, low, high = prediction.step_ms, prediction.low_ms, prediction.high_ms
        basis = f"replayed without the profiler: {prediction.basis}{_beyond(base, step, headroom)}"
    elif headroom is not None and m.steps.found:
        step = max(base - headroom, remedy.least_ms) if headroom < base else None
        basis = f"not replayed; gains at most this: {basis}" if len(m.trace.api_calls) else basis
    if step is not None and low is None:
        low, high = step * (1.0 - SCENARIO_SPREAD), max(base, step * (1.0 + SCENARIO_SPREAD))
    speedup = base / step if step else None
    id_ = draft.id + remedy.suffix
    action = in_words_of(m.framework, id_, remedy.action) or remedy.action
    return Recommendation(id_, remedy.cls or draft.cls, action, step, speedup, basis, remedy.name, low, high)


def _beyond(base: float, step: float | None, headroom: float | None) -> str:
    """Why more is gained than the finding's headroom, where it is."""
    if step is None or headroom is None or base - step <= BEYOND * headroom:
        return ""
    return "; it gains more than the finding's headroom, because it also shortens what other findings count"


def _shorter_compute(m: Measurements, draft: Draft, headroom: float | None) -> Scenario | None:
    """The scenario of a finding on the computation: shorter by its headroom, the remedy's basis says why."""
    if draft.part != "compute" or not headroom or m.step.budget is None:
        return None
    basis = "; ".join(remedy.basis for remedy in draft.remedies)
    return Scenario(draft.id, less_compute(min(headroom / m.step.budget.compute, 1.0)), basis)
