"""What the step would take if one thing were different: each scenario is a small change of the tape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.dependencies import Dependencies

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool

GRAPH_GAP_NS = 400
"""Pause between dependent kernels of one CUDA graph (0.3 to 0.5 us in graphs recorded on an H200)."""


@dataclass(frozen=True)
class Scenario:
    """A change and what it assumes."""

    id: str
    change: Callable[[Tape], Tape]
    basis: str


def no_host_syncs(tape: Tape) -> Tape:
    """No wait for the device, and no operator whose only purpose is to read a value."""
    read = tape.reads[tape.event]
    return replace(
        _without(tape, read),
        waits=np.zeros_like(tape.waits),
        dispatch=tape.dispatch - tape.reading,
    )


def launches_free(tape: Tape) -> Tape:
    """Dispatch and launch calls cost the host nothing, as in a CUDA graph; waits and other work stay."""
    return replace(
        tape,
        dispatch=np.zeros_like(tape.dispatch),
        tail=(0, *tape.tail[1:]),
        latency=np.zeros_like(tape.latency),
        gap=np.minimum(tape.gap, GRAPH_GAP_NS),
    )


def input_ready(tape: Tape) -> Tape:
    """Input data is there when it is asked for."""
    return replace(tape, loading=np.zeros_like(tape.loading), tail=(*tape.tail[:2], 0, tape.tail[3]))


def no_host_work(tape: Tape) -> Tape:
    """No long stretches of host work between operators."""
    return replace(tape, work=np.zeros_like(tape.work), tail=(tape.tail[0], 0, *tape.tail[2:]))


def copies_hidden(tape: Tape) -> Tape:
    """Copies run beside the compute and nobody waits for them."""
    copying = np.zeros(len(tape.waits), bool)
    copying[tape.event[tape.copy]] = True
    return replace(_without(tape, tape.copy), waits=tape.waits & ~copying)


def communication_free(tape: Tape) -> Tape:
    """Collectives take no time, and compute that ran beside them is no longer slowed by them."""
    return _without(replace(tape, duration=tape.alone), tape.communication)


def communication_overlapped(tape: Tape) -> Tape:
    """Collectives run on streams of their own, and only the end of the step waits for them."""
    own = np.where(tape.communication, int(tape.stream.max(initial=0)) + 1, tape.stream).astype(np.int32)
    on = tape.dependencies.on
    waits_for_one = (on >= 0) & tape.communication[np.maximum(on, 0)] & ~tape.communication
    freed = Dependencies(
        np.where(waits_for_one, -1, on), tape.dependencies.delay, np.full_like(tape.dependencies.on_communication, -1)
    )
    return replace(tape, stream=own, dependencies=freed)


def faster(ops: Bool, factor: float) -> Callable[[Tape], Tape]:
    """The chosen ops (a flag for each device op of the trace) `factor` times faster."""

    def change(tape: Tape) -> Tape:
        duration = np.where(ops[tape.row], tape.duration / factor, tape.duration)
        return replace(tape, duration=duration.astype(np.int64))

    return change


def _without(tape: Tape, ops: Bool) -> Tape:
    """The ops take no time and leave no gap; what is ordered by them stays so."""
    zero: I64 = np.zeros_like(tape.duration)
    return replace(
        tape,
        duration=np.where(ops, zero, tape.duration),
        gap=np.where(ops, zero, tape.gap),
        latency=np.where(ops, zero, tape.latency),
    )


def gaps_closed(tape: Tape) -> Tape:
    """No pause between queued ops."""
    return replace(tape, gap=np.zeros_like(tape.gap))


def less_compute(share: float) -> Callable[[Tape], Tape]:
    """All computation shorter by this share."""

    def change(tape: Tape) -> Tape:
        compute = ~(tape.communication | tape.copy)
        return replace(tape, duration=np.where(compute, tape.duration * (1.0 - share), tape.duration).astype(np.int64))

    return change


def combined(*scenarios: Scenario) -> Scenario:
    """All of them at once."""

    def change(tape: Tape) -> Tape:
        for scenario in scenarios:
            tape = scenario.change(tape)
        return tape

    return Scenario("+".join(s.id for s in scenarios), change, "; ".join(s.basis for s in scenarios))


NO_HOST_SYNCS = Scenario(
    "no_host_syncs", no_host_syncs, "the host never waits for the device, and operators that only read values are gone"
)
LAUNCHES_FREE = Scenario(
    "launches_free", launches_free, "dispatch and launches cost nothing, as in a CUDA graph; waits stay"
)
INPUT_READY = Scenario("input_ready", input_ready, "input data is always ready")
NO_HOST_WORK = Scenario("no_host_work", no_host_work, "no host work between operators but dispatch")
COPIES_HIDDEN = Scenario("copies_hidden", copies_hidden, "copies take no time and block nobody")
COMMUNICATION_FREE = Scenario("communication_free", communication_free, "collectives take no time")
COMMUNICATION_OVERLAPPED = Scenario(
    "communication_overlapped", communication_overlapped, "collectives run beside the compute as far as the step lasts"
)
GAPS_CLOSED = Scenario("gaps_closed", gaps_closed, "no pause between queued ops")

SCENARIOS = (
    NO_HOST_SYNCS,
    LAUNCHES_FREE,
    combined(NO_HOST_SYNCS, LAUNCHES_FREE),
    INPUT_READY,
    NO_HOST_WORK,
    COPIES_HIDDEN,
    COMMUNICATION_FREE,
    COMMUNICATION_OVERLAPPED,
)
"""What `whatif` answers, one list; more are made by `faster`, `less_compute` and `combined`."""
