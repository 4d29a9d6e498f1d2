"""Times every step of a long run, at the cost of one CUDA event a step and without ever waiting for
the device."""

import atexit
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.collect.host import cuda, environment
from traceanalyzer.collect.host.files import too_large_is_an_error
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.steps.units import Amounts, DataTime

NOTHING = Amounts()
DRAIN_SECONDS = 5.0  # how long the end of a series waits for the device
PENDING = 32
"""Steps that may wait for their event before it is asked for: a query a step would be a second call
a step."""


@dataclass(frozen=True)
class Lap:
    """One step. Times in ms."""

    step: int
    # between the CUDA events at both ends of the step; the host's own interval without CUDA
    iter_ms: float
    host_ms: (
        float  # between the host's readings: less than `iter_ms` while it is ahead of the device
    )
    data_ms: float  # time the host waited for the batch
    amounts: Amounts = NOTHING  # what the step worked through, as far as is known

    def line(self, digits: int | None = None) -> dict[str, float]:
        """What a log says of the step: amounts only where they are known; times with so many
        decimals."""
        values = {**asdict(self), **asdict(self.amounts)}
        del values["amounts"]
        known = {name: value for name, value in values.items() if value is not None}
        return (
            known
            if digits is None
            else {name: round(value, digits) for name, value in known.items()}
        )


class _End(NamedTuple):
    step: int
    host_ns: int
    data_ns: int
    amounts: Amounts
    event: Any

    @property
    def has_come(self) -> bool:
        """Whether the device has got there; the host has, where there is no device."""
        return self.event is None or bool(self.event.query())


class StepSeries:
    """Call `end_step` at the end of each step; `finished_laps` gives those whose times are known by
    now."""

    def __init__(self, first_step: int = 0) -> None:
        self._step = first_step
        self._ends: deque[_End] = deque()
        self._spare: list[Any] = []

    def end_step(self, data_ns: int = 0, amounts: Amounts = NOTHING) -> None:
        """A step has ended that waited `data_ns` for its batch and did `amounts`; the first call
        starts the clock."""
        now = time.perf_counter_ns()
        if not self._spare:
            self._spare = (
                cuda.timing_events(PENDING) if not self._ends else cuda.new_events(PENDING)
            )
        event = self._spare.pop() if self._spare else None
        if event is not None:
            event.record()
        self._ends.append(_End(self._step, now, data_ns, amounts, event))
        self._step += 1

    def finished_laps(self, *, at_end: bool = False) -> list[Lap]:
        """Laps that have ended on the device, each once; at the end of the run all of them."""
        if at_end:
            cuda.wait_at_most(DRAIN_SECONDS)
        elif len(self._ends) <= PENDING:
            return []
        laps = []
        while len(self._ends) > 1 and self._ends[1].has_come:
            begin = self._ends.popleft()
            end = self._ends[0]
            host_ms = (end.host_ns - begin.host_ns) / NS_PER_MS
            on_device = begin.event is not None and end.event is not None
            iter_ms = begin.event.elapsed_time(end.event) if on_device else host_ms
            laps.append(Lap(end.step, iter_ms, host_ms, end.data_ns / NS_PER_MS, end.amounts))
            if begin.event is not None:
                self._spare.append(begin.event)
        return laps


DIGITS = 4  # decimals of a millisecond: CUDA events resolve half a microsecond


class StepSeriesFile:
    """Times every step after the first `wait` ones, a line each in `timings.rank{N}.jsonl`,
    `samples` of loaders."""

    finished = False

    def __init__(
        self, plan: CapturePlan, on_phase: Callable[[str], None] = lambda phase: None
    ) -> None:
        self._plan = plan
        self._on_phase = on_phase
        self._steps = 0
        self._series, self._data = StepSeries(plan.wait), DataTime()
        self._lines: TextIO | None = None
        self._path: Path | None = None

    @property
    def waiting(self) -> bool:
        """Whether the end of the next step is only counted."""
        return self._steps < self._plan.wait

    def step(self) -> None:
        """A step has ended."""
        self._steps += 1
        if self._steps <= self._plan.wait or self.finished:
            return
        if self._lines is None:
            self._open()
        waited_ns, samples = self._data.take()
        self._series.end_step(waited_ns, Amounts(samples=samples))
        self._write(at_end=False)

    def record_now(self) -> None:
        """Start now instead of after `wait` steps."""
        self._steps = max(self._steps, self._plan.wait)

    def close(self) -> None:
        """Write what is known and end."""
        self.finished = True
        if self._lines is not None:
            self._write(at_end=True)
            with too_large_is_an_error():
                self._lines.close()
            self.abandon()

    def discard(self) -> None:
        """End and take the file back."""
        self.close()
        if self._path is not None:
            self._path.unlink()

    def abandon(self) -> None:
        """Forget the file, which is another process's now."""
        self.finished = True
        self._lines = None
        self._data.remove()
        atexit.unregister(self.close)

    def _open(self) -> None:
        self._path = own_file(self._plan.path, "timings", ".jsonl")
        # by lines, so that a killed process leaves what was known, and a fork has nothing to write
        # twice
        self._lines = self._path.open("w", buffering=1)
        self._data.install()
        atexit.register(self.close)
        environment.write_environment(self._plan)
        self._on_phase("recording")

    def _write(self, *, at_end: bool) -> None:
        laps = self._series.finished_laps(at_end=at_end)
        if not laps or self._lines is None:
            return
        with too_large_is_an_error():
            self._lines.write("".join(json.dumps(lap.line(DIGITS)) + "\n" for lap in laps))
