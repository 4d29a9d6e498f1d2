"""The order of advice: what surely shortens the step first, what may not help last; and why what
comes first is not against the cause that the verdict names, where it is not. The order of findings:
what the verdict rests on first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.base import digits
from traceanalyzer.diagnosis.effort import how_much
from traceanalyzer.diagnosis.finding import (
    GPU_BUSY,
    BottleneckClass,
    Finding,
    Recommendation,
    Summary,
    begins_with_id,
    severity_of,
)

WORTH_SHOWING = 1.05
"""What gains less is within the spread of hosts and clocks: it stands behind what gains more, and
not on the first screen."""
CLEAR_GAIN = 1.1
"""A change that alone gains less stands behind changes that gain more together."""
UNKNOWN = 3  # the kind of gain of a change of which nothing is predicted
AS_GOOD = 0.9
"""Share of the best speedup from which what answers the verdict is named first."""
SAVES_AS_MUCH = 0.5
"""Share of the time that the best change saves that it has to save as well: 1.08x is nine tenths of 1.18x,
and saves less than half."""
LITTLE_SAVED = 1 / 3
"""A change that takes a cause away and saves less of its time has to say so: what the cause hid
takes its place."""
REMOVES_ITS_CAUSE: Mapping[str, BottleneckClass] = {
    "remove_syncs": "sync",
    "cuda_graph": "launch",
    "data_loader_workers": "input",
}
"""Remedies that leave nothing of a cause."""
DEVICE_CLASSES: tuple[BottleneckClass, ...] = ("compute", "memory")
"""Classes of the GPU's own work: a verdict on one is answered by advice on the other."""
WORDS = {
    "launch": "launch overhead",
    "sync": "the syncs",
    "input": "the wait for data",
    "host": "the CPU work",
    "communication": "exposed communication",
    "transfer": "exposed copies",
    "compute": "the GPU's own work",
    "memory": "the GPU's own work",
}
"""What a class names as the cause."""


def ranked_advice(advice: Sequence[Recommendation], step_ms: float) -> list[Recommendation]:
    """The advice in the order in which it is shown, what may not help marked."""
    marked = [replace(one, may_not_help=holds_no_gain(one, step_ms)) for one in advice]
    alone = {one.remedy for one in marked if one.predicted_speedup is not None}
    return sorted(marked, key=lambda one: _tier(one, alone))


def holds_no_gain(advice: Recommendation, step_ms: float) -> bool:
    """Whether the range of what is predicted holds a step as long as today's, or ends at the same
    figure."""
    more = advice.as_much_work or advice.together
    high_ms = advice.high_ms if more is None else more.high_ms
    return high_ms is not None and (high_ms >= step_ms or digits(high_ms) == digits(step_ms))


def is_worth_showing(advice: Recommendation) -> bool:
    """Whether it is for the first screen: its gain is unknown, or not small."""
    return advice.predicted_speedup is None or advice.predicted_speedup >= WORTH_SHOWING


def is_for_first_screen(advice: Recommendation) -> bool:
    """Whether it is worth showing and says something definite: faster kernels of no known gain are
    what is left where nothing else is advised."""
    vague = advice.id == GPU_BUSY and not advice.gain_is_known
    return is_worth_showing(advice) and not vague


Tier = tuple[bool, bool, int, float, int, float]


def _tier(advice: Recommendation, alone: set[str | None]) -> Tier:
    """`alone`: the changes that are advised by themselves; what needs one of them comes after.
    What the first screen has is first everywhere. Of those that lead to the same step, as it is
    printed, the one of least effort comes first, then the surest."""
    needed = set() if advice.together is None else set(advice.together.remedies)
    return (
        not is_for_first_screen(advice),
        advice.may_not_help,
        UNKNOWN if needed & alone else _kind_of_gain(advice),
        _as_printed(advice.predicted_step_ms or math.inf),
        how_much(advice),
        (advice.high_ms or 0.0) - (advice.low_ms or 0.0),
    )


def _as_printed(step_ms: float) -> float:
    """A step time in the three digits that are shown of it."""
    return float(f"{step_ms:.3g}")


def _kind_of_gain(advice: Recommendation) -> int:
    """A change that alone gains clearly, then what gains with others or by more work, then what
    alone gains little, then what is unknown."""
    if advice.predicted_speedup is not None:
        return 0 if advice.predicted_speedup >= CLEAR_GAIN else 2
    more = advice.as_much_work or advice.together
    is_clear = more is not None and (more.speedup or 1.0) >= CLEAR_GAIN
    return 1 if is_clear else UNKNOWN


def with_reason(
    advice: Sequence[Recommendation], summary: Summary, part_ms: float = 0.0
) -> list[Recommendation]:
    """The advice, the first of which says why it comes before what is against the cause that the
    verdict names, or why it saves little of the time of that cause (`part_ms`)."""
    if not advice or summary.bottleneck == "inconclusive":
        return list(advice)
    named = answering(summary)
    first, *others = _answer_first(advice, named)
    cause = WORDS[summary.bottleneck]
    if first.cls in named:
        return [_saying_what_is_left(first, summary, part_ms, cause), *others]
    answers = [one for one in others if one.cls in named]
    return [replace(first, instead=_why_first(first, answers, cause)), *others]


def _why_first(first: Recommendation, answers: Sequence[Recommendation], cause: str) -> str:
    """Why the first advice comes before those against the verdict's cause."""
    against = next((one for one in answers if one.predicted_speedup), None)
    if against is None and any(one.as_much_work for one in answers):
        return f"Advice against {cause} changes what a step does: it comes later."
    if against is None and any(one.together for one in answers):
        return f"Advice against {cause} needs another change first."
    if against is None:
        return f"Nothing against {cause} has a predicted gain."
    if against.may_not_help or first.predicted_speedup is None:
        return f"No advice against {cause} is sure to help."
    gain = digits(against.predicted_speedup or 1.0)
    return f"It gains more than the advice against {cause} alone ({gain}x)."


def _saying_what_is_left(
    first: Recommendation, summary: Summary, part_ms: float, cause: str
) -> Recommendation:
    """The first advice; where it takes the whole cause away and hardly saves any of its time, with
    the reason."""
    if REMOVES_ITS_CAUSE.get(first.remedy or "") != summary.bottleneck:
        return first
    if first.predicted_step_ms is None or summary.step_ms is None:
        return first
    saved_ms = summary.step_ms - first.predicted_step_ms
    if saved_ms >= LITTLE_SAVED * part_ms:
        return first
    left = f"Without {cause} the step waits for something else nearly as long."
    return replace(first, instead=left)


def _answer_first(
    advice: Sequence[Recommendation], named: set[BottleneckClass]
) -> list[Recommendation]:
    """The advice with what answers the verdict in front where it gains nearly as much as what gains
    most. What may not help is in front only of a gain that is unknown."""
    best = advice[0].predicted_speedup
    is_unknown = _kind_of_gain(advice[0]) == UNKNOWN
    for candidate in advice[1:]:
        as_good = best is None or _is_as_good(candidate.predicted_speedup or 0.0, best)
        if (
            candidate.cls in named
            and (is_unknown or not candidate.may_not_help)
            and as_good
            and advice[0].cls not in named
        ):
            return [candidate, *(other for other in advice if other is not candidate)]
    return list(advice)


def _is_as_good(speedup: float, best: float) -> bool:
    saved = 1.0 - 1.0 / speedup if speedup > 1.0 else 0.0
    return speedup >= AS_GOOD * best and saved >= SAVES_AS_MUCH * (1.0 - 1.0 / best)


def answering(summary: Summary) -> set[BottleneckClass]:
    """Classes of advice and findings that are for the cause that the verdict names."""
    named: set[BottleneckClass] = {summary.bottleneck}
    if summary.beside is not None:
        named.add(summary.beside)
    return named | set(DEVICE_CLASSES) if named & set(DEVICE_CLASSES) else named


def rated_findings(
    findings: Sequence[Finding], advice: Sequence[Recommendation], step_ms: float | None
) -> list[Finding]:
    """Findings by headroom, those without one last, as severe as advice on them says where their own
    headroom is not known."""
    rated = [_rated(one, gained_ms(one, advice, step_ms), step_ms) for one in findings]
    return sorted(
        rated, key=lambda one: -1.0 if one.headroom_ms is None else one.headroom_ms, reverse=True
    )


def ranked_findings(
    findings: Sequence[Finding], advice: Sequence[Recommendation], summary: Summary
) -> list[Finding]:
    """As a person reads them: the finding that the verdict rests on, then the others by what they
    save. Advice says what a finding saves whose headroom is unknown, or counted in others."""

    def saved_ms(finding: Finding) -> float:
        known = (finding.headroom_ms, gained_ms(finding, advice, summary.step_ms))
        return next((ms for ms in known if ms is not None), -1.0)

    ranked = sorted(findings, key=saved_ms, reverse=True)
    first = of_verdict(ranked, summary)
    return ranked if first is None else [first, *(one for one in ranked if one is not first)]


def of_verdict(findings: Sequence[Finding], summary: Summary) -> Finding | None:
    """The first finding on the cause that the verdict names, else on the one named beside it; None
    without a verdict, and where no finding is on either."""
    if summary.bottleneck == "inconclusive":
        return None
    alone = answering(replace(summary, beside=None))
    either = answering(summary)
    on_cause = next((one for one in findings if one.cls in alone), None)
    return on_cause or next((one for one in findings if one.cls in either), None)


def advice_on(finding: Finding, advice: Sequence[Recommendation]) -> list[Recommendation]:
    """The advice on a finding: of its id, else of ids that go on from it."""
    exact = [one for one in advice if one.id == finding.id]
    return exact or [one for one in advice if begins_with_id(one.id, finding.id)]


def gained_ms(
    finding: Finding, advice: Sequence[Recommendation], step_ms: float | None
) -> float | None:
    """What the best advice on a finding gains, ms; None where none tells."""
    after = [one.predicted_step_ms for one in advice_on(finding, advice)]
    known = [ms for ms in after if ms is not None]
    return step_ms - min(known) if known and step_ms else None


def _rated(finding: Finding, gain_ms: float | None, step_ms: float | None) -> Finding:
    """The finding, as severe as what advice on it gains where its own headroom is not known."""
    if finding.headroom_ms is not None or gain_ms is None or not step_ms:
        return finding
    return replace(finding, severity=severity_of(gain_ms / step_ms))
