"""What is advised for a recording: the remedies that it triggers, each with the step that it should
lead to."""

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.launched import is_start_up
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.measurements import Measurements, nothing_to_replay
from traceanalyzer.diagnosis.outside import IDLE_CLASSES, outside_cause
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.prediction import Prediction, WhatIf
from traceanalyzer.replay.scenario import buckets_of, faster
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import Run

SAME = 0.97
"""A fast host whose step is not shorter than this share of the usual one's is not what the step
waits for."""
NONE = 0.005  # share of the step below which a gain is none


def predictions(
    run: Run,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    speedups: Sequence[tuple[str, float]] = (),
    bucket_mb: Sequence[float] = (),
) -> WhatIf:
    """What the step of a rank (the critical one unless one is asked for) would take under each
    scenario.

    See `predictions_of`. Raises EmptyRecordingError where the recording has no launches or device
    work to replay."""
    m = measured(run, selection, knowledge).critical
    return predictions_of(m, speedups=speedups, bucket_mb=bucket_mb)


def predictions_of(
    m: Measurements,
    *,
    speedups: Sequence[tuple[str, float]] = (),
    bucket_mb: Sequence[float] = (),
) -> WhatIf:
    """What the step of this rank would take under each scenario.

    `speedups` are pairs of a regular expression and a factor: the device work that matching names
    stand for becomes that many times faster; `bucket_mb` are sizes of gradient buckets. Raises
    EmptyRecordingError where the recording has no launches or device work to replay."""
    if m.replay is None:
        raise nothing_to_replay(m)
    why = m.memo(outside_cause)
    advised = [one for one in m.memo(advise) if not why or one.remedy.cls not in IDLE_CLASSES]
    more = [
        *(one.offer.scenario for one in advised),
        *(faster(name, factor) for name, factor in speedups),
    ]
    answer = m.replay.what_if([*more, *(buckets_of(size) for size in bucket_mb)])
    small = _too_little(m.replay, m.memo(_offers)) if m.replay.faithful else ""
    scenarios = [replace(one, mfu=_mfu(m, one)) for one in answer.scenarios]
    notes = [note for note in (why, *answer.notes, small) if note]
    return replace(answer, scenarios=scenarios, notes=notes)


def _mfu(m: Measurements, scenario: Prediction) -> float | None:
    """MFU for the same operations in the predicted time; None where unknown, a lower bound, above 1,
    or of another number format."""
    used = m.utilisation
    same = {"tf32", "low_precision"}.isdisjoint(scenario.id.split("+"))
    if m.mfu_is_least or used is None or not used.mfu or not scenario.step_ms or not same:
        return None
    mfu = used.mfu * m.step.step_ms / scenario.step_ms
    return mfu if mfu <= 1.0 else None


@dataclass(frozen=True)
class Advice:
    """A remedy, as it is for this program, and what it leads to."""

    remedy: Remedy
    offer: Offer
    prediction: Prediction
    # whether most of what it saves is not time of kernels: it makes the device wait less for the
    # host
    for_host: bool


def advise(m: Measurements) -> list[Advice]:
    """The remedies that shorten the step without the profiler, shortest first, then those that need
    others before them or change what a step does; none where the recording cannot be replayed
    faithfully."""
    replay = m.faithful_replay
    advice = list[Advice]()
    if replay is None:
        return advice
    for remedy, offer in m.memo(_offers):
        if _worth_it(replay, remedy, offer):
            for_host = replay.saved_by_kernels(offer.scenario) is False
            advice.append(Advice(remedy, offer, replay.predict(offer.scenario), for_host))
    return sorted(advice, key=lambda one: (not one.offer.single, one.prediction.step_ms or 0.0))


def looked_at(m: Measurements) -> str:
    """Where nothing is advised: the remedies that were tried on the recording and what they gain,
    in a sentence; "" where there are none."""
    replay = m.faithful_replay
    if replay is None or m.linked.memo(is_start_up) or m.memo(advise):
        return ""
    return _too_little(replay, m.memo(_offers))


def _offers(m: Measurements) -> list[tuple[Remedy, Offer]]:
    """What each remedy would be here, whatever it gains."""
    every = [(remedy, remedy.offer(m)) for remedy in REMEDIES]
    return [(remedy, offer) for remedy, offer in every if offer is not None]


def _too_little(replay: Replay, offers: list[tuple[Remedy, Offer]]) -> str:
    """The remedies that shorten the step by less than they have to, in a sentence; "" where there
    are none."""
    gains = [(remedy, replay.gain_ms(offer.scenario) / replay.base_ms) for remedy, offer in offers]
    small = [
        f"{r.id} {gain:.1%} (advised from {r.least_gain:.0%})"
        for r, gain in gains
        if NONE <= gain < r.least_gain
    ]
    return f"Looked at, gains too little: {', '.join(small)}." if small else ""


def _worth_it(replay: Replay, remedy: Remedy, offer: Offer) -> bool:
    """Whether it saves enough, and something by the pessimistic reading. What makes launches fewer
    must do so with a fast host, too: how long dispatch takes without the profiler is what is known
    worst, and where the GPU is then busy all the time there are no pauses to save. And there any
    host that keeps up leads to the same step: what a remedy costs a slow one is not known."""
    least_ms = remedy.least_gain * replay.base_ms
    if replay.gain_ms(offer.scenario) < least_ms:
        return False
    least_pessimistic_ms = remedy.min_pessimistic_share * least_ms
    cautious = replay.pessimistic_gain_ms
    usual = not remedy.costs_host or replay.fast_host_ms < SAME * replay.base_ms
    if usual and cautious(offer.scenario) < least_pessimistic_ms:
        return False
    return (
        remedy.cls != "launch" or cautious(offer.scenario, fast_host=True) >= least_pessimistic_ms
    )
