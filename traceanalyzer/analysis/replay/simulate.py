"""Runs tapes: one pass over the host's events and the ops they launch, in integer nanoseconds.

The ranks of a run are passed through together: at a collective that they share each stops with the moment from
which it could take part, and goes on from the moment from which all can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.stretches import Pass, run_alone
from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from traceanalyzer.analysis.replay.tape import Tape

LEAST_STEPS = 24
"""Steps to run at least: the tape is repeated until its start no longer matters."""


def step_time_ns(tape: Tape) -> float:
    """Mean step time of the tape in its steady state, ns."""
    return step_times_ns([tape])[0]


def step_times_ns(tapes: Sequence[Tape]) -> list[float]:
    """The same of each rank's tape, run together, ns. All hold equally many steps."""
    count, steps = repetitions(tapes), max(tape.steps for tape in tapes)
    first = count // 2
    return [(one.done[-1] - one.done[first - 1]) / ((count - first) * steps) for one in run(tapes, count)]


def repetitions(tapes: Sequence[Tape]) -> int:
    """How often tapes are run until their start no longer matters."""
    return max(2, -(-LEAST_STEPS // max(tape.steps for tape in tapes)))


def run(tapes: Sequence[Tape], repeats: int) -> list[Pass]:
    """Each rank's replay.

    A collective transfers once all ranks that have it are there. Where the ranks' orders contradict each other,
    one that could never begin does so with those who are there.
    """
    if len(tapes) == 1 and (alone := run_alone(tapes[0], repeats)) is not None:
        return [alone]
    members = np.bincount(np.concatenate([tape.meeting[tape.meeting >= 0] for tape in tapes])).tolist()
    ranks = [_pass(tape, repeats) for tape in tapes]
    passes = [Pass([], [], [], [], []) for _ in tapes]
    waiting: dict[tuple[int, int], dict[int, int]] = {}
    ready = [(rank, 0) for rank in range(len(ranks))]
    while ready:
        rank, time = ready.pop()
        try:
            meeting, arrival = ranks[rank].send(time if time else None)
        except StopIteration as finished:
            passes[rank] = finished.value
        else:
            there = waiting.setdefault(meeting, {})
            there[rank] = arrival
            if len(there) == members[meeting[1]]:
                ready += _begin(waiting.pop(meeting))
        if not ready and waiting:
            ready += _begin(waiting.pop(next(iter(waiting))))
    return passes


def _begin(arrivals: dict[int, int]) -> list[tuple[int, int]]:
    """The ranks of a collective that begins, each with the moment when it does."""
    last = max(arrivals.values())
    return [(rank, last) for rank in arrivals]


def _pass(tape: Tape, repeats: int) -> Generator[tuple[tuple[int, int], int], int | None, Pass]:
    """One rank: yields each shared collective (repetition and number) with the rank's arrival, is sent when all are
    there, and returns what happened when."""
    events = list(
        zip(
            (tape.dispatch + tape.work + tape.loading + tape.profiling).tolist(),
            tape.waits.tolist(),
            tape.waits_for.tolist(),
            np.searchsorted(tape.event, np.arange(len(tape.dispatch)), side="left").tolist(),
            np.searchsorted(tape.event, np.arange(len(tape.dispatch)), side="right").tolist(),
            strict=True,
        )
    )
    stream, duration = tape.stream.tolist(), tape.duration.tolist()
    latency, gap = tape.latency.tolist(), tape.gap.tolist()
    on, delay = tape.dependencies.on.tolist(), tape.dependencies.delay.tolist()
    also_on = tape.dependencies.also_on.tolist()
    meeting = tape.meeting.tolist()
    free = [0] * (max(stream, default=0) + 1)
    queue = [0] * QUEUE_DEPTH
    now = reach = launched = 0
    came, end = [0] * len(stream), [0] * len(stream)
    called, returned = [0] * len(events), [0] * len(events)
    done = []
    for repeat in range(repeats):
        for event, (host, waits, awaited, first, stop) in enumerate(events):
            now += host
            called[event] = now
            for i in range(first, stop):
                slot = launched % QUEUE_DEPTH
                launched += 1
                # comparisons instead of max(): a replay spends most of its time here
                if queue[slot] > now:
                    now = queue[slot]
                start, after = now + latency[i], free[stream[i]] + gap[i]
                if after > start:
                    start = after
                if on[i] >= 0 and end[on[i]] + delay[i] > start:
                    start = end[on[i]] + delay[i]
                if also_on[i] >= 0 and end[also_on[i]] > start:
                    start = end[also_on[i]]
                queue[slot] = came[i] = start
                if meeting[i] >= 0:
                    start = (yield (repeat, meeting[i]), start) or start
                end[i] = free[stream[i]] = ended = start + duration[i]
                if ended > reach:
                    reach = ended
            if waits:
                until = reach if awaited < 0 else end[awaited]
                if until > now:
                    now = until
            returned[event] = now
        now += sum(tape.tail)
        done.append(max(now, reach))
    return Pass(done, called, returned, came, end)
