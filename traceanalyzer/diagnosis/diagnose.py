"""From the rules' drafts to findings and recommendations: headroom settled once, ranked, worded
alike.

All of it speaks of one step (`Measurements.step`): headroom is part of it, and every prediction
starts from it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.base import span
from traceanalyzer.diagnosis.classify import classify, too_few_ops
from traceanalyzer.diagnosis.compile.reported import IN_EACH_STEP, on_compile
from traceanalyzer.diagnosis.culprit import culprit
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import (
    GPU_BUSY,
    HIGH_SHARE,
    MEDIUM_SHARE,
    BottleneckClass,
    Diagnosis,
    Finding,
    Recommendation,
    Summary,
    begins_with_id,
    severity_of,
)
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.outside import IDLE_CLASSES, outside_cause
from traceanalyzer.diagnosis.rank_costs import STRAGGLER, held_up
from traceanalyzer.diagnosis.ranking import ranked_advice, rated_findings, with_reason
from traceanalyzer.diagnosis.recommend import gpu_work_first, recommendations_of
from traceanalyzer.diagnosis.remedies.host import with_hidden_waits
from traceanalyzer.diagnosis.rules import RULES, nccl
from traceanalyzer.diagnosis.rules.device import UNDERSIZED
from traceanalyzer.diagnosis.rules.timing import timing_parts
from traceanalyzer.diagnosis.shares import step_shares
from traceanalyzer.trace import Bool

Rule = Callable[[Measurements, Bool], Iterator[Draft]]
Settled = list[tuple[Draft, float | None]]  # drafts, each with the headroom that is left to it, ms

MIN_SHARE = 0.01
"""Findings that could save less than this share of the step are left out: that much is within the
spread of steps."""
WITHOUT_VERDICT = (
    UNDERSIZED,
    "gpus-by-turns",
    "slow-input",
    "kv-cache-full",
    "requests-queue",
    "requests-preempted",
    "decodes-without-graphs",
    "late-first-token",
    "guesses-rejected",
    *nccl.FINDINGS,
)
"""Findings whose advice is given although no class of the step is named."""
LARGE_SPEEDUP = 1.25  # a change that gains a fifth of the step decides what is named first


def diagnose(m: Measurements, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Diagnose the process."""
    settled = _by_headroom(
        [
            (draft, headroom)
            for draft, headroom in allocate_headroom(m, rules)
            if _counts(m, draft, headroom)
        ]
    )
    advice = recommendations_of(m, settled)
    best_first = ranked_advice(advice, m.step.step_ms)
    worth_most = next((one.cls for one in best_first if _pays(one)), None)
    summary = classify(m, [worth_most, _largest(m, settled)])
    advice = [one for one in advice if _stands(m, summary, one)]
    advice = gpu_work_first(advice, summary.bottleneck)
    lifted = _lifted(settled, _gains(settled, advice, m.step.step_ms), m.step.step_ms)
    compiled = m.memo(on_compile)
    findings = [*_findings(m, settled, lifted, summary.bottleneck), *compiled.findings]
    advice = ranked_advice([*advice, *compiled.recommendations], m.step.step_ms)
    advice = sorted(advice, key=lambda one: not one.id.startswith(IN_EACH_STEP))
    advice = with_reason(advice, summary, _idle_ms(m, summary.bottleneck))
    advice = with_hidden_waits(m, advice)
    findings = rated_findings(findings, advice, summary.step_ms)
    diagnosis = Diagnosis(summary, findings, advice)
    headline = " ".join([summary.headline, *_across(m, diagnosis)[:1]])
    named = replace(summary, headline=headline, culprit=culprit(m, summary.bottleneck))
    return replace(diagnosis, summary=named)


def _across(m: Measurements, diagnosis: Diagnosis) -> list[str]:
    """What the headline adds: who holds up the run, what each step compiles, slow steps."""
    cost = held_up(m, diagnosis).cost(diagnosis.summary.step_ms)
    of_run = [one for one in diagnosis.findings if one.id in (STRAGGLER, *IN_EACH_STEP)]
    sentences = []
    for finding in of_run:
        costs = f" ({cost})" if cost and finding.id == STRAGGLER else ""
        sentences.append(f"{finding.title}{costs}.")
    return sentences + _kinds(m, diagnosis.summary)


def _idle_ms(m: Measurements, cause: str) -> float:
    """Idle time of a cause in the step that is spoken of; 0 of a class that is none."""
    idle = m.step.idle
    return 0.0 if idle is None else float(vars(idle).get(cause, 0.0))


def _pays(advice: Recommendation) -> bool:
    """Whether a change surely gains enough to decide what is named first."""
    return not advice.may_not_help and (advice.predicted_speedup or 1.0) >= LARGE_SPEEDUP


def _stands(m: Measurements, summary: Summary, advice: Recommendation) -> bool:
    """Whether advice goes with the verdict: without one only that on kernels too small for the GPU
    does, and that on GPUs that work by turns."""
    if summary.bottleneck == "inconclusive":
        return any(begins_with_id(advice.id, finding) for finding in WITHOUT_VERDICT)
    return not m.memo(outside_cause) or advice.cls not in IDLE_CLASSES


def _kinds(m: Measurements, summary: Summary) -> list[str]:
    """That some of the recorded steps are slow, where they are of two kinds; iterations of a server
    are, by phase."""
    kinds = m.kinds
    if (
        kinds is None
        or m.iterations
        or m.trace.only_step_times
        or summary.bottleneck == "inconclusive"
    ):
        return []
    slow = f"{span(kinds.slow_ms)} instead of {span(kinds.fast_ms, kinds.slow_ms)}"
    return [f"{kinds.slow_share:.0%} of the recorded steps are slow: {slow}."]


def allocate_headroom(m: Measurements, rules: Sequence[Rule] = RULES) -> Settled:
    """The rules' drafts, each with what it claims as far as its part of the step has not been given
    away already."""
    left = _parts_of_step(m)
    free = np.ones(len(m.trace.device_ops), bool)
    result: Settled = []
    for rule in rules:
        for draft in rule(m, free):
            claim_ms = draft.claim_ms
            if claim_ms is not None and claim_ms <= 0:
                continue
            if draft.rows is not None:
                free = free & ~draft.rows
            headroom_ms = None
            if claim_ms is not None:
                left_ms = left.get(draft.part, 0.0)
                headroom_ms = min(claim_ms, left_ms)
                left[draft.part] = left_ms - headroom_ms
            result.append((draft, headroom_ms))
    return result


def _parts_of_step(m: Measurements) -> dict[str, float]:
    budget = m.step.budget
    idle = m.step.idle
    if budget is None or idle is None:
        return timing_parts(m)
    parts = {
        name: getattr(budget, name) for name in ("compute", "exposed_communication", "exposed_copy")
    }
    causes = ("launch", "sync", "input", "host", "communication", "profiler", "other")
    return parts | {f"idle.{cause}": getattr(idle, cause) for cause in causes}


def _counts(m: Measurements, draft: Draft, headroom: float | None) -> bool:
    """Whether a finding is large enough, by its headroom or its evidence's share; a text is a plain
    fact."""
    if headroom is not None:
        return headroom >= MIN_SHARE * m.step.step_ms
    share = draft.evidence[0].value
    return isinstance(share, str) or (isinstance(share, float) and share >= MEDIUM_SHARE)


def _by_headroom(settled: Settled) -> Settled:
    return sorted(settled, key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True)


def _gains(
    settled: Settled, advice: Sequence[Recommendation], step_ms: float
) -> list[float | None]:
    """What advice on each finding gains, ms. None where all together would be more than the step:
    advice on it gains what others count."""
    gains: list[float | None] = [0.0] * len(settled)
    for recommended in advice:
        index = _finding_of(settled, recommended)
        if index is None or recommended.predicted_step_ms is None:
            continue
        gain = step_ms - recommended.predicted_step_ms
        before = gains[index]
        if before is not None and gain > before:
            total = sum(filter(None, gains)) - before + gain
            gains[index] = gain if total <= step_ms else None
    return gains


def _finding_of(settled: Settled, advice: Recommendation) -> int | None:
    """Which of the findings with headroom the advice is against; None where it is none of them."""
    known = (
        i
        for i, (draft, headroom) in enumerate(settled)
        if headroom is not None and begins_with_id(advice.id, draft.id)
    )
    return next(known, None)


def _lifted(settled: Settled, gains: Sequence[float | None], step_ms: float) -> list[float | None]:
    """Headrooms, ms: none below what advice on the finding gains; what that takes from other
    findings is no longer theirs. None where that is more than others leave."""
    known = [
        (headroom or 0.0, gain)
        for (_, headroom), gain in zip(settled, gains, strict=True)
        if gain is not None
    ]
    wanted = sum(max(headroom, gain) for headroom, gain in known)
    spare = wanted - sum(gain for _, gain in known)
    over = max(wanted - step_ms, 0.0)
    kept = 1.0 - min(over / spare, 1.0) if spare > 0 else 1.0
    return [
        None if headroom is None or gain is None else gain + kept * max(headroom - gain, 0.0)
        for (_, headroom), gain in zip(settled, gains, strict=True)
    ]


def _largest(m: Measurements, settled: Settled) -> BottleneckClass | None:
    """The class of the finding with most headroom, where that is large; that of the GPU's own work
    is only a bound."""
    known = [
        (headroom, draft.cls)
        for draft, headroom in settled
        if headroom is not None and draft.id != GPU_BUSY
    ]
    headroom, cls = max(known, key=lambda one: one[0], default=(0.0, None))
    return cls if headroom >= HIGH_SHARE * m.step.step_ms else None


def _findings(
    m: Measurements,
    settled: Settled,
    lifted: Sequence[float | None],
    bottleneck: BottleneckClass,
) -> list[Finding]:
    """With their headroom; of idle time by something outside or few ops, and of GPU work not in the
    verdict, it is unknown. What it would be alone says how severe a finding is whose headroom others
    count."""
    unnamed = bottleneck == "inconclusive"
    promised = not m.memo(outside_cause) and not too_few_ops(m, m.memo(step_shares))

    def known(draft: Draft) -> bool:
        bound = draft.id == GPU_BUSY and (draft.cls != bottleneck or unnamed)
        return not bound and (promised or draft.cls not in IDLE_CLASSES)

    return [
        _finding(m, draft, alone, headroom) if known(draft) else _finding(m, draft, None, None)
        for (draft, alone), headroom in zip(settled, lifted, strict=True)
    ]


def _finding(m: Measurements, draft: Draft, alone: float | None, headroom: float | None) -> Finding:
    """A draft with what removing its cause saves, ms; `alone`: what it would be without others."""
    costs = alone if headroom is None else headroom
    severity = severity_of(costs and costs / max(costs, m.step.step_ms))
    return Finding(draft.id, draft.cls, draft.title, severity, headroom, draft.evidence)
