"""What a timing log says of each step beside its time: waiting for data, phases, what it worked
through, what training came to."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from traceanalyzer.base import NS_PER_MS, digits, regex
from traceanalyzer.trace import F64, I64, StepTimings, Trace

_TIMES = ("data", "compute", "forward", "backward", "optimizer")
_COUNTS = ("samples", "tokens", "peak_memory_bytes")
_FIGURES = ("loss", "grad_norm")
_OF_PROFILER = "ProfilerStep"
_NUMBER = regex(r"(\d{1,15})\D*$")
"""The last number in a step's name."""
_LEAST_TIMED = 3
"""Steps: fewer are like others by chance."""
_ALIKE = 0.1
"""A logged time differs from the recorded one by at most this share: their marks lie apart."""


def logged_columns(trace: Trace, names: Sequence[str], duration: I64) -> dict[str, list[Any]]:
    """What the log says of each step: columns by the names that `StepRow` has for them; None where
    the log does not say. Of a recording with a log of its run: of those steps that `log_rows` finds
    in it. `names`, `duration`: the steps' names, and their times in ns."""
    log = trace.step_timings
    rows = log_rows(trace, names, duration)
    if rows is None:
        columns = (*(f"{name}_ms" for name in _TIMES), *_COUNTS, *_FIGURES, "phases")
        return {name: [None] * len(names) for name in columns}
    found: dict[str, list[Any]] = {
        f"{name}_ms": _times(_taken(getattr(log, name), rows)) for name in _TIMES
    }
    found |= {name: _counts(_taken(getattr(log, name), rows)) for name in _COUNTS}
    found |= {name: _figures(_taken(getattr(log, name), rows)) for name in _FIGURES}
    phases = {phase.name: _times(_taken(phase.duration, rows)) for phase in trace.logged_phases}
    texts = [_phases(phases, place) if phases else None for place in range(len(rows))]
    return found | {"phases": texts}


def log_rows(trace: Trace, names: Sequence[str], duration: I64) -> I64 | None:
    """The row of the log that is of each step, shape (steps,), -1 where none is; None where that
    cannot be told.

    Steps with numbers of the program's own have the rows with these numbers. torch.profiler counts
    from where it was started: its steps are those of the only stretch of the log that took as
    long."""
    log = trace.step_timings
    timed = np.flatnonzero(log.duration > 0)
    if trace.only_step_times:
        return timed if len(timed) == len(names) else None
    if not len(log) or log.of_server or not len(names):
        return None
    numbers = _own_numbers(names)
    return _by_times(log, timed, duration) if numbers is None else _by_numbers(log, numbers)


def _own_numbers(names: Sequence[str]) -> list[int] | None:
    """The numbers that the program itself gave its steps; None where it did not."""
    found = [_NUMBER.search(name) for name in names if not name.startswith(_OF_PROFILER)]
    numbers = [int(match[1]) for match in found if match]
    return numbers if len(numbers) == len(names) else None


def _by_numbers(log: StepTimings, numbers: Sequence[int]) -> I64 | None:
    """The rows with these numbers; None where the log has none of them."""
    row_of = {number: row for row, number in enumerate(log.step.tolist())}
    rows = np.array([row_of.get(number, -1) for number in numbers], np.int64)
    return rows if (rows >= 0).any() else None


def _by_times(log: StepTimings, timed: I64, duration: I64) -> I64 | None:
    """The rows of the only consecutive steps whose times are those of the recorded ones."""
    count = len(duration)
    if count < _LEAST_TIMED or len(timed) < count:
        return None
    windows = sliding_window_view(log.duration[timed], count)
    is_consecutive = np.ptp(sliding_window_view(log.step[timed], count), axis=1) == count - 1
    is_alike = (np.abs(windows - duration) <= _ALIKE * duration).all(axis=1)
    fitting = np.flatnonzero(is_alike & is_consecutive)
    return timed[fitting[0] + np.arange(count)] if len(fitting) == 1 else None


def _taken(values: Any, rows: I64) -> Any:
    """The values of these rows; unknown (NaN or -1) for row -1."""
    unknown = np.nan if values.dtype.kind == "f" else -1
    return np.where(rows >= 0, values[rows], unknown)


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
