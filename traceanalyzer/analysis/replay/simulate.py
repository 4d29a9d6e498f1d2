"""Runs a tape: one pass over the host's events and the ops they launch, in integer nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape

QUEUE_DEPTH = 1024
"""Ops that can be launched ahead of the device; then the next launch waits (recordings level off at 1,023)."""
LEAST_STEPS = 24
"""Steps to run at least: the tape is repeated until its start no longer matters."""


def step_time_ns(tape: Tape) -> float:
    """Mean step time of the tape in its steady state, ns."""
    repeats = max(2, -(-LEAST_STEPS // tape.steps))
    first = repeats // 2
    done = run(tape, repeats)
    return (done[-1] - done[first - 1]) / ((repeats - first) * tape.steps)


def run(tape: Tape, repeats: int) -> list[int]:
    """When the host and the device had finished each repetition of the tape, ns."""
    events = list(
        zip(
            (tape.dispatch + tape.work + tape.loading + tape.profiling).tolist(),
            tape.waits.tolist(),
            np.searchsorted(tape.event, np.arange(len(tape.dispatch)), side="left").tolist(),
            np.searchsorted(tape.event, np.arange(len(tape.dispatch)), side="right").tolist(),
            strict=True,
        )
    )
    stream, duration = tape.stream.tolist(), tape.duration.tolist()
    latency, gap = tape.latency.tolist(), tape.gap.tolist()
    on, delay = tape.dependencies.on.tolist(), tape.dependencies.delay.tolist()
    on_communication = tape.dependencies.on_communication.tolist()
    free = [0] * (max(stream, default=0) + 1)
    queue = [0] * QUEUE_DEPTH
    now = reach = launched = 0
    end = [0] * len(stream)
    done = []
    for _ in range(repeats):
        for host, waits, first, stop in events:
            now += host
            for i in range(first, stop):
                slot = launched % QUEUE_DEPTH
                launched += 1
                now = max(now, queue[slot])
                start = max(now + latency[i], free[stream[i]] + gap[i])
                if on[i] >= 0:
                    start = max(start, end[on[i]] + delay[i])
                if on_communication[i] >= 0:
                    start = max(start, end[on_communication[i]])
                end[i] = free[stream[i]] = start + duration[i]
                queue[slot] = start
                reach = max(reach, end[i])
            if waits:
                now = max(now, reach)
        now += sum(tape.tail)
        done.append(max(now, reach))
    return done
