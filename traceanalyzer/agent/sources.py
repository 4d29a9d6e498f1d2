"""Recordings by what an agent names, kept for its next question."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from traceanalyzer.base.files import may_read, only_below
from traceanalyzer.comparison.other_kinds import compared_kinds
from traceanalyzer.comparison.reference import report_named
from traceanalyzer.diagnosis.selection import Measured, Selection, measured
from traceanalyzer.ingest import load
from traceanalyzer.ingest.flight_recorder.folder import read_flight
from traceanalyzer.report.build import report_of
from traceanalyzer.report.model import Report
from traceanalyzer.trace.flight import Flight

KEPT = 3
"""Recordings held in memory: one that is asked about, and two that are compared."""
ROWS = 60


class Analyzed(NamedTuple):
    """A recording with what was measured of it, and its report."""

    of: Measured
    report: Report


class Sources:
    """Recordings below some folders (all, where none is given), the last ones kept until their files change."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = roots
        self._kept: OrderedDict[tuple[object, ...], Analyzed] = OrderedDict()

    def analyzed(self, path: str, rank: int | None = None, step: int | None = None) -> Analyzed:
        """The recording that `path` names. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            key = (*_state(may_read(Path(path))), rank, step)
            if key not in self._kept:
                of = measured(load([path]), Selection(rank=rank, step=step))
                self._kept[key] = Analyzed(of, report_of(of, ROWS))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def report(self, name: str) -> Report:
        """The report of a recording, a saved report or a stored run. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            may_read(Path(name))
            return report_named(name, load)

    def other_kinds(self, a: str, b: str) -> dict[str, Any] | None:
        """The comparison of two snapshots or logs of torch.compile; None of others. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            found = compared_kinds(*(str(may_read(Path(name))) for name in (a, b)))
            return None if found is None else found.values

    def flight(self, path: str) -> Flight:
        """The Flight Recorder dumps in a folder. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            return read_flight(may_read(Path(path)))


def _state(path: Path) -> tuple[object, ...]:
    """Changes where a file, or one in the folder, does."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]
    return (str(path), *stats)
