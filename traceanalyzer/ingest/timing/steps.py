"""From the entries that one rank wrote to a table of steps: repeats dropped, times worked out where
lines have none."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.ingest.timing.entry import AMOUNTS, BATCH, Entry
from traceanalyzer.ingest.timing.printed import steps_of_phases
from traceanalyzer.trace import F64, I64, StepTimings

MAX_STEP_S = 7 * 86_400.0  # no step takes a week: a longer time is damaged
CLOCK_DIGITS = 6
"""Finest digit of a log's clock; seconds since 1970 in a float are good to a quarter of a
microsecond."""
TELLING_DATA = 0.05
"""Less data time than this share of the iteration is within the spread of steps, whichever it is
part of."""
MIN_TIMED = 5  # lines with the time since the one before, of which a median says something
NEAR_SHARE = 0.25
"""How near, in parts of the data time, the time between lines comes to one of the two readings."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """The steps of one rank, and what was done to get them."""

    table: StepTimings
    repeated: int  # lines about a step that another line had been about
    lost: int  # lines with an impossible time
    notes: tuple[str, ...]


def step_timings(entries: Sequence[Entry]) -> LoggedSteps:
    """The steps in the order of the log."""
    entries = list(steps_of_phases(entries))
    kept = _without_repeats(_merged(_training(entries)))
    between = not any(e.iter_s for e in kept)
    duration = between_lines(kept) if between else _column([e.iter_s for e in kept])
    impossible = duration > MAX_STEP_S
    duration[impossible] = np.nan
    data = _column([e.data_s for e in kept])
    stride = _stride_note(kept, between=between and bool(np.isfinite(duration).any()))
    known = between or all(e.whole for e in kept)
    apart, why = (False, "") if known else _data_apart(duration, data, between_lines(kept))
    table = _table(kept, _ns(duration + np.nan_to_num(data) if apart else duration), _ns(data))
    return LoggedSteps(
        table, len(entries) - len(kept), int(impossible.sum()), tuple(filter(None, (stride, why)))
    )


def _training(entries: Sequence[Entry]) -> list[Entry]:
    # Bars that share their (empty) name with a longer one are evaluation inside training.
    longest = max((e.total or 0 for e in entries if not e.series), default=0)
    return [e for e in entries if e.series or (e.total or 0) == longest]


def _table(kept: Sequence[Entry], time: I64, data: I64) -> StepTimings:
    spent = np.where(time > 0, time, 0)
    rates = ("flops", "samples_per_s", "tokens_per_s", "mfu")
    named = {name: _column([getattr(e, name) for e in kept]) for name in (*AMOUNTS, *BATCH, *rates)}
    named["peak_memory_bytes"] = _column([e.peak_memory_bytes for e in kept])
    counts = {
        name: np.where(named[name] < 2**62, named[name], -1).astype(np.int64)
        for name in (*AMOUNTS, *BATCH, "peak_memory_bytes")
    }
    phases = {
        n: _ns(_column([getattr(e, f"{n}_s") for e in kept]))
        for n in ("compute", "forward", "backward", "optimizer")
    }
    times = {"start": np.cumsum(spent) - spent, "duration": time, "data": data, **phases}
    shares = {name: np.nan_to_num(named[name], nan=-1.0) for name in rates}
    shares |= {name: _column([getattr(e, name) for e in kept]) for name in ("loss", "grad_norm")}
    step = [-1 if e.step is None else e.step for e in kept]
    return StepTimings.from_columns({"step": step, **times, **counts, **shares})


def _data_apart(iteration: F64, data: F64, between: F64) -> tuple[bool, str]:
    """Whether data is waited for outside of the logged iterations, and how that is known, in a
    sentence: by the time between the lines, where the log has it to the millisecond; empty where it
    makes no difference."""
    both = np.isfinite(iteration * data)
    share = float(np.median(data[both] / iteration[both])) if both.any() else 0.0
    if share > 1:
        return (
            True,
            (
                "The log's data time is longer than its iteration time, so the two are taken "
                "to follow each other."
            ),
        )
    if share < TELLING_DATA:
        return False, ""
    timed = both & np.isfinite(between)
    if timed.sum() >= MIN_TIMED:
        passed = float(np.median(between[timed] / iteration[timed]))
        for apart, expected in ((True, 1 + share), (False, 1.0)):
            if abs(passed - expected) <= NEAR_SHARE * share:
                what = "do not include" if apart else "include"
                return (
                    apart,
                    (
                        f"The log's iterations {what} its data time: the time between its "
                        "lines says so."
                    ),
                )
    return False, (
        "Whether the log's iterations include its data time is not known; they are taken to. Where they do not, name "
        "the iteration compute_ms (a key, a column, or a group of --pattern)."
    )


def _merged(entries: Sequence[Entry]) -> list[Entry]:
    """Two lines about one step (its throughput, then its time) as one entry."""
    result: list[Entry] = []
    for e in entries:
        timeless = bool(result) and result[-1].step is not None and result[-1].iter_s is None
        if timeless and e.step is None and e.iter_s:
            result[-1] = replace(result[-1], iter_s=e.iter_s, data_s=e.data_s)
        else:
            result.append(e)
    return [e for e in result if e.step is not None] or result


def _without_repeats(entries: Sequence[Entry]) -> list[Entry]:
    """One entry a step: bars are redrawn, ranks without a name repeat; a counter that starts again
    is another epoch."""
    result: list[Entry] = []
    seen: set[int] = set()
    series = ""
    first = 0
    last = 0
    for e in entries:
        if e.step is None:
            result.append(e)
            continue
        if not seen or e.series != series or (e.step <= first and last - first > 1):
            seen = set()
            series = e.series
            first = e.step
        if e.step not in seen:
            seen.add(e.step)
            last = max(e.step, last) if len(seen) > 1 else e.step
            result.append(e)
    return result


def between_lines(entries: Sequence[Entry]) -> F64:
    """Time between the lines of a log divided by the steps between them, s; NaN where that cannot
    be told."""
    steps = np.diff(_column([e.step for e in entries]))
    time = np.round(np.diff(_column([e.when_s for e in entries])), CLOCK_DIGITS)
    result = np.full(len(entries), np.nan)
    good = (steps > 0) & (time > 0)
    result[1:][good] = time[good] / steps[good]
    return result


def _stride_note(entries: Sequence[Entry], *, between: bool) -> str:
    numbers = [e.step for e in entries if e.step is not None]
    stride = float(np.median(np.diff(numbers))) if len(numbers) > 1 else 1.0
    every = f"Only every {stride:.0f}th step is logged. " if stride > 1 else ""
    how = (
        "The log holds no step times: they are the time between its lines, divided by the "
        "steps between."
    )
    return (every + how * between).strip()


def _column(values: Sequence[float | None]) -> F64:
    return np.array([np.nan if v is None else v for v in values], np.float64)


def _ns(seconds: F64) -> I64:
    known = np.isfinite(seconds) & (np.abs(seconds) <= 2 * MAX_STEP_S)
    return np.where(known, np.rint(np.where(known, seconds, 0.0) * NS_PER_S), -1).astype(np.int64)
