"""Recordings of the repository as they are analyzed: each one time for all tests of a process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.selection import Measured, measured
from traceanalyzer.ingest import load
from traceanalyzer.report.build import report_of
from traceanalyzer.report.model import Report

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Run


@cache
def loaded(*paths: Path) -> Run:
    """The run of these files or folders."""
    return load([*paths])


@cache
def measurements(*paths: Path) -> Measured:
    """The same, measured."""
    return measured(loaded(*paths))


@cache
def reported(*paths: Path) -> Report:
    """Its report."""
    return report_of(measurements(*paths))
