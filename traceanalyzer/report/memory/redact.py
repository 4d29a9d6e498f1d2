"""A memory report that can be published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.trace import Run

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from traceanalyzer.report.memory.model import MemoryReport

ALIAS, OTHER_ALIAS = "snapshot-1.pickle", "snapshot-2.pickle"


def redacted(report: MemoryReport, patterns: Sequence[re.Pattern[str]] = ()) -> MemoryReport:
    """The report without paths, hosts and users; names that match a pattern become `name-1`, `name-2`, ..."""
    hidden = replace(report, path=ALIAS, other_path=None if report.other_path is None else OTHER_ALIAS)
    names = {PurePath(report.path).name: ALIAS}
    cleaned: MemoryReport = redact_rows(hidden, Run(()), patterns)
    notes = [_without(note, report.path, names) for note in cleaned.notes]
    return replace(cleaned, notes=notes)


def _without(text: str, path: str, names: dict[str, str]) -> str:
    text = text.replace(path, ALIAS)
    for name, alias in names.items():
        text = text.replace(name, alias)
    return text
