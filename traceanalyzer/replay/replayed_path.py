"""The critical path of a replayed step: what it would wait for without the profiler, or under a scenario.

The same walk as over a recording, over the times of the replay's last repetition. There an op is bound by whichever of
its constraints equals the moment from which it could begin, and a stretch of the host is what its events say.
"""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.causes.critical_path import Chain, Part, PathKind, walk
from traceanalyzer.analysis.causes.start import Bindings, Bound, HostWaits, op_before
from traceanalyzer.analysis.tables.path_rows import PathTime
from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH, QUEUED_LATENCY_NS
from traceanalyzer.base import ms
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import Pass
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
    """The critical path of the first of the ranks that are replayed together, by kind, a mean step; times are
    multiplied by `scale` (`Replay.scale`)."""
    tape, times = tapes[0], run(tapes, repetitions(tapes))[0]
    end = np.array(times.end)
    window = (times.done[-2], times.done[-1])
    chain = walk(_bindings(tape, times), _waits(tape, times), np.array(times.came), end, window)
    spent = _on_host(tape, times, chain)
    for kind, rows in _on_device(tape, chain).items():
        spent[kind] += int((chain.end - chain.start)[rows].sum())
    return PathTime(**{kind.label: ms(spent[kind] / tape.steps) * scale for kind in PathKind})


def _bindings(tape: Tape, times: Pass) -> Bindings:
    came, end = np.array(times.came), np.array(times.end)
    before = op_before(tape.stream)
    on, also_on = tape.dependencies.on, tape.dependencies.also_on
    candidates = ((before, tape.gap, Bound.STREAM), (on, tape.dependencies.delay, Bound.DEPENDENCY),
                  (also_on, 0, Bound.DEPENDENCY))  # fmt: skip
    by, op = np.full(len(came), Bound.LAUNCH, np.uint8), np.full(len(came), -1, np.int32)
    for other, delay, bound in candidates:
        binds = (other >= 0) & (end[other] + delay == came)
        by[binds], op[binds] = bound, other[binds]
    since = np.where(op >= 0, end[op], came - tape.latency)
    return Bindings(by, op, came, came - np.minimum(since, came))


def _waits(tape: Tape, times: Pass) -> HostWaits:
    """Events that held the host: until the work that they wait for had ended, or the queue had room."""
    called, returned, end = np.array(times.called), np.array(times.returned), np.array(times.end)
    launched = np.searchsorted(tape.event, np.arange(len(called)), side="right") - 1
    device_done = np.maximum.accumulate(end)
    last = np.maximum.accumulate(np.where(end == device_done, np.arange(len(end)), 0))
    awaited = np.where(tape.waits_for >= 0, tape.waits_for, np.append(last, -1)[launched])
    op = np.where(tape.waits, awaited, launched - QUEUE_DEPTH)
    held = np.flatnonzero((returned > called) & (op >= 0))
    return HostWaits(held, returned[held], op[held])


def _on_device(tape: Tape, chain: Chain) -> dict[PathKind, I64]:
    """Rows of the chain in which the host does not work, by kind."""
    running = np.select([tape.communication, tape.copy], [PathKind.COMMUNICATION, PathKind.COPY], PathKind.COMPUTE)
    queued = (chain.part == Part.PAUSE) & (chain.end - chain.start < QUEUED_LATENCY_NS)
    kind = np.select(
        [chain.part == Part.OP, queued | (chain.part == Part.LATENCY), chain.part == Part.RETURN],
        [np.append(running, 0)[chain.op], PathKind.LAUNCH, PathKind.WAIT],
        np.append(_held_by(tape, running), PathKind.OTHER)[chain.op],
    )
    return {one: np.flatnonzero((kind == one) & (chain.part != Part.HOST)) for one in PathKind}


def _held_by(tape: Tape, running: I64) -> I64:
    """For each op the kind of the op of another stream that it waited for in the recording: where the replay keeps a
    long pause, that is what held the device."""
    bindings, kind = tape.source.started.bindings, np.full(len(tape.source.trace.device_ops) + 1, PathKind.OTHER)
    kind[tape.row] = running
    other = np.where(bindings.by == Bound.DEPENDENCY, bindings.op, -1)
    return kind[other[tape.row]]


def _on_host(tape: Tape, times: Pass, chain: Chain) -> F64:
    """Time of the host's stretches by kind, ns."""
    rows = chain.part == Part.HOST
    spent = np.zeros(len(PathKind))
    for part, time in HostClock(tape, times).spent(chain.start[rows], chain.end[rows]).items():
        spent[KIND_OF_PART[part]] = time.sum()
    return spent


class HostClock:
    """What the host of a replayed tape spends its time on; between two events all that it does is spread evenly."""

    def __init__(self, tape: Tape, times: Pass) -> None:
        parts = {
            "rest": (tape.dispatch - tape.reading, tape.tail.dispatch),
            "reading": (tape.reading, 0),
            "work": (tape.work, tape.tail.work),
            "loading": (tape.loading, tape.tail.loading),
            "profiling": (tape.profiling, tape.tail.profiling),
        }
        first = times.called[0] - sum(int(part[0]) for part, _ in parts.values())
        time = np.concatenate(([first], np.stack((times.called, times.returned), axis=1).ravel()))
        self._time = np.append(time, time[-1] + sum(tape.tail))
        self._done = {name: _total(part, tail) for name, (part, tail) in parts.items()}

    def spent(self, start: I64, end: I64) -> dict[str, F64]:
        """Time on each part of its work within each of these intervals, ns; waits are the rest of them."""
        return {
            name: np.interp(end, self._time, done) - np.interp(start, self._time, done)
            for name, done in self._done.items()
        }


def _total(part: I64, tail: int) -> I64:
    """Time spent on a part of its work until each moment of the clock."""
    steps = np.concatenate(([0], np.repeat(np.cumsum(part), 2)))
    return np.append(steps, steps[-1] + tail)
