"""What a timing log says of each step beside its time: waiting for data, phases, what it worked
through, what training came to."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traceanalyzer.base import NS_PER_MS, digits
from traceanalyzer.trace import F64, I64, Trace

_TIMES = ("data", "compute", "forward", "backward", "optimizer")
_COUNTS = ("samples", "tokens", "peak_memory_bytes")
_FIGURES = ("loss", "grad_norm")


def logged_columns(trace: Trace, count: int) -> dict[str, list[Any]]:
    """What the log says of each of `count` steps, of the lines that time one, in their order: columns
    by the names that `StepRow` has for them; None where the log does not say, and everywhere where
    the recording is no log."""
    log = trace.step_timings
    timed = np.flatnonzero(log.duration > 0)
    if not trace.only_step_times or len(timed) != count:
        names = (*(f"{name}_ms" for name in _TIMES), *_COUNTS, *_FIGURES, "phases")
        return {name: [None] * count for name in names}
    columns: dict[str, list[Any]] = {
        f"{name}_ms": _times(getattr(log, name)[timed]) for name in _TIMES
    }
    columns |= {name: _counts(getattr(log, name)[timed]) for name in _COUNTS}
    columns |= {name: _figures(getattr(log, name)[timed]) for name in _FIGURES}
    phases = {phase.name: _times(phase.duration[timed]) for phase in trace.logged_phases}
    return columns | {"phases": [_phases(phases, i) if phases else None for i in range(count)]}


def _times(values: I64) -> list[float | None]:
    return [None if value < 0 else value / NS_PER_MS for value in values.tolist()]


def _counts(values: I64) -> list[int | None]:
    return [None if value < 0 else value for value in values.tolist()]


def _figures(values: F64) -> list[float | None]:
    known = np.isfinite(values).tolist()
    return [time if finite else None for time, finite in zip(values.tolist(), known, strict=True)]


def _phases(phases: Mapping[str, list[float | None]], row: int) -> str | None:
    times = [(name, values[row]) for name, values in phases.items()]
    known = [f"{name} {digits(time)} ms" for name, time in times if time is not None]
    return ", ".join(known) or None
