"""What to do, by the step that it leads to: remedies where that can be replayed, else what the
rules propose."""

import math
from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.base import ratio
from traceanalyzer.diagnosis.draft import Draft, Proposal
from traceanalyzer.diagnosis.finding import (
    BOUNDED,
    GPU_BUSY,
    REPLAYED,
    AfterOthers,
    AsMuchWork,
    BottleneckClass,
    Recommendation,
)
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.diagnosis.remedies.advice import Advice, advise
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.rules.device import UNDERSIZED
from traceanalyzer.diagnosis.serving.outlook import HOST_CLASSES, for_server
from traceanalyzer.replay.bounds import less_compute
from traceanalyzer.replay.prediction import BETWEEN, Prediction
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.whatif import MOST_SPEEDUP, SCENARIO_SPREAD, Replay

DEVICE_CLASSES = ("compute", "memory")  # classes of the GPU's own work
REMEDY_IDS = frozenset(remedy.id for remedy in REMEDIES)
MORE_AT_A_TIME = frozenset({"larger_batch", "batch_calls", "batched_matmul"})
"""Remedies that give kernels which leave most of the GPU empty more to do."""
MIN_SAVED_SHARE = 0.02
"""Share of the step that what a rule proposes must be predicted to save, as with remedies."""
MIN_PART_SHARE = 0.01
"""Share of the step that each part of a combined change must save on its own: less is within the
spread of steps."""
SMALL_GAIN_SHARE = 0.1
"""What gains less of the step than this gives way to the GPU's own work where that is the
bottleneck."""
LEAST_WITHOUT_FINDING = {"launch": 0.3, "compute": 0.1, "sync": 0.05, "transfer": 0.05}
"""What saves such a share of the step is advised although no finding is of its class."""
MIN_BOUND_SHARE = 0.05
"""Share of the step that a proposal must save whose gain is only bounded: such a bound is hardly
ever reached."""
BEYOND_COPIES = 2.0
"""A change that saves so many times what copies take is against what the host does with them."""
MIN_TOUCHED_SHARE = 0.1
"""Share of the step that kernels of unknown gain must take: hardly more than half of it can be
saved."""


def recommendations_of(
    m: Measurements, settled: Sequence[tuple[Draft, float | None]]
) -> list[Recommendation]:
    """What to do, by the predicted step. Where it can be replayed, remedies speak for themselves,
    and rules do not."""
    drafts = [draft for draft, _ in settled]
    offered = list(filter(None, (_of_remedy(m, one, drafts) for one in m.memo(advise))))
    known = frozenset() if m.faithful_replay is None else REMEDY_IDS
    proposed = (
        _of_proposal(m, d, p, h)
        for d, h in settled
        for p in d.proposals
        if _is_offered(m, d, p, known)
    )
    kept = [
        one for one in filter(None, proposed) if _is_worth_it(m, one) and not _is_said(one, offered)
    ]
    return sorted(
        for_server(m, [*offered, *kept], drafts), key=lambda one: one.predicted_step_ms or math.inf
    )


def gpu_work_first(advice: list[Recommendation], cls: BottleneckClass) -> list[Recommendation]:
    """The advice with that on the GPU's own work, of which nothing is predicted, in front, where
    the verdict names that work, nothing that is predicted shortens it, and other changes gain
    little."""
    if not advice or any(
        one.cls in DEVICE_CLASSES and one.predicted_step_ms is not None for one in advice
    ):
        return advice
    if (advice[0].predicted_speedup or 1.0) * (1.0 - SMALL_GAIN_SHARE) >= 1.0:
        return advice
    return sorted(
        advice,
        key=lambda one: (
            not (one.cls == cls and one.id == GPU_BUSY and one.predicted_step_ms is None)
        ),
    )


def _of_remedy(m: Measurements, advice: Advice, drafts: Sequence[Draft]) -> Recommendation | None:
    """A remedy as a recommendation; None where no finding says that there is anything to change, or
    the program's framework has no words for it. What needs other changes first, or makes a step do
    more, says what that leads to and is not ranked with changes that shorten the step."""
    offer = advice.offer
    p = advice.prediction
    against = _against(advice, drafts, m.step.step_ms)
    if against is None:
        return None
    framework = m.joined.framework
    either = (words for words in (offer.action, against.words) if words and words.of(framework))
    words = next(either, None)
    if words is None:
        return None
    basis = f"{REPLAYED}: {p.basis}"
    action = words.of(framework) or ""
    unranked = Recommendation(
        against.id, against.cls, action, None, None, basis, advice.remedy.id, effort=words.effort
    )
    if offer.single:
        return replace(
            unranked,
            predicted_step_ms=p.step_ms,
            predicted_speedup=p.speedup,
            low_ms=p.low_ms,
            high_ms=p.high_ms,
        )
    if not p.step_ms:
        return unranked
    if offer.changes_work:
        more = AsMuchWork(p.step_ms, p.low_ms, p.high_ms, p.speedup)
        return replace(unranked, as_much_work=more)
    first = offer.first
    alone_ms = first and m.replay and m.replay.predict(first).step_ms
    all_changes = AfterOthers(
        list(offer.after), p.step_ms, p.low_ms, p.high_ms, p.speedup, alone_ms or None
    )
    return replace(unranked, together=all_changes)


def _against(advice: Advice, drafts: Sequence[Draft], step_ms: float) -> Draft | None:
    """The finding that a remedy is against: the usual one. One on kernels whose time is hardly what
    is saved gives way to the largest on the host, and so does one on copies that takes less time
    than is saved. Without any, fewer calls spare what the host does in them, waits, too, and without
    waits the host comes sooner to the next launch."""
    cls = advice.remedy.cls
    usual = _usually_against(advice, drafts)
    saved_ms = step_ms - (advice.prediction.step_ms or step_ms)
    if usual is None:
        least = LEAST_WITHOUT_FINDING.get(cls)
        spares_calls = least is not None and saved_ms >= least * step_ms
        return _largest_on_host(drafts, None) if spares_calls else None
    if not advice.for_host or cls == "communication":
        return usual
    beyond_copies = usual.cls == "transfer" and saved_ms > BEYOND_COPIES * (usual.claim_ms or 0.0)
    gives_way = usual.cls in DEVICE_CLASSES or beyond_copies
    return _largest_on_host(drafts, usual) if gives_way else usual


def _usually_against(advice: Advice, drafts: Sequence[Draft]) -> Draft | None:
    """The finding that a remedy states itself, that names it, that it is usually against, or the
    first of its class; for kernels of any kind that on the GPU's own work."""
    remedy = advice.remedy
    stated, cls = advice.offer.against or ("", remedy.cls)
    by_id = {draft.id: draft for draft in reversed(drafts)}
    # Kernels too small for the GPU need more work, not other kernels.
    by_class = {draft.cls: draft for draft in reversed(drafts) if draft.id != UNDERSIZED}
    by_proposal = {one.name: draft for draft in reversed(drafts) for one in draft.proposals}
    on_device = by_id.get(GPU_BUSY) if remedy.cls in DEVICE_CLASSES else None
    either = (
        by_id.get(stated),
        by_proposal.get(remedy.id),
        by_id.get(remedy.finding),
        by_class.get(cls),
        on_device,
    )
    return next(filter(None, either), None)


def _largest_on_host(drafts: Sequence[Draft], first: Draft | None) -> Draft | None:
    on_host = [draft for draft in drafts if draft.cls in HOST_CLASSES]
    return max(on_host, key=lambda draft: draft.claim_ms or 0.0, default=first)


def _is_offered(m: Measurements, draft: Draft, proposal: Proposal, known: frozenset[str]) -> bool:
    """Whether a proposal is shown: no remedy of the list speaks for it, and it is neither about
    kernels of CUDA graphs, of which the recording has neither operators nor data, nor of unknown
    gain for kernels that take little of the step; and each of the changes that it combines would
    bring something on its own."""
    share = draft.evidence[0].value
    replay = m.replay
    little = draft.claim_ms is None and isinstance(share, float) and share < MIN_TOUCHED_SHARE
    if draft.part == "compute" and not proposal.bound and (program(m).in_graphs or little):
        return False
    if proposal.name in known and not proposal.alone:
        return False
    return (
        replay is None or proposal.scenario is None or _each_gains(replay, proposal.scenario.parts)
    )


def _each_gains(replay: Replay, parts: Sequence[Scenario]) -> bool:
    least_ms = MIN_PART_SHARE * replay.base_ms
    return not parts or (
        replay.faithful and all(replay.gain_ms(part) >= least_ms for part in parts)
    )


def _is_worth_it(m: Measurements, advice: Recommendation) -> bool:
    """Whether a proposal's gain is unknown or large enough; more where it is only bounded from
    above."""
    bounded = m.faithful_replay is not None and not advice.basis.startswith(REPLAYED)
    least = MIN_BOUND_SHARE if bounded else MIN_SAVED_SHARE
    return advice.predicted_speedup is None or advice.predicted_speedup * (1.0 - least) >= 1.0


def _is_said(advice: Recommendation, offered: Sequence[Recommendation]) -> bool:
    """Whether a remedy, whose gain is known, already says it: to do more work at a time, or the
    same change."""
    by_remedy = {one.remedy for one in offered}
    if advice.predicted_step_ms is None and advice.remedy in by_remedy:
        return True
    return advice.id == UNDERSIZED and bool(by_remedy.intersection(MORE_AT_A_TIME))


def _of_proposal(
    m: Measurements, draft: Draft, proposal: Proposal, headroom: float | None
) -> Recommendation | None:
    """A proposal as a recommendation; None where the program's framework has no words for it."""
    action = proposal.action.of(m.joined.framework)
    if action is None:
        return None
    p = _estimate(m, draft, proposal, headroom)
    return Recommendation(
        draft.id + proposal.suffix,
        proposal.cls or draft.cls,
        action,
        p.step_ms,
        ratio(m.step.step_ms, p.step_ms),
        p.basis,
        proposal.name,
        p.low_ms,
        p.high_ms,
        effort=proposal.action.effort,
    )


def _estimate(
    m: Measurements, draft: Draft, proposal: Proposal, headroom: float | None
) -> Prediction:
    """By the replay, else the step without the headroom: a bound."""
    base = m.step.step_ms
    unknown = Prediction(draft.id, None, None, None, None, proposal.basis)
    scenario = proposal.scenario or _shorter_compute(m, draft, headroom)
    if proposal.bound:
        return unknown
    if scenario is not None and m.faithful_replay is not None:
        replayed = m.faithful_replay.predict(scenario)
        return replace(replayed, basis=f"{REPLAYED}: {replayed.basis}")
    untold = bool(m.doubt) or (m.replay is not None and not m.replay.faithful)
    if headroom is None or not m.timed.steps.known or untold:
        return unknown
    if len(m.trace.api_calls):
        unknown = replace(unknown, basis=f"{BOUNDED}: {proposal.basis}")
    step = max(base - headroom, proposal.least_ms)
    if base > MOST_SPEEDUP * step:
        return unknown
    low = step * (1.0 - SCENARIO_SPREAD)
    high = max(base, step)  # idle time that is gone makes no step longer than today's
    return replace(unknown, step_ms=step, low_ms=low, high_ms=high)


def _shorter_compute(m: Measurements, draft: Draft, headroom: float | None) -> Scenario | None:
    """The scenario of a finding on the computation: shorter by its headroom, the proposal's basis
    says why."""
    if draft.part != "compute" or not headroom or m.step.budget is None:
        return None
    basis = BETWEEN.join(proposal.basis for proposal in draft.proposals)
    return Scenario(draft.id, less_compute(min(headroom / m.step.budget.compute, 1.0)), basis)
