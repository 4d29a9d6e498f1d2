"""Times every step of a long run, at the cost of one CUDA event a step and without ever waiting for the device."""

import time
from collections import deque
from dataclasses import asdict
from typing import Any

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.steps.units import Amounts

NS_PER_MS = 1e6
NOTHING = Amounts()
DRAIN_SECONDS = 5.0
"""How long the end of a series waits for the device."""

PENDING = 32
"""Steps that may wait for their event before it is asked for: a query a step would be a second call a step."""


@dataclass(frozen=True)
class Lap:
    """One step. Times in ms."""

    step: int
    iter_ms: float
    """Between the CUDA events at both ends of the step; the host's own interval without CUDA."""
    host_ms: float
    """Between the host's readings at both ends: less than `iter_ms` while the host runs ahead of the device."""
    data_ms: float
    """Time the host waited for the batch."""
    amounts: Amounts = NOTHING
    """What the step worked through, as far as is known."""

    def line(self, digits: int | None = None) -> dict[str, float]:
        """What a log says of the step: amounts only where they are known; times with so many decimals."""
        values = {**asdict(self), **asdict(self.amounts)}
        del values["amounts"]
        known = {name: value for name, value in values.items() if value is not None}
        return known if digits is None else {name: round(value, digits) for name, value in known.items()}


@dataclass(frozen=True)
class _End:
    step: int
    host_ns: int
    data_ns: int
    amounts: Amounts
    event: Any


class StepSeries:
    """Call `end_step` at the end of each step; `finished_laps` gives those whose times are known by now."""

    def __init__(self, first_step: int = 0) -> None:
        self._step = first_step
        self._ends: deque[_End] = deque()
        self._spare: list[Any] = []

    def end_step(self, data_ns: int = 0, amounts: Amounts = NOTHING) -> None:
        """A step has ended, in which the host waited `data_ns` for its batch and worked through `amounts`. The first
        call only starts the clock."""
        self._ends.append(_End(self._step, time.perf_counter_ns(), data_ns, amounts, self._recorded()))
        self._step += 1

    def finished_laps(self, *, at_end: bool = False) -> list[Lap]:
        """Laps that have ended on the device, each once; at the end of the run all of them."""
        if at_end:
            cuda.wait_at_most(DRAIN_SECONDS)
        elif len(self._ends) <= PENDING:
            return []
        laps = []
        while len(self._ends) > 1 and _done(self._ends[1]):
            begin = self._ends.popleft()
            laps.append(_lap(begin, self._ends[0]))
            if begin.event is not None:
                self._spare.append(begin.event)
        return laps

    def _recorded(self) -> Any:
        if not self._spare:
            self._spare = cuda.timing_events(PENDING) if not self._ends else cuda.new_events(PENDING)
        if not self._spare:
            return None
        event = self._spare.pop()
        event.record()
        return event


def _done(end: _End) -> bool:
    return end.event is None or bool(end.event.query())


def _lap(begin: _End, end: _End) -> Lap:
    host_ms = (end.host_ns - begin.host_ns) / NS_PER_MS
    on_device = begin.event is not None and end.event is not None
    iter_ms = begin.event.elapsed_time(end.event) if on_device else host_ms
    return Lap(end.step, iter_ms, host_ms, end.data_ns / NS_PER_MS, end.amounts)
