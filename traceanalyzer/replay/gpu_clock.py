"""Clocks: a GPU whose tensor cores pause less draws more power, and at its power limit it clocks lower.

Without pauses matrix kernels on tensor cores take longer than they were recorded between pauses. At the limit the
share of time in them (duty) times their power is constant; power goes with about the square of the clock (between
linear at a fixed voltage and cubic where the voltage follows), so their time goes with the root of the duty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.roofline.precision import YES
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

LIMITED_DUTY = 0.75
"""Tensor cores that work for less of the time than this keep the highest clock; a prediction's pessimistic end assumes
that they do so only under ..."""
PESSIMISTIC_DUTY = 0.5
NOTICEABLE = 1.002


def duties(tapes: Sequence[Tape], times_ns: Sequence[float]) -> list[float]:
    """Share of each rank's step in matrix kernels on tensor cores."""
    return [
        float(tape.duration[_on_tensor_cores(tape)].sum()) / tape.steps / time if time else 0.0
        for tape, time in zip(tapes, times_ns, strict=True)
    ]


def slowed(
    tapes: Sequence[Tape], before: Sequence[float], after: Sequence[float], limited: float, most: float = math.inf
) -> list[Tape] | None:
    """The tapes with the clocks that these duties, after those of the recording, lead to, kernels at `most` so many
    times longer; None where they stay."""
    ratios = (max(max(b, limited, a) / max(b, limited), 1.0) for b, a in zip(before, after, strict=True))
    factors = [min(ratio**0.5, most) for ratio in ratios]
    if max(factors) < NOTICEABLE:
        return None
    return [
        replace(tape, duration=np.where(_on_tensor_cores(tape), tape.duration * factor, tape.duration).astype(np.int64))
        for tape, factor in zip(tapes, factors, strict=True)
    ]


def _on_tensor_cores(tape: Tape) -> Bool:
    return (tape.source.roofline.tensor == YES)[tape.row]
