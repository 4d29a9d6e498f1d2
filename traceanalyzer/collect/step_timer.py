"""Times the steps of a loop by hand, waiting for data apart from the rest.

    timer = StepTimer(warmup=10)
    for batch in timer.batches(loader):
        train_step(batch)
        timer.step(samples=len(batch))
    print(timer.summary())

The device is never waited for: a CUDA event marks the end of each step, and the host's clock where
there is no CUDA."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from traceanalyzer.base import dataclass
from traceanalyzer.collect.host.cuda import most_allocated
from traceanalyzer.collect.plan import WAIT
from traceanalyzer.collect.steps.step_clock import summarize
from traceanalyzer.collect.steps.step_series import Lap, StepSeries
from traceanalyzer.collect.steps.units import Amounts, Rates, rates

T = TypeVar("T")


@dataclass(frozen=True)
class TimerSummary:
    """What the timed steps took. Times in ms."""

    iter_ms: dict[str, float]
    data_ms: dict[str, float]
    data_share: float  # waiting for data over the whole, 0..1
    rates: Rates
    # the most that was allocated on the device so far, since the process began; None without CUDA
    peak_bytes: int | None = None


class StepTimer:
    """Times every step after the first `warmup` ones (at least one: its end starts the clock)."""

    def __init__(
        self,
        *,
        warmup: int = WAIT,
        path: str | Path | None = None,
        peak_flops_per_s: float | None = None,
    ) -> None:
        if warmup < 1:
            raise ValueError("warmup must be at least 1: the end of a first step starts the clock")
        self._warmup = warmup
        self._peak = peak_flops_per_s
        self._path = Path(path) if path else None
        self._series = StepSeries(warmup)
        self._steps = self._data_ns = 0
        self._laps: list[Lap] = []

    def batches(self, source: Iterable[T]) -> Iterator[T]:
        """Hand on the batches; the wait for each is its step's data time."""
        batches = iter(source)
        with suppress(StopIteration):
            while True:
                begin = time.perf_counter_ns()
                batch = next(batches)
                self._data_ns += time.perf_counter_ns() - begin
                yield batch

    def step(
        self,
        *,
        samples: float | None = None,
        tokens: float | None = None,
        padded_tokens: float | None = None,
        flops: float | None = None,
    ) -> None:
        """A step has ended that worked through these amounts."""
        self._steps += 1
        if self._steps >= self._warmup:
            self._series.end_step(self._data_ns, Amounts(samples, tokens, padded_tokens, flops))
            self._laps += self._series.finished_laps()
        self._data_ns = 0

    def laps(self) -> list[Lap]:
        """Every timed step; waits for the last one. Writes them to `path`, a JSON line each, if one
        was given."""
        self._laps += self._series.finished_laps(at_end=True)
        if self._path is not None:
            lines = [json.dumps(lap.line()) + "\n" for lap in self._laps]
            self._path.write_text("".join(lines))
        return list(self._laps)

    def summary(self) -> TimerSummary:
        """Statistics of the timed steps. Raises ValueError where there is none."""
        laps = self.laps()
        if not laps:
            raise ValueError(
                f"no step was timed: {self._steps} steps, of which the first "
                f"{self._warmup} are warm-up"
            )
        elapsed = sum(lap.iter_ms for lap in laps)
        return TimerSummary(
            iter_ms=summarize([lap.iter_ms for lap in laps]),
            data_ms=summarize([lap.data_ms for lap in laps]),
            data_share=sum(lap.data_ms for lap in laps) / elapsed,
            rates=rates(
                elapsed, len(laps), sum((lap.amounts for lap in laps), Amounts()), self._peak
            ),
            peak_bytes=most_allocated(),
        )
