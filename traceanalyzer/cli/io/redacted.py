"""What `--redact` leaves of an answer; what privacy needs is loaded where it is asked for."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run

Hidden = Sequence[re.Pattern[str]] | None
"""The names to hide beside paths, hosts and users; None: nothing is hidden."""

T = TypeVar("T")


def redacted(value: T, hidden: Hidden, run: "Run | None" = None) -> T:
    """Rows or another answer about `run`."""
    if hidden is None:
        return value
    from traceanalyzer.report.privacy.redact import redact_rows
    from traceanalyzer.trace import Run

    return redact_rows(value, run or Run(()), hidden)


def redacted_with(report: "Report", shown: T, hidden: Hidden) -> "tuple[Report, T]":
    """A report and what is shown with it: equal names get equal aliases."""
    if hidden is None:
        return report, shown
    from traceanalyzer.report.privacy.redact import redact_with

    return redact_with(report, shown, hidden)
