"""The critical path of a replayed step: what it would wait for without the profiler, or under a
scenario.

The same walk as over a recording, over the times of the replay's last repetition. There an op is
bound by whichever of its constraints equals the moment from which it could begin, and a stretch of
the host is what its events say."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.causes.critical_path import Chain, PathKind, SegmentPart, walk
from traceanalyzer.analysis.causes.start import Bindings, HostWaits, StartBound, op_before
from traceanalyzer.analysis.tables.path_rows import PathTime
from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH, QUEUED_LATENCY_NS
from traceanalyzer.base import ms
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import ReplayTimes
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64

KIND_OF_PART = {
    "rest": PathKind.LAUNCH,
    "reading": PathKind.WAIT,
    "work": PathKind.HOST,
    "loading": PathKind.INPUT,
    "profiling": PathKind.PROFILER,
}
"""The kind of path that each part of the host's work is."""


def replayed_path_time(tapes: Sequence[Tape], scale: float = 1.0) -> PathTime:
    """The critical path of the first of the ranks that are replayed together, by kind, a mean step;
    times are multiplied by `scale` (`Replay.scale`)."""
    tape = tapes[0]
    times = run(tapes, repetitions(tapes))[0]
    window = (times.done[-2], times.done[-1])
    device = (np.array(times.ready), np.array(times.end))
    chain = walk(_bindings(tape, times), _waits(tape, times), *device, window)
    host = chain.part == SegmentPart.HOST
    kinds = _kinds(tape, chain)
    spent = np.zeros(len(PathKind))
    of_host = HostClock(tape, times).spent(chain.start[host], chain.end[host])
    for part, time in of_host.items():
        spent[KIND_OF_PART[part]] = time.sum()
    length = chain.end - chain.start
    for kind in PathKind:
        spent[kind] += int(length[(kinds == kind) & ~host].sum())
    return PathTime(**{kind.label: ms(spent[kind] / tape.steps) * scale for kind in PathKind})


def _bindings(tape: Tape, times: ReplayTimes) -> Bindings:
    came = np.array(times.ready)
    end = np.array(times.end)
    waits = tape.dependencies
    candidates = (
        (op_before(tape.stream), tape.gap, StartBound.STREAM),
        (waits.awaited, waits.delay, StartBound.DEPENDENCY),
        (waits.also_awaited, 0, StartBound.DEPENDENCY),
    )
    by = np.full(len(came), StartBound.LAUNCH, np.uint8)
    op = np.full(len(came), -1, np.int32)
    for other, delay, bound in candidates:
        binds = (other >= 0) & (end[other] + delay == came)
        by[binds] = bound
        op[binds] = other[binds]
    since = np.where(op >= 0, end[op], came - tape.latency)
    return Bindings(by, op, came, came - np.minimum(since, came))


def _waits(tape: Tape, times: ReplayTimes) -> HostWaits:
    """Events that held the host: until the work that they wait for had ended, or the queue had
    room."""
    called = np.array(times.called)
    returned = np.array(times.returned)
    end = np.array(times.end)
    launched = np.searchsorted(tape.event, np.arange(len(called)), side="right") - 1
    last = np.maximum.accumulate(
        np.where(end == np.maximum.accumulate(end), np.arange(len(end)), 0)
    )
    awaited = np.where(tape.waits_for >= 0, tape.waits_for, np.append(last, -1)[launched])
    op = np.where(tape.waits, awaited, launched - QUEUE_DEPTH)
    held = np.flatnonzero((returned > called) & (op >= 0))
    return HostWaits(held, returned[held], op[held])


def _kinds(tape: Tape, chain: Chain) -> I64:
    """What each part of the chain in which the host does not work is. Where the replay keeps a long
    pause, the op of another stream that an op waited for in the recording is what held the
    device."""
    running = np.select(
        [tape.communication, tape.copy], [PathKind.COMMUNICATION, PathKind.COPY], PathKind.COMPUTE
    )
    bindings = tape.source.started.bindings
    held_by = np.full(len(tape.source.trace.device_ops) + 1, PathKind.OTHER)
    held_by[tape.row] = running
    other = np.where(bindings.by == StartBound.DEPENDENCY, bindings.op, -1)
    queued = (chain.part == SegmentPart.PAUSE) & (chain.end - chain.start < QUEUED_LATENCY_NS)
    launching = queued | (chain.part == SegmentPart.LATENCY)
    return np.select(
        [chain.part == SegmentPart.OP, launching, chain.part == SegmentPart.RETURN],
        [np.append(running, 0)[chain.op], PathKind.LAUNCH, PathKind.WAIT],
        np.append(held_by[other[tape.row]], PathKind.OTHER)[chain.op],
    )


class HostClock:
    """What the host of a replayed tape spends its time on; between two events all that it does is
    spread evenly."""

    def __init__(self, tape: Tape, times: ReplayTimes) -> None:
        tail = tape.tail
        kept = {name: getattr(tape, name) for name in ("reading", "work", "loading", "profiling")}
        parts = {"rest": tape.dispatch - tape.reading, **kept}
        after = {"rest": tail.dispatch, "reading": 0, **tail._asdict()}
        first = times.called[0] - sum(int(part[0]) for part in parts.values())
        calls = np.stack((times.called, times.returned), axis=1)
        time = np.concatenate(([first], calls.ravel()))
        self._time = np.append(time, time[-1] + sum(tail))
        self._done = dict[str, I64]()
        for name, part in parts.items():  # time spent on each until each moment of the clock
            steps = np.append(0, np.repeat(np.cumsum(part), 2))
            self._done[name] = np.append(steps, steps[-1] + after[name])

    def spent(self, start: I64, end: I64) -> dict[str, F64]:
        """Time on each part of its work within each of these intervals, ns; waits are the rest of
        them."""
        clock = self._time
        each = self._done.items()
        return {
            name: np.interp(end, clock, done) - np.interp(start, clock, done) for name, done in each
        }
