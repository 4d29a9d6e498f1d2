"""Clocks of a log: when a line was written, and whether a column of times is the time of each step or a
clock that counts from the start."""

from datetime import date

import numpy as np

from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import F64

FEWEST = 3  # values of which it can be told
RISING_SHARE = 0.95
"""Of the differences so many are positive where values count up: a counter starts again with an
epoch, and times of steps rise and fall."""
NEAR_START = 3.0
"""A clock that counts from the first step stands at the steps so far times the time of a step, and
start-up. Steps that become slower rise by far less than they take."""
COARSE_TICKS = 10.0
"""Differences of so many ticks are good to a tenth."""
_TICKS_S = (1.0, 0.1)
_MOMENT = regex(
    r"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T_]|\b[IWE](?P<glog>\d{4}) |(?P<short>\d\d/\d\d) )"
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?P<part>[.,]\d{3,9})?"
)
SOME_YEAR = 2000  # of logs that leave it out: only differences count
_SECONDS_A_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
LATEST_S = 1e11
"""Times since 1970 beyond this are in ms, us or ns: 1e11 s is the year 5138."""


@dataclass(frozen=True, eq=False)
class Differences:
    """Times between the lines of a log by the steps between them, s; NaN where not known."""

    each: F64
    is_mean: bool  # whether the clock is too coarse to tell single ones: all are the mean


def counts_up(values: F64, steps: F64, *, named_so: bool = False) -> bool:
    """Whether values are a count from the start, not each step's own. `named_so`: their name says
    so, if they rise at all."""
    known = np.isfinite(values) & np.isfinite(steps)
    value = values[known]
    step = steps[known]
    if len(value) < FEWEST:
        return False
    rise = np.diff(value)
    passed = np.diff(step)
    forward = passed > 0
    if not forward.any() or (rise[forward] > 0).mean() < RISING_SHARE:
        return False
    if named_so:
        return True
    each = float(np.median(rise[forward] / passed[forward]))
    until_first = max(step[0], passed[forward][0]) * each
    apart = max(float(value[0]), 1e-12) / max(until_first, 1e-12)
    return 1 / NEAR_START <= apart <= NEAR_START or value[0] <= float(np.median(rise[forward]))


def differences(clock: F64, steps: F64) -> Differences:
    """Time between lines that say what a clock shows, divided by the steps between them."""
    known = np.flatnonzero(np.isfinite(clock) & np.isfinite(steps))
    each = np.full(len(clock), np.nan)
    if len(known) < 2:
        return Differences(each, is_mean=False)
    rise = np.diff(clock[known])
    passed = np.diff(steps[known])
    good = (passed > 0) & (rise >= 0)
    tick = _tick_of(clock[known])
    if good.any() and tick and np.median(rise[good]) < COARSE_TICKS * tick:
        each[known] = rise[good].sum() / passed[good].sum()
        return Differences(each, is_mean=True)
    good &= rise > 0
    each[known[1:][good]] = rise[good] / passed[good]
    return Differences(each, is_mean=False)


def _tick_of(clock: F64) -> float:
    """The step in which a clock counts, s; 0 for one that is finer than a tenth of a second."""
    for tick in _TICKS_S:
        if np.allclose(clock / tick, np.rint(clock / tick), rtol=0, atol=1e-6):
            return tick
    return 0.0


def moment_of(line: str) -> tuple[float, bool] | None:
    """The moment that a line says it was written at, s since 1970, and whether it is good to the
    millisecond; None without one."""
    found = _MOMENT.search(line)
    if found is None:
        return None
    month_day = found["glog"] or (found["short"] or "").replace("/", "")
    try:
        day = (
            date(int(found["year"]), int(found["month"]), int(found["day"]))
            if found["year"]
            else date(SOME_YEAR, int(month_day[:2]), int(month_day[2:]))
        )
    except ValueError:
        return None
    seconds = int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])
    part = float(f"0.{found['part'][1:]}") if found["part"] else 0.0
    days = day.toordinal() - _EPOCH
    return days * _SECONDS_A_DAY + seconds + part, found["part"] is not None


def in_seconds(moment: float) -> float:
    """A time since 1970 in s, whatever its unit was."""
    while moment > LATEST_S:
        moment /= 1e3
    return moment
