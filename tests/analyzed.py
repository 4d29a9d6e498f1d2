"""Recordings of the repository as they are analyzed: each one time for all tests of a process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis import selection
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.remedies import advice
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.ingest import load
from traceanalyzer.report.build import report_of
from traceanalyzer.report.model import Report

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from traceanalyzer.trace import Run


@cache
def loaded(*paths: Path) -> Run:
    """The run of these files or folders."""
    return load([*paths])


@cache
def measurements(*paths: Path) -> MeasuredRanks:
    """The same, measured."""
    return measured(loaded(*paths))


@cache
def reported(*paths: Path) -> Report:
    """Its report."""
    return report_of(measurements(*paths))


def remembering(patch: pytest.MonkeyPatch, made: dict[object, MeasuredRanks]) -> None:
    """Have commands of this process take from `made` what was measured before: of files of these
    names, asked the same. For tests of many commands on few files that stay as they are."""

    def remembered(
        run: Run, selected: Selection | None = None, knowledge: Knowledge | None = None
    ) -> MeasuredRanks:
        files = tuple(one.path for one in (*run.traces, *run.logs))
        key = (files, repr(selected or Selection()), repr(knowledge or Knowledge()))
        if key not in made:
            made[key] = measured(run, selected, knowledge)
        return made[key]

    for user in (advice, selection):
        patch.setattr(user, "measured", remembered)
