"""How far a prediction may be off, and what bounds it: the GPU's clock, and copies that cannot be
hidden.

How far promises of remedies were off is counted (`promise_errors`). Other scenarios leave things
out: a host without its launches or its Python is known well.

A GPU whose tensor cores pause less draws more power, and at its power limit it clocks lower:
without pauses matrix kernels take longer. At the limit the share of time in them (duty) times their
power is constant; power goes with about the square of the clock (between linear at a fixed voltage
and cubic where the voltage follows), so their time goes with the root of the duty.

Hiding copies leads at best to the longer of the copies and the rest of the step: a link moves one
copy at a time in each direction, and the rest of a step needs as long as it does without them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, subtract, union
from traceanalyzer.analysis.roofline.bounds import YES
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import ReplayTimes
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

GAIN_SPREAD = 0.015
"""Share of what a scenario gains by which its prediction may be off."""
LIMITED_DUTY = 0.75
"""Tensor cores that work for less of the time than this keep the highest clock; a prediction's
pessimistic end assumes that they do so only under ..."""
PESSIMISTIC_DUTY = 0.5
NOTICEABLE = 1.002
Chosen = Callable[[Tape], Bool]  # which ops of a tape are hidden


def duties(tapes: Sequence[Tape], times_ns: Sequence[float]) -> list[float]:
    """Share of each rank's step in matrix kernels on tensor cores."""
    return [
        float(tape.duration[_on_tensor_cores(tape)].sum()) / tape.steps / time if time else 0.0
        for tape, time in zip(tapes, times_ns, strict=True)
    ]


def slowed(
    tapes: Sequence[Tape],
    before: Sequence[float],
    after: Sequence[float],
    limited: float,
    most: float = math.inf,
) -> list[Tape] | None:
    """The tapes with the clocks that these duties, after those of the recording, lead to, kernels
    at `most` so many times longer; None where they stay."""
    duties = zip(before, after, strict=True)
    ratios = (max(b, limited, a) / max(b, limited) for b, a in duties)
    factors = [min(max(ratio, 1.0) ** 0.5, most) for ratio in ratios]
    if max(factors) < NOTICEABLE:
        return None
    return [
        replace(
            tape,
            duration=np.where(_on_tensor_cores(tape), tape.duration * factor, tape.duration).astype(
                np.int64
            ),
        )
        for tape, factor in zip(tapes, factors, strict=True)
    ]


def _on_tensor_cores(tape: Tape) -> Bool:
    return (tape.source.roofline.tensor == YES)[tape.row]


def least_times_ns(
    tapes: Sequence[Tape], changed: Sequence[Tape], hidden: Chosen, rest: bool
) -> list[float]:
    """For each rank the least step time if these of its ops are hidden, ns. `rest`: whether all
    else stays as it is on `tapes`; where a scenario changes more, only the links are the limit."""
    chosen = [hidden(tape) for tape in tapes]
    if not any(some.any() for some in chosen):
        return [0.0] * len(tapes)
    least = list(map(_links_ns, tapes, changed, chosen))
    return (
        list(map(max, least, map(_rest_ns, tapes, run(tapes, repetitions(tapes)), chosen)))
        if rest
        else least
    )


def _links_ns(tape: Tape, changed: Tape, hidden: Bool) -> float:
    """Time of hidden ops on their links, one after the other, ns a step: as changed, or recorded if
    taken out."""
    ops = tape.source.trace.device_ops
    rows = tape.row[hidden]
    links = Groups.of(ops.device[rows], ops.copy_kind[rows])
    takes = np.where(changed.duration[hidden] > 0, changed.duration[hidden], tape.duration[hidden])
    return float(links.sum(takes).max(initial=0)) / tape.steps


def _rest_ns(tape: Tape, times: ReplayTimes, hidden: Bool) -> float:
    """The replayed step less what only the hidden ops did, ns."""
    begin, stop = times.done[-2:]
    start = np.array(times.ready, np.int64)
    end = np.array(times.end, np.int64)
    others = union(start[~hidden], end[~hidden])
    alone = subtract(union(start[hidden], end[hidden]), others)
    alone_ns = measure(alone, np.array([begin]), np.array([stop])).sum()
    return float(stop - begin - alone_ns) / tape.steps
