"""Writes one line a step (`collect timing`): `{"step": 12, "iter_ms": 41.2, "host_ms": 40.9, "data_ms": 3.1}`.

Where the batches come from a DataLoader, `"samples": 64` too.
"""

import atexit
import json
from typing import TYPE_CHECKING, TextIO

from traceanalyzer.collect.host import environment
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.steps.step_series import StepSeries
from traceanalyzer.collect.steps.units import Amounts, DataTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer.collect.plan import Plan

DIGITS = 4
"""Decimals of a millisecond: CUDA events resolve half a microsecond."""


class StepLog:
    """Times every step after the first `wait` ones, into `timings.rank{N}.jsonl`."""

    finished = False

    def __init__(self, plan: "Plan", on_phase: "Callable[[str], None]" = lambda phase: None) -> None:
        self._plan = plan
        self._on_phase = on_phase
        self._steps = 0
        self._series = StepSeries(plan.wait)
        self._data = DataTime()
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
        # by lines, so that a killed process leaves what was known, and a fork has nothing to write twice
        self._lines = self._path.open("w", buffering=1)
        self._data.install()
        atexit.register(self.close)
        environment.write(self._plan)
        self._on_phase("recording")

    def _write(self, *, at_end: bool) -> None:
        laps = self._series.finished_laps(at_end=at_end)
        if laps and self._lines is not None:
            self._lines.write("".join(json.dumps(lap.line(DIGITS)) + "\n" for lap in laps))
