"""Runs of a history, each with its change against the program's run before: what `compare` says of
the two."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.history.runs import StoredRun, report_of_run

if TYPE_CHECKING:
    from sqlite_utils import Database

MOST_COMPARED = 100
"""The newest runs; a comparison takes about 15 ms."""


def with_changes(
    db: "Database", shown: Sequence[StoredRun], every: Sequence[StoredRun]
) -> list[StoredRun]:
    """The `shown` ones of `every` run of a history, both oldest first. Raises
    UnreadableInputError."""
    before = _runs_before(every)
    found = [_with_share(run, before[run.run]) for run in shown]
    newest = [_judged(db, run, before[run.run]) for run in found[-MOST_COMPARED:]]
    return found[:-MOST_COMPARED] + newest


def _runs_before(runs: Sequence[StoredRun]) -> dict[int, StoredRun | None]:
    """The program's run before each run."""
    before: dict[int, StoredRun | None] = {}
    last: dict[str, StoredRun] = {}
    for run in runs:
        before[run.run] = last.get(run.program)
        last[run.program] = run
    return before


def _with_share(run: StoredRun, before: StoredRun | None) -> StoredRun:
    if before is None or not before.step_ms or run.step_ms is None:
        return run
    is_alike = (run.step_basis == "recorded") == (before.step_basis == "recorded")
    return replace(run, change_share=run.step_ms / before.step_ms - 1.0) if is_alike else run


def _judged(db: "Database", run: StoredRun, before: StoredRun | None) -> StoredRun:
    """The run with the verdict on its change; without where the two cannot be compared."""
    if before is None or run.change_share is None:
        return run
    earlier = report_of_run(db, before.run)
    later = report_of_run(db, run.run)
    try:
        verdict = compare_reports(earlier, later).verdict
    except TraceAnalyzerError:
        return run
    return replace(run, verdict=verdict)
