"""The iterations of a serving engine replayed: without the profiler, of another batch, launched
another way."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import at, where_changed
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.serving.cut import Iterations, find_iterations
from traceanalyzer.analysis.serving.rows import found_in_log
from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.replay.changes.kernels import GRAPH_CALL_NS, in_graph
from traceanalyzer.replay.changes.warmup import OWN_WORK_NS
from traceanalyzer.replay.host_speed import (
    HOST_SPREAD,
    LEAST_SHARE,
    bisected,
    host_scaled,
    share_of_capture,
    with_graphs_untraced,
)
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import run
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I32, I64, Bool

FAITHFUL = 0.1  # a replay of the recording that is off by more predicts nothing
MOST_ITERATIONS = 512  # more of a recording, those in its middle, say nothing new


@dataclass(frozen=True, eq=False)
class Served:
    """The iterations on tapes: as recorded, and without the profiler with a fast, the usual and a
    slow host."""

    found: Iterations
    recorded: Tape
    fast: Tape
    usual: Tape
    slow: Tape
    of_op: I32  # for each op of the tapes its iteration, -1 outside all

    @classmethod
    def of(cls, rated: Rated) -> "Served | None":
        """None where nothing marks iterations, or where launches or device work were not recorded.
        The host is as fast as the server's log says, else as those of captures on any machine."""
        cut = rated.timed.memo(find_iterations)
        steps = rated.timed.steps
        if cut is None or not steps.found:
            return None
        chosen = np.zeros(len(steps), bool)
        chosen[max(len(steps) - MOST_ITERATIONS, 0) // 2 :][:MOST_ITERATIONS] = True
        tape = make_tape(rated, chosen)
        if tape is None:
            return None
        share, spread = share_of_capture(rated.trace)
        untraced = with_graphs_untraced(tape)
        (fast,) = host_scaled((untraced,), share - spread)
        (usual,) = host_scaled((untraced,), share)
        (slow,) = host_scaled((tape,), share + spread)
        served = cls(cut, tape, fast, usual, slow, cut.of_op[tape.row])
        log = rated.timed.memo(found_in_log)
        decodes = [
            i
            for i, one in enumerate(cut.told)
            if one.phase == "decode" and np.isfinite(cut.period_ns[i])
        ]
        if log is None or log.stretch is None or not decodes:
            return served
        ms = float(np.median(cut.period_ns[decodes])) / NS_PER_MS / log.stretch
        share = bisected(
            lambda one: served.median_ms(host_scaled((untraced,), one)[0], decodes) <= ms,
            LEAST_SHARE,
            1.0,
        )
        (fast,) = host_scaled((untraced,), share * (1 - HOST_SPREAD))
        (usual,) = host_scaled((untraced,), share)
        (slow,) = host_scaled((untraced,), share * (1 + HOST_SPREAD))
        return replace(served, fast=fast, usual=usual, slow=slow)

    def periods_ns(self, tape: Tape) -> F64:
        """The time of each iteration since the end of the one before it; NaN where that is not on
        the tape."""
        ended = np.asarray(run([tape], 1)[0].end)
        last = np.full(len(self.found), -1, np.int64)
        np.maximum.at(last, self.of_op[self.of_op >= 0], ended[self.of_op >= 0])
        before = np.append(-1, np.maximum.accumulate(last)[:-1])
        return np.where((last >= 0) & (before >= 0), last - before, np.nan)

    def median_ms(self, tape: Tape, iterations: list[int]) -> float:
        """The median time of these iterations, ms."""
        times = self.periods_ns(tape)[iterations]
        return (
            float(np.median(times[np.isfinite(times)])) / NS_PER_MS
            if np.isfinite(times).any()
            else 0.0
        )

    def medians_ms(self, iterations: list[int]) -> list[float]:
        """The median as recorded, and without the profiler with a fast, the usual and a slow
        host."""
        return [
            self.median_ms(tape, iterations)
            for tape in (self.recorded, self.fast, self.usual, self.slow)
        ]

    @property
    def faithful(self) -> bool:
        """Whether the replay of the recording takes as long as it did."""
        known = np.isfinite(self.periods_ns(self.recorded)) & np.isfinite(self.found.period_ns)
        ratio = (
            self.mean_ms(self.recorded) * NS_PER_MS / float(self.found.period_ns[known].mean())
            if known.any()
            else 0.0
        )
        return abs(ratio - 1.0) <= FAITHFUL

    def mean_ms(self, tape: Tape) -> float:
        """The mean time of all iterations whose time is known, ms."""
        return float(np.nanmean(self.periods_ns(tape))) / NS_PER_MS

    def host_ns(self, tape: Tape) -> F64:
        """The host's own time in each iteration, waits left out."""
        event = self._of_event(tape)
        spent = tape.host_before_event
        known = event >= 0
        host_ns = np.bincount(event[known], spent[known], len(self.found))
        return host_ns.astype(np.float64)

    def _of_event(self, tape: Tape) -> I32:
        """For each event the iteration of what it, or the next one that launches anything,
        launches."""
        return self.of_op[
            np.minimum(
                np.searchsorted(tape.event, np.arange(len(tape.dispatch))), len(self.of_op) - 1
            )
        ]

    def scaled(self, tape: Tape, device: F64, host: F64) -> Tape:
        """The tape with device work and host time of each iteration so many times as long."""
        longer = np.append(host, 1.0)[self._of_event(tape)]
        times = (
            tape.duration * np.append(device, 1.0)[self.of_op],
            tape.dispatch * longer,
            tape.work * longer,
        )
        duration, dispatch, work = (np.rint(one).astype(np.int64) for one in times)
        return replace(tape, duration=duration, dispatch=dispatch, work=work)

    def in_graphs(self, tape: Tape) -> Tape:
        """What each iteration launches inside its mark is one CUDA graph. What the host does before
        the first launch stays, as does all that it does besides."""
        mark = self._mark(tape)
        inside = mark >= 0
        first = inside & where_changed(mark)
        own = tape.work >= OWN_WORK_NS
        launched = inside[tape.event]
        work = np.where(inside & ~first & ~tape.waits & ~own, 0, tape.work)
        latency = np.where(launched & ~first[tape.event], 0, tape.latency)
        graph = replace(
            tape, work=work, latency=latency, gap=np.where(launched, in_graph(tape.gap), tape.gap)
        )
        return graph.with_dispatch(
            np.where(first, GRAPH_CALL_NS, np.where(inside, 0, tape.dispatch))
        )

    def _mark(self, tape: Tape) -> I64:
        """In which iteration's mark each event lies, -1: in none."""
        called = tape.source.trace.api_calls.start[tape.call]
        order = np.argsort(self.found.host_start, kind="stable")
        place = np.searchsorted(self.found.host_start[order], called, side="right") - 1
        mark = at(order, place, -1)
        return np.where(called < at(self.found.host_end, mark, -1), mark, -1).astype(np.int64)

    def _inside(self, tape: Tape) -> Bool:
        """Which events lie in an iteration's mark."""
        return self._mark(tape) >= 0

    def less_between(self, tape: Tape) -> Tape:
        """Half of what the host does between marks is gone: scheduling, inputs, sampling, text."""
        share = np.where(self._inside(tape), 1.0, 0.5)
        return replace(
            tape.with_dispatch(tape.dispatch * share),
            work=np.rint(tape.work * share).astype(np.int64),
        )

    def ahead(self, tape: Tape) -> Tape:
        """The host waits for the iteration before, not for the one that it launched last."""
        launched = np.searchsorted(tape.event, np.arange(len(tape.dispatch)), side="right") - 1
        awaited = np.where(tape.waits_for >= 0, tape.waits_for, launched)
        iteration = np.where(awaited >= 0, self.of_op[awaited], -1)
        last = np.full(len(self.found) + 1, -1, np.int64)
        np.maximum.at(last, self.of_op, np.arange(len(self.of_op)))
        earlier = np.where(iteration > 0, last[iteration - 1], -1)
        shifted = tape.waits & (iteration >= 0) & (iteration == self.of_op[launched])
        waits = np.where(shifted, earlier >= 0, tape.waits)
        return replace(tape, waits=waits, waits_for=np.where(shifted, earlier, tape.waits_for))
