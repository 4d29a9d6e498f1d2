"""What a timing log says of each step beside its time: waiting for data, phases, what it worked
through, what training came to."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traceanalyzer.base import NS_PER_MS, dataclass, digits
from traceanalyzer.trace import F64, I64, Trace

_TIMES = ("data", "compute", "forward", "backward", "optimizer")
_COUNTS = ("samples", "tokens", "peak_memory_bytes")
_FIGURES = ("loss", "grad_norm")


@dataclass(frozen=True)
class LoggedStep:
    """One step as logged. None: the log does not say."""

    data_ms: float | None = None
    compute_ms: float | None = None
    forward_ms: float | None = None
    backward_ms: float | None = None
    optimizer_ms: float | None = None
    phases: str | None = None  # phases by other names, with their times
    samples: int | None = None
    tokens: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    peak_memory_bytes: int | None = None


def logged_each(trace: Trace, count: int) -> list[LoggedStep]:
    """What the log says of each of `count` steps: of the lines that time one, in their order.
    Nothing of any step where the recording is no log."""
    log = trace.step_timings
    timed = np.flatnonzero(log.duration > 0)
    if not trace.only_step_times or len(timed) != count:
        return [LoggedStep()] * count
    columns: dict[str, list[Any]] = {
        f"{name}_ms": _times(getattr(log, name)[timed]) for name in _TIMES
    }
    columns |= {name: _counts(getattr(log, name)[timed]) for name in _COUNTS}
    columns |= {name: _figures(getattr(log, name)[timed]) for name in _FIGURES}
    phases = {phase.name: _times(phase.duration[timed]) for phase in trace.logged_phases}
    known = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    return [
        LoggedStep(**{name: values[i] for name, values in known.items()}, phases=_phases(phases, i))
        for i in range(count)
    ]


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
