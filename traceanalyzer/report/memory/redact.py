"""A memory report that can be published."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from traceanalyzer.report.memory.model import MemoryReport
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.trace import Run

ALIAS = "snapshot-1.pickle"
OTHER_ALIAS = "snapshot-2.pickle"


def redacted(report: MemoryReport, patterns: Sequence[re.Pattern[str]] = ()) -> MemoryReport:
    """The report without paths, hosts and users; names that match a pattern become `name-1`,
    `name-2`, ..."""
    other = None if report.other_path is None else ""
    cleaned: MemoryReport = redact_rows(
        replace(report, path="", other_path=other), Run(()), patterns
    )
    name = PurePath(report.path).name or ALIAS
    notes = [note.replace(report.path, ALIAS).replace(name, ALIAS) for note in cleaned.notes]
    return replace(
        cleaned, notes=notes, path=ALIAS, other_path=None if other is None else OTHER_ALIAS
    )
