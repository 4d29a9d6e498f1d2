"""Runs tapes: one pass over the host's events and the ops they launch, in integer nanoseconds.

The ranks of a run are passed through together: at a collective that they share each stops with the
moment from which it could take part, and goes on from the moment from which all can."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH
from traceanalyzer.replay.stretches import Pass, run_alone
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64

LEAST_STEPS = 24  # steps to run at least: the tape is repeated until its start no longer matters

Meeting = tuple[int, int]  # a shared collective: repetition and number
Begin = Callable[[Sequence[int]], int]
"""When a shared collective begins, from when its ranks arrive: with the last of them, or as if some
were not late."""
Running = Generator[tuple[Meeting, int] | Pass, Any, None]
"""Yields each shared collective with the rank's arrival, is sent when all are there, and at last
what happened when."""


def step_time_ns(tape: Tape) -> float:
    """Mean step time of the tape in its steady state, ns."""
    return step_times_ns([tape])[0]


def step_times_ns(tapes: Sequence[Tape], begin: Begin = max) -> list[float]:
    """The step times of each rank's tape, run together, ns. All hold equally many steps."""
    count = repetitions(tapes)
    steps = max(tape.steps for tape in tapes)
    first = count // 2
    return [
        (one.done[-1] - one.done[first - 1]) / ((count - first) * steps)
        for one in run(tapes, count, begin)
    ]


def repetitions(tapes: Sequence[Tape]) -> int:
    """How often tapes are run until their start no longer matters."""
    return max(2, -(-LEAST_STEPS // max(tape.steps for tape in tapes)))


def run(tapes: Sequence[Tape], repeats: int, begin: Begin = max) -> list[Pass]:
    """Each rank's replay. A collective transfers once all ranks that have it are there. Where the
    ranks' orders contradict each other, one that could never begin does so with those who are
    there. One that begins earlier than a rank arrives takes what this one is late by out of its
    time: only `done` is then told on the clock of all."""
    alone = run_alone(tapes[0], repeats) if len(tapes) == 1 else None
    return [alone] if alone is not None else _run_together(tapes, repeats, begin)


def _run_together(tapes: Sequence[Tape], repeats: int, begin: Begin) -> list[Pass]:
    """Each rank's replay, op by op."""
    members = np.bincount(
        np.concatenate([tape.meeting[tape.meeting >= 0] for tape in tapes])
    ).tolist()
    ranks = [op_by_op(tape, repeats) for tape in tapes]
    passes: dict[int, Pass] = {}
    waiting: dict[Meeting, dict[int, int]] = {}
    ready = list[tuple[int, int | None]]()
    ready.extend((rank, None) for rank in range(len(ranks)))
    late = [0] * len(ranks)
    late_after = np.zeros((len(ranks), repeats), np.int64)
    while ready:
        rank, time = ready.pop()
        stop = ranks[rank].send(time)
        if isinstance(stop, Pass):
            passes[rank] = _earlier(stop, late_after[rank])
        else:
            waiting.setdefault(stop[0], {})[rank] = stop[1] - late[rank]
        meeting = _complete(waiting, members)
        if meeting is None and not ready:
            meeting = next(iter(waiting), None)
        if meeting is not None:
            arrivals = waiting.pop(meeting)
            begun = begin(list(arrivals.values()))
            for rank, arrival in arrivals.items():
                late[rank] += max(arrival - begun, 0)
                late_after[rank, meeting[0] :] = late[rank]
                ready.append((rank, begun + late[rank]))
    return [passes[rank] for rank in range(len(tapes))]


def _earlier(replay: Pass, late_ns: I64) -> Pass:
    """A rank's replay on the clock of all, after which its own is late at the end of each
    repetition."""
    done = np.array(replay.done) - late_ns
    return replay._replace(done=done.tolist())


def _complete(waiting: dict[Meeting, dict[int, int]], members: list[int]) -> Meeting | None:
    """The first collective at which all of its ranks are."""
    complete = (one for one, there in waiting.items() if len(there) == members[one[1]])
    return next(complete, None)


def op_by_op(tape: Tape, repeats: int) -> Running:
    """One rank."""
    count = len(tape.stream)
    tail = sum(tape.tail)
    events = _events(tape)
    needs = tape.dependencies
    times = (tape.duration, tape.latency, tape.gap)
    columns = (tape.stream, *times, needs.on, needs.delay, needs.also_on, tape.meeting)
    stream, duration, latency, gap, on, delay, also_on, meeting = (
        column.tolist() for column in columns
    )
    came = [0] * count
    end = [0] * count
    called = [0] * len(events)
    returned = [0] * len(events)
    free = [0] * (max(stream, default=0) + 1)
    queue = [0] * QUEUE_DEPTH
    done = []
    now = device_done = launched = 0
    for repeat in range(repeats):
        for event, (host, waits, awaited, first, stop) in enumerate(events):
            called[event] = now = now + host
            for i in range(first, stop):
                slot = launched % QUEUE_DEPTH
                launched += 1
                # comparisons instead of max(): a replay spends most of its time here
                if queue[slot] > now:
                    now = queue[slot]
                start = now + latency[i]
                after = free[stream[i]] + gap[i]
                if after > start:
                    start = after
                if on[i] >= 0 and end[on[i]] + delay[i] > start:
                    start = end[on[i]] + delay[i]
                if also_on[i] >= 0 and end[also_on[i]] > start:
                    start = end[also_on[i]]
                queue[slot] = came[i] = start
                if meeting[i] >= 0:
                    start = yield (repeat, meeting[i]), start
                end[i] = free[stream[i]] = ended = start + duration[i]
                if ended > device_done:
                    device_done = ended
            if waits:
                now = max(now, device_done if awaited < 0 else end[awaited])
            returned[event] = now
        now += tail
        done.append(max(now, device_done))
    yield Pass(done, called, returned, came, end)


def _events(tape: Tape) -> list[tuple[int, int, int, int, int]]:
    """For each event the host's time before it, whether it waits, for which op (-1: all), and its
    ops."""
    edges = np.searchsorted(tape.event, np.arange(len(tape.dispatch) + 1))
    host = tape.dispatch + tape.work + tape.loading + tape.profiling
    columns = (host, tape.waits, tape.waits_for, edges[:-1], edges[1:])
    return list(zip(*(column.tolist() for column in columns), strict=True))
