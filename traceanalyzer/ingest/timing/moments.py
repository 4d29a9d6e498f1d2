"""When a line was written, as logs say it."""

import re
from datetime import date

_MOMENT = re.compile(
    r"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T_]|\b[IWE](?P<glog>\d{4}) |(?P<short>\d\d/\d\d) )"
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?P<part>[.,]\d{3,9})?"
)
SOME_YEAR = 2000  # of logs that leave it out: only differences count
_SECONDS_A_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
LATEST_S = 1e11
"""Times since 1970 beyond this are in ms, us or ns: 1e11 s is the year 5138."""


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
