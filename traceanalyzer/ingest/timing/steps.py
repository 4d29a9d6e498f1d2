"""From the lines that one rank wrote to a table of steps: lines of one step joined, repeats
dropped, times worked out where lines have none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from traceanalyzer.base import NS_PER_MS, NS_PER_S, dataclass, ordinal
from traceanalyzer.ingest.timing.clocks import LATEST_S, counts_up, differences
from traceanalyzer.ingest.timing.fields import (
    AMOUNTS,
    BATCH,
    LOAD,
    LOAD_RATES,
    MAX_COUNT,
    MOMENTS,
    TIMED,
)
from traceanalyzer.ingest.timing.formats import LineFormat
from traceanalyzer.ingest.timing.names import UNKNOWN_UNIT
from traceanalyzer.ingest.timing.records import Records
from traceanalyzer.ingest.timing.runs import may_be_epochs, runs_of
from traceanalyzer.trace import F64, I64, Bool, LoggedPhase, StepTimings

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
LINES_OF_EPOCH = 3
"""So many lines an epoch that time a step are of steps; one or two may be of training and evaluation."""
MOST_LINES_APART = 200  # lines that belong to the step above them
MOST_MFU = 1.5  # clocks and peaks vary; a larger one is in per cent
BARS = ("Lightning", "progress bar")
PHASES = ("forward", "backward", "optimizer")
MOST_PHASES = 32  # by names of the program's own
RATES = ("flops", "samples_per_s", "tokens_per_s", "mfu")
_Column = I64 | F64
_POSSIBLE: tuple[tuple[tuple[str, ...], Callable[[F64], Bool]], ...] = (
    (
        ("iter_s", "its_per_s", "mean_s", *RATES, *AMOUNTS, "peak_memory_bytes"),
        lambda values: values > 0,
    ),
    (("data_s", "compute_s", "step", "total"), lambda values: values >= 0),
    (("step", "total"), lambda values: values < MAX_COUNT),
)
"""Which values columns may have: others are not known."""
_UNITS = (1.0, 1e-3, 1e-6)  # s, ms, us
_LIKELY = (0.4, 1.3)
"""A step takes this share of the time between lines, in parts: evaluation and printing take some."""
_MEAN = "The only time in this log is a clock too coarse for single steps: all have their mean."
_RUNNING = "The only times in this log are running means: single slow steps are smoothed."
_DATA_IS_LONGER = "The log's data time is longer than its iteration time, so the two are taken to follow each other."
_BY_LINES = "The log's iterations {} its data time: the time between its lines says so."
_DATA_UNKNOWN = (
    "Whether the log's iterations include its data time is not known; they are taken to. Where they do not, name "
    "the iteration compute_ms (a key, a column, or a group of --pattern)."
)
_BETWEEN = "The log holds no step times: they are the time between its lines, divided by the steps between."
_COUNTED = "Its times count up from the start: steps are their differences."
_OF_EPOCH = "The times are means over an epoch: single slow steps are smoothed."
_EPOCHS = "The log times epochs, no steps."


class UnitlessError(ValueError):
    """A time without a unit: not guessed at. Its text is the field."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """The steps of one rank, and what was done to get them."""

    table: StepTimings
    phases: tuple[LoggedPhase, ...]
    repeated: int  # lines about a step that another line had been about
    lost: int  # lines with an impossible time
    notes: tuple[str, ...]
    are_epochs: bool = False
    are_means: bool = False  # whether the times are running means


@dataclass(frozen=True, eq=False)
class _Duration:
    """The time of each line's step, s, and how it is known."""

    each: F64
    note: str = ""
    # whether it is known to include the time for data
    includes_data: bool = False
    between: bool = False  # whether it is the time between lines
    of_steps: bool = False  # whether its name says that it is of a step, whatever a line is of


def step_timings(
    records: Records, form: LineFormat, factors: Mapping[str, float] | None = None
) -> LoggedSteps:
    """The steps in the order of the log; where it holds several runs, those of the last. `factors`:
    of the units that fields were printed in. Raises UnitlessError."""
    numbered, epochs = _numbered(_mended(_training(records, form)))
    runs = [_steps_of_run(run, form, epochs, factors or {}) for run in runs_of(numbered)]
    if may_be_epochs([run.table for run in runs]):
        return _steps_of_run(numbered, form, epochs, factors or {})
    timed = [run for run in runs if len(run.table)]
    *earlier, last = timed or runs[-1:]
    told = _after(earlier, last) if earlier else last
    untimed = len(runs) - len(timed)
    return replace(told, notes=(_untimed_note(untimed), *told.notes)) if timed and untimed else told


def _after(earlier: list[LoggedSteps], last: LoggedSteps) -> LoggedSteps:
    """The last run's steps, with what was left out."""
    before = earlier[-1].table
    timed = before.duration[before.duration >= 0]
    took = f", {np.median(timed) / NS_PER_MS:,.4g} ms in the median" if len(timed) else ""
    count = np.count_nonzero(last.table.duration >= 0)
    note = (
        f"The log holds {len(earlier) + 1} runs, as its step counter goes back (from {before.step[-1]} to "
        f"{last.table.step[0]}): figures are of the last, {count} steps; the run before it had {len(timed)}{took}."
    )
    return replace(last, notes=(note, *last.notes))


def _untimed_note(count: int) -> str:
    """What is said of runs in the log that time no step."""
    runs = "1 run" if count == 1 else f"{count} runs"
    return f"{runs} in the log, told by a step counter that goes back, timed no step: left out."


def _steps_of_run(
    records: Records, form: LineFormat, epochs: str, factors: Mapping[str, float]
) -> LoggedSteps:
    """The steps of one run. `epochs`: a note where its steps are epochs. Raises UnitlessError."""
    lines = _joined(records)
    joined, unit_note = _with_units(_without_repeats(lines), factors)
    measured = _duration(joined, form, by_epoch=bool(epochs))
    if form.is_mean and np.isfinite(measured.each).any():
        measured = replace(measured, each=np.full(len(joined), np.nanmean(measured.each)))
    timed = np.isfinite(measured.each) | _said(joined, TIMED) | _said(joined, MOMENTS)
    kept = joined.take(timed)
    duration = measured.each[timed].copy()
    impossible = duration > MAX_STEP_S
    duration[impossible] = np.nan
    total, data_note = _with_data(kept, duration, measured)
    of_epochs = bool(epochs) and not measured.of_steps
    noted = (unit_note, "" if epochs else _stride_note(kept), measured.note, data_note)
    notes = (epochs if of_epochs else "", _restarts(kept), *noted)
    return LoggedSteps(
        table=_table(kept, _ns(total), _ns(kept.column("data_s"))),
        phases=_phases(kept),
        repeated=len(lines) - len(joined),
        lost=int(impossible.sum()),
        notes=tuple(filter(None, notes)),
        are_epochs=of_epochs,
        are_means=measured.note in (_RUNNING, _OF_EPOCH),
    )


def _with_data(kept: Records, duration: F64, found: _Duration) -> tuple[F64, str]:
    """The time of each step with that for its data, s, and a sentence where the log had to show
    whether that is part of it."""
    if found.includes_data or found.between or np.isfinite(kept.column("whole")).any():
        return duration, ""
    data = kept.column("data_s")
    apart, why = _data_apart(duration, data, between_lines(kept))
    return duration + np.nan_to_num(data) if apart else duration, why


def timed_lines(records: Records, form: LineFormat, factors: Mapping[str, float]) -> Records:
    """The lines that number a step with its time as `iter_s`, repeats and restarts included. Raises
    UnitlessError."""
    numbered, _ = _numbered(_mended(_training(records, form)))
    joined, _ = _with_units(_joined(numbered), factors)
    found = _duration(joined, form).each
    return joined.with_columns(iter_s=np.where(np.isfinite(found), found, between_lines(joined)))


def _said(records: Records, names: tuple[str, ...]) -> Bool:
    """Which lines say one of the fields."""
    result = np.zeros(len(records), bool)
    for name in names:
        if name in records:
            result |= np.isfinite(records.column(name))
    return result


def _training(records: Records, form: LineFormat) -> Records:
    """Without bars that share their (empty) name with a longer one: evaluation inside training."""
    if form.name not in BARS:
        return records
    unnamed = ~np.isfinite(records.column("series"))
    total = np.nan_to_num(records.column("total"))
    longest = total[unnamed].max(initial=0)
    return records.take(~unnamed | (total == longest))


def _mended(records: Records) -> Records:
    """Without impossible values; MFU as a share, moments in seconds. nanoGPT, for one, writes an
    MFU of -100 % for "not yet known"."""
    columns = dict(records.columns)
    for names, is_possible in _POSSIBLE:
        for name in columns.keys() & names:
            values = columns[name]
            columns[name] = np.where(is_possible(values), values, np.nan)
    if "running_requests" in columns and "tokens_per_s" in columns:
        stalled = records.column("tokens_per_s") == 0  # a server that gives no token says so
        columns["tokens_per_s"] = np.where(stalled, 0.0, columns["tokens_per_s"])
    if "mfu" in columns:
        mfu = columns["mfu"]
        columns["mfu"] = np.where(mfu > MOST_MFU, mfu / 100, mfu)
    if "mfu_percent" in columns:
        percent = columns.pop("mfu_percent")
        columns["mfu"] = np.where(percent > 0, percent / 100, np.nan)
    if "when_s" in columns:
        columns["when_s"] = _in_seconds(columns["when_s"])
    return Records(records.line, columns)


def _in_seconds(when: F64) -> F64:
    """Moments in s, which a log may have in ms, us or ns."""
    latest = np.nanmax(when, initial=0.0)
    while latest > LATEST_S:
        when = when / 1e3
        latest = latest / 1e3
    return when


def _numbered(records: Records) -> tuple[Records, str]:
    """With steps by number, and a note where these are epochs: a log may count nothing else."""
    if "rounded_step" in records:
        records = records.with_columns(step=_exact(records))
    step = records.column("step")
    total = records.column("total")
    if len(np.unique(step[np.isfinite(step)])) == 1 and counts_up(
        total, np.arange(len(total), dtype=np.float64)
    ):
        return records.with_columns(step=total), ""  # `Batch 0/100`: epoch and batch
    if _stands(step, records):
        records = records.without("step")
    epoch = records.column("epoch")
    known = epoch[np.isfinite(epoch)]
    if not len(known) or (known != np.rint(known)).any():
        return records.without("epoch"), ""
    if "step" not in records and _are_within(records, known):
        return records.without("epoch"), ""
    if "step" not in records:
        return records.with_columns(step=epoch).without("epoch"), _EPOCHS
    return records.with_columns(epoch=_carried(epoch)), ""


def _stands(step: F64, records: Records) -> bool:
    """Whether what looks like a step is the same on all lines that time one: it counts nothing."""
    if (step == records.column("total")).any():  # the last line of each epoch
        return False
    timed = np.isfinite(step) & _said(records, ("iter_s", "time_s", "bare_s"))
    return int(timed.sum()) >= LINES_OF_EPOCH and len(np.unique(step[np.isfinite(step)])) == 1


def _are_within(records: Records, epochs: F64) -> bool:
    """Whether the lines that time a step only say which epoch it is within."""
    return int(np.isfinite(records.column("iter_s")).sum()) >= LINES_OF_EPOCH * len(
        np.unique(epochs)
    )


def _exact(records: Records) -> F64:
    """Steps of which some are printed rounded (`1K`): those go on by as many as the others do."""
    step = records.column("step").copy()
    rounded = records.column("rounded_step")
    both = np.where(np.isfinite(step), step, rounded)
    known = np.flatnonzero(np.isfinite(both))
    exact = np.flatnonzero(np.isfinite(step))
    gaps = np.diff(step[exact])
    reach = both[known[-1]] - both[known[0]]
    spread = reach / max(len(known) - 1, 1)
    stride = float(np.median(gaps)) if len(gaps) else float(np.rint(spread))
    for before, row in zip(known[:-1].tolist(), known[1:].tolist(), strict=True):
        if not np.isfinite(step[row]):
            step[row] = (step[before] if np.isfinite(step[before]) else both[before]) + stride
    return np.where(np.isfinite(step), step, rounded)


def _carried(values: F64) -> F64:
    """With the last known value in place of what is not known."""
    last = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), -1))
    return np.where(last >= 0, values[last], np.nan)


def _joined(records: Records) -> Records:
    """The lines that number a step, with what the lines after them say of it; all lines where few
    of them do."""
    numbered = np.isfinite(records.column("step"))
    timed = _said(records, TIMED)
    if not numbered.any() or numbered.sum() < (timed & ~numbered).sum() / MOST_LINES_APART:
        return records.take(_said(records, TIMED) | numbered)
    if _most_said(records, ~numbered) > 2 * numbered.sum() and not (timed & numbered).any():
        return records.take(timed & ~numbered)
    rows = np.arange(len(records))
    above = np.maximum.accumulate(np.where(numbered, rows, -1))
    near = (above >= 0) & (records.line - records.line[above] <= MOST_LINES_APART)
    return _filled(records, np.where(near, above, -1)).take(numbered)


def _most_said(records: Records, rows: Bool) -> int:
    """How many of the lines say the time or rate that most of them say."""
    columns = [records.column(name)[rows] for name in TIMED if name in records]
    counts = [int(np.isfinite(column).sum()) for column in columns]
    return max(counts, default=0)


def _filled(records: Records, target: I64) -> Records:
    """With what each line says that its target line does not (the first such line counts)."""
    columns = {}
    rows = np.arange(len(records))
    for name, column in records.columns.items():
        result = column.copy()
        gives = np.flatnonzero((target >= 0) & (target != rows) & ~np.isnan(column))
        gives = gives[np.isnan(column[target[gives]])][::-1]
        result[target[gives]] = column[gives]
        columns[name] = result
    return Records(records.line, columns)


def _without_repeats(records: Records) -> Records:
    """One line a step: bars are redrawn, ranks without a name repeat; a counter that starts again
    is another epoch."""
    step = records.column("step")
    known = step[np.isfinite(step)]
    if not len(known) or (np.diff(known) > 0).all():
        return records
    named = "series" if "series" in records else "epoch"
    series = np.nan_to_num(records.column(named), nan=-1.0)
    kept, target = _first_of_each(step.tolist(), series.tolist())
    filled = _filled(records, np.array(target, np.int64))
    return filled.take(np.array(kept, np.int64))


def _first_of_each(steps: list[float], series: list[float]) -> tuple[list[int], list[int]]:
    """The places of the first line of each step, and for each line the place of that one."""
    kept: list[int] = []
    target: list[int] = []
    seen: dict[float, int] = {}
    current = -1.0
    first = last = 0.0
    for i, (step, own_series) in enumerate(zip(steps, series, strict=True)):
        if step != step:
            kept.append(i)
            target.append(i)
            continue
        if not seen or own_series != current or (step <= first and last - first > 1):
            seen = {}
            current = own_series
            first = step
        if step not in seen:
            seen[step] = i
            last = max(step, last) if len(seen) > 1 else step
            kept.append(i)
        target.append(seen[step])
    return kept, target


def _with_units(records: Records, factors: Mapping[str, float]) -> tuple[Records, str]:
    """With units for times that say none, where the log shows them, and a note on how. Raises
    UnitlessError where it shows none and no other time is known."""
    unknown = [name for name in records.columns if name.endswith(UNKNOWN_UNIT)]
    rest = records.without(*unknown)
    times = [name for name in ("iter?", "time?", "compute?", "mean?") if name in unknown]
    known = _said(records, ("iter_s", "time_s", "its_per_s", "compute_s")).any()
    if not unknown or (known and "data?" not in unknown):
        return rest, ""
    if known:
        factor = next((factors[n] for n in ("iter_s", "time_s") if n in factors), None)
        note = ""
    else:
        factor, note = _shown_unit(records, times)
    if factor is None:
        return rest, ""
    columns = dict(rest.columns)
    for name in unknown:
        if name != "memory?":
            columns.setdefault(f"{name[:-1]}_s", records.column(name) * factor)
    return Records(records.line, columns), note


def _shown_unit(records: Records, times: Sequence[str]) -> tuple[float | None, str]:
    """The factor of the unit of these times, as the log shows it, and a sentence that says so; None
    where it does not. Raises UnitlessError where no other time is known either."""
    if not times:
        return None, ""
    factor, note = _shown_by_log(records, times[0])
    has_others = _said(records, ("mean_s", "clock_s", "bare_s", *RATES, *BATCH)).any()
    if factor is None and not has_others:
        raise UnitlessError(times[0])
    return factor, note


def _shown_by_log(records: Records, name: str) -> tuple[float | None, str]:
    time = records.column(name)
    step = records.column("step")
    for clock in ("when_s", "clock_s", "about_s"):
        if clock in records:
            passed = differences(records.column(clock), step).each
            found = _unit_of_time(time, passed)
            if found is not None:
                factor, unit = found
                return factor, f"Its times say no unit: {unit}, by the time between its lines."
    if "data?" in records and np.isfinite(step).any() and name == "time?":
        return 1.0, "Its times say no unit: read as s, as most trainers print time and data time."
    return None, ""


def _unit_of_time(time: F64, passed: F64) -> tuple[float, str] | None:
    """The factor and name of the unit in which the times fill what `passed` between the lines, s."""
    both = np.isfinite(passed) & np.isfinite(time) & (passed > 0)
    share = float(np.median(time[both] / passed[both])) if both.sum() >= 2 else 0.0
    for factor, unit in zip(_UNITS, ("s", "ms", "us"), strict=True):
        if _LIKELY[0] <= share * factor <= _LIKELY[1]:
            return factor, unit
    return None


def _duration(records: Records, form: LineFormat, *, by_epoch: bool = False) -> _Duration:
    """The time of each step. `by_epoch`: a line is of an epoch, and its time that of all steps."""
    step = records.column("step")
    column = records.column
    named_phases = any(name.startswith("phase:") for name in records.columns)
    if np.isfinite(column("iter_s")).any():
        each = column("iter_s")
        each = np.where(np.isfinite(each), each, 1 / column("its_per_s"))
        includes_data = form.includes_data or named_phases
        return _Duration(each, includes_data=includes_data, of_steps=True)
    if np.isfinite(column("compute_s")).any():
        return _Duration(column("compute_s") + np.nan_to_num(column("data_s")), includes_data=True)
    if np.isfinite(column("its_per_s")).any():
        rate = column("its_per_s")
        return _Duration(1 / rate, includes_data=form.includes_data, of_steps=True)
    if by_epoch and np.isfinite(column("mean_s")).any():
        return _Duration(column("mean_s"), _OF_EPOCH, includes_data=True, of_steps=True)
    if np.isfinite(column("time_s")).any():
        return _own_or_clock(column("time_s"), step, form)
    if np.isfinite(column("bare_s")).any():
        return _own_or_clock(column("bare_s"), step, form)
    if counts_up(column("clock_s"), step, named_so=True):
        found = differences(column("clock_s"), step)
        return _Duration(found.each, _MEAN if found.is_mean else _COUNTED, between=True)
    if np.isfinite(column("mean_s")).any():
        return _Duration(column("mean_s"), _RUNNING, includes_data=True)
    return _between(records)


def _own_or_clock(time: F64, step: F64, form: LineFormat) -> _Duration:
    """The time of each step from times that may be that, or what a clock shows."""
    if form.of_interval:
        return _Duration(time / _strides(step), includes_data=True)
    if counts_up(time, step):
        found = differences(time, step)
        return _Duration(found.each, _MEAN if found.is_mean else _COUNTED, between=True)
    lines = np.arange(1.0, len(time) + 1)
    if not np.isfinite(step).any() and counts_up(time, lines, named_so=True):
        return _Duration(np.full(len(time), np.nan))  # a clock, and no steps to part it by
    return _Duration(np.where(time > 0, time, np.nan), includes_data=form.includes_data)


def _strides(step: F64) -> F64:
    """The steps from each line to the one before; of the first as of the second."""
    passed = np.diff(step, prepend=np.nan)
    if len(passed) > 1:
        passed[0] = passed[1]
    return np.where(passed > 0, passed, np.nan)


def _between(records: Records) -> _Duration:
    """The time between the lines, where the log says when it was written."""
    passed = between_lines(records)
    if np.isfinite(passed).any():
        return _Duration(passed, _BETWEEN, between=True)
    if "about_s" in records:
        found = differences(records.column("about_s"), records.column("step"))
        if np.isfinite(found.each).any():
            return _Duration(found.each, _MEAN if found.is_mean else _BETWEEN, between=True)
    return _Duration(np.full(len(records), np.nan))


def _table(kept: Records, time: I64, data: I64) -> StepTimings:
    """The steps; columns that no line says anything of are left out, and take no memory."""

    def said(make: Callable[[str], _Column], *names: str) -> dict[str, _Column]:
        known = [name for name in names if name in kept or f"{name}_s" in kept]
        return {name: make(name) for name in known}

    def length(name: str) -> I64:
        return _ns(kept.column(f"{name}_s"))

    def rate(name: str) -> F64:
        return np.nan_to_num(kept.column(name), nan=-1.0)

    spent = np.where(time > 0, time, 0)
    columns = (
        said(lambda name: rate(name).astype(np.int64), "step")
        | said(length, "compute", *PHASES)
        | said(partial(_count, kept), *AMOUNTS, *BATCH, *LOAD, "peak_memory_bytes")
        | said(rate, *RATES, *LOAD_RATES)
        | said(kept.column, "loss", "grad_norm")
        | said(lambda _: data, "data")
    )
    return StepTimings.from_columns({"start": np.cumsum(spent) - spent, "duration": time} | columns)


def _count(kept: Records, name: str) -> I64:
    """The count of each step, -1 where it is not known; of one that counts up its differences."""
    values = kept.column(name)
    step = kept.column("step")
    if not np.isfinite(step).any():
        step = np.arange(1.0, len(values) + 1)
    if name in AMOUNTS and counts_up(values, step):
        values = differences(values, step).each
    known = np.isfinite(values) & (values < 2**62)
    return np.where(known, np.where(known, values, 0), -1).astype(np.int64)


def _phases(kept: Records) -> tuple[LoggedPhase, ...]:
    """Phases by names of the program's own, the longest first."""
    found = [
        LoggedPhase(name.partition(":")[2], _ns(values))
        for name, values in kept.columns.items()
        if name.startswith("phase:") and np.isfinite(values).any()
    ]
    found.sort(key=lambda phase: -int(phase.duration.sum()))
    return tuple(found[:MOST_PHASES])


def _data_apart(iteration: F64, data: F64, between: F64) -> tuple[bool, str]:
    """Whether data is waited for outside of the logged iterations, and how that is known, in a
    sentence: by the time between the lines, where the log has it to the millisecond; empty where it
    makes no difference."""
    both = np.isfinite(iteration * data)
    share = float(np.median(data[both] / iteration[both])) if both.any() else 0.0
    if share > 1:
        return True, _DATA_IS_LONGER
    if share < TELLING_DATA:
        return False, ""
    timed = both & np.isfinite(between)
    if timed.sum() >= MIN_TIMED:
        passed = float(np.median(between[timed] / iteration[timed]))
        if abs(passed - (1 + share)) <= NEAR_SHARE * share:
            return True, _BY_LINES.format("do not include")
        if abs(passed - 1.0) <= NEAR_SHARE * share:
            return False, _BY_LINES.format("include")
    return False, _DATA_UNKNOWN


def between_lines(records: Records) -> F64:
    """Time between the lines of a log divided by the steps between them, s; NaN where that cannot
    be told."""
    steps = np.diff(records.column("step"))
    time = np.round(np.diff(records.column("when_s")), CLOCK_DIGITS)
    result = np.full(len(records), np.nan)
    good = (steps > 0) & (time > 0)
    result[1:][good] = time[good] / steps[good]
    return result


def _restarts(records: Records) -> str:
    """A sentence where the step counter starts again, and no epoch says why."""
    step = records.column("step")
    known = step[np.isfinite(step)]
    if {"epoch", "series"} & records.columns.keys() or not len(known):
        return ""
    runs = 1 + int((np.diff(known) < 0).sum())
    return (
        f"The step counter starts {runs} times: the log may be of several runs." if runs > 1 else ""
    )


def _stride_note(records: Records) -> str:
    step = records.column("step")
    numbers = step[np.isfinite(step)]
    stride = float(np.median(np.diff(numbers))) if len(numbers) > 1 else 1.0
    return f"Only every {ordinal(round(stride))} step is logged." if stride > 1 else ""


def _ns(seconds: F64) -> I64:
    known = np.isfinite(seconds) & (np.abs(seconds) <= 2 * MAX_STEP_S)
    ns = np.rint(np.where(known, seconds, 0.0) * NS_PER_S)
    return np.where(known, ns, -1).astype(np.int64)
