"""What is advised for a recording: the remedies that it triggers, each with the step that it should lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.remedies import REMEDIES

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.whatif import Prediction
    from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy


@dataclass(frozen=True)
class Advice:
    """A remedy, as it is for this program, and what it leads to."""

    remedy: Remedy
    offer: Offer
    prediction: Prediction


def advise(m: Measurements) -> list[Advice]:
    """The remedies that shorten the step without the profiler, shortest first, then those that need others before
    them or change what a step does; none where the recording cannot be replayed faithfully."""
    replay = m.replay
    if replay is None or not replay.faithful:
        return []
    made = []
    for remedy in REMEDIES:
        offer = remedy.offer(m)
        if offer is None or replay.gain_ms(offer.scenario) < remedy.least_gain * replay.base_ms:
            continue
        made.append(Advice(remedy, offer, replay.predict(offer.scenario)))
    return sorted(made, key=lambda one: (not one.offer.single, one.prediction.step_ms or 0.0))
