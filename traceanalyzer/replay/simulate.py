"""Replays tapes: one pass over the host's events and the ops they launch, in integer nanoseconds.

The ranks of a run are replayed together. Each stops at a collective that it shares with others, at
the moment from which it could take part, and goes on from the moment at which the collective
begins."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH
from traceanalyzer.replay.stretches import ReplayTimes, run_alone
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64

LEAST_STEPS = 24  # steps to run at least: the tape is repeated until its start no longer matters

Meeting = tuple[int, int]  # a shared collective: repetition and number (`Tape.meeting`)
Begin = Callable[[Sequence[int]], int]
"""When a shared collective begins, given the arrival of each of its ranks: with the last of them,
or as if some were not late."""
Running = Generator[tuple[Meeting, int] | ReplayTimes, Any, None]
"""The replay of a rank: yields each shared collective with the moment of the rank's arrival, is
sent the moment at which the collective begins, and yields the times of the replay last."""
Resumption = tuple[int, int | None]  # a rank that can go on, and the moment from which; None: start


def step_time_ns(tape: Tape) -> float:
    """Mean step time of the tape in its steady state, ns."""
    return step_times_ns([tape])[0]


def step_times_ns(tapes: Sequence[Tape], begin: Begin = max) -> list[float]:
    """The step times of each rank's tape, run together, ns. All hold equally many steps."""
    count = repetitions(tapes)
    steps = max(tape.steps for tape in tapes)
    first = count // 2
    return [
        (times.done[-1] - times.done[first - 1]) / ((count - first) * steps)
        for times in run(tapes, count, begin)
    ]


def repetitions(tapes: Sequence[Tape]) -> int:
    """How often tapes are run until their start no longer matters."""
    return max(2, -(-LEAST_STEPS // max(tape.steps for tape in tapes)))


def run(tapes: Sequence[Tape], repeats: int, begin: Begin = max) -> list[ReplayTimes]:
    """The replay of each rank. A collective transfers once all ranks that have it have arrived.
    Where the ranks' orders contradict each other, a collective that could never begin does so with
    the ranks that have arrived. Where `begin` lets one begin before a rank arrives, that rank runs
    on late: its `done` is on the clock of all ranks, its other times are on its own."""
    alone = run_alone(tapes[0], repeats) if len(tapes) == 1 else None
    return [alone] if alone is not None else _run_together(tapes, repeats, begin)


def _run_together(tapes: Sequence[Tape], repeats: int, begin: Begin) -> list[ReplayTimes]:
    """The replay of each rank, op by op."""
    shared = [tape.meeting[tape.meeting >= 0] for tape in tapes]
    members = np.bincount(np.concatenate(shared)).tolist()
    ranks = [op_by_op(tape, repeats) for tape in tapes]
    replays: dict[int, ReplayTimes] = {}
    arrivals: dict[Meeting, dict[int, int]] = {}
    runnable: list[Resumption] = [(rank, None) for rank in range(len(ranks))]
    late = [0] * len(ranks)  # how far each rank's own clock is behind that of all
    late_after = np.zeros((len(ranks), repeats), np.int64)
    while runnable:
        rank, resumed_at = runnable.pop()
        stop = ranks[rank].send(resumed_at)
        if isinstance(stop, ReplayTimes):
            replays[rank] = _on_clock_of_all(stop, late_after[rank])
        else:
            meeting, arrival = stop
            arrivals.setdefault(meeting, {})[rank] = arrival - late[rank]
        begins = _complete(arrivals, members)
        if begins is None and not runnable:
            begins = next(iter(arrivals), None)
        if begins is None:
            continue
        arrived = arrivals.pop(begins)
        begun = begin(list(arrived.values()))
        for member, arrival in arrived.items():
            late[member] += max(arrival - begun, 0)
            late_after[member, begins[0] :] = late[member]
            runnable.append((member, begun + late[member]))
    return [replays[rank] for rank in range(len(tapes))]


def _on_clock_of_all(times: ReplayTimes, late_after: I64) -> ReplayTimes:
    """The replay of a rank with `done` on the clock of all ranks; its own was so much behind at the
    end of each repetition, ns."""
    done = np.array(times.done) - late_after
    return times._replace(done=done.tolist())


def _complete(arrivals: dict[Meeting, dict[int, int]], members: list[int]) -> Meeting | None:
    """The first collective at which all of its ranks have arrived."""
    complete = (
        meeting for meeting, arrived in arrivals.items() if len(arrived) == members[meeting[1]]
    )
    return next(complete, None)


def op_by_op(tape: Tape, repeats: int) -> Running:
    """Replay the tape of one rank, op by op. Yields each shared collective with the moment from
    which this rank could take part, is sent the moment at which it begins, and yields the
    `ReplayTimes` last."""
    events = _events(tape)
    needs = tape.dependencies
    stream = tape.stream.tolist()
    duration = tape.duration.tolist()
    latency = tape.latency.tolist()
    gap = tape.gap.tolist()
    awaited = needs.awaited.tolist()
    delay = needs.delay.tolist()
    also_awaited = needs.also_awaited.tolist()
    meeting = tape.meeting.tolist()
    ready = [0] * len(stream)
    end = [0] * len(stream)
    called = [0] * len(events)
    returned = [0] * len(events)
    stream_free = [0] * (max(stream, default=0) + 1)
    left_queue = [0] * QUEUE_DEPTH  # when each of the last launches left the launch queue
    tail_ns = sum(tape.tail)
    done = []
    now = device_done = launches = 0
    for repeat in range(repeats):
        for number, event in enumerate(events):
            host_ns, is_sync, last_awaited, first, stop = event
            called[number] = now = now + host_ns
            for op in range(first, stop):
                # comparisons instead of max(): a replay spends most of its time here
                slot = launches % QUEUE_DEPTH
                launches += 1
                if left_queue[slot] > now:
                    now = left_queue[slot]
                start = now + latency[op]
                after_previous = stream_free[stream[op]] + gap[op]
                if after_previous > start:
                    start = after_previous
                if awaited[op] >= 0:
                    after_awaited = end[awaited[op]] + delay[op]
                    if after_awaited > start:
                        start = after_awaited
                if also_awaited[op] >= 0 and end[also_awaited[op]] > start:
                    start = end[also_awaited[op]]
                left_queue[slot] = ready[op] = start
                if meeting[op] >= 0:
                    start = yield (repeat, meeting[op]), start
                end[op] = stream_free[stream[op]] = ended = start + duration[op]
                if ended > device_done:
                    device_done = ended
            if is_sync:
                now = max(now, device_done if last_awaited < 0 else end[last_awaited])
            returned[number] = now
        now += tail_ns
        done.append(max(now, device_done))
    yield ReplayTimes(done, called, returned, ready, end)


class _Event(NamedTuple):
    """An event of the host: an API call, and what the host does before it."""

    host_ns: int  # the host's own time since the event before it
    is_sync: bool  # whether it waits for the device
    last_awaited: int  # the op that it waits for, -1: all launched before it
    first: int  # its launches: the ops from the first up to before `stop`
    stop: int


def _events(tape: Tape) -> list[_Event]:
    """The tape's host events, in time order."""
    edges = np.searchsorted(tape.event, np.arange(len(tape.dispatch) + 1))
    columns = (tape.host_before_event, tape.waits, tape.waits_for, edges[:-1], edges[1:])
    return list(map(_Event, *(column.tolist() for column in columns)))
