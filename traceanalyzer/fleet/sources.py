"""What `fleet` answers from beside digests and recordings of ranks: modules of this package, named
in `SOURCES`."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from traceanalyzer.report.printed import Printed

SOURCES = ("traceanalyzer.history.days.document", "traceanalyzer.fleet.pipeline.document")
"""In the order in which they are asked; each is imported when it is."""


class JobSource(Protocol):
    """A module of one."""

    def recognise(self, path: Path) -> bool:
        """Whether this is one of its files, or a folder of them. It raises nothing."""

    def page(self, paths: Sequence[Path], progress: Callable[[int, int], None]) -> Printed:
        """The answer. Raises TraceAnalyzerError."""


def source_of(paths: Sequence[str]) -> JobSource | None:
    """The source that all of these are of, None for recordings and digests of ranks."""
    files = [Path(path) for path in paths]
    for name in SOURCES:
        source = cast("JobSource", import_module(name))
        if all(_can_be_looked_into(file) and source.recognise(file) for file in files):
            return source
    return None


def _can_be_looked_into(path: Path) -> bool:
    """Whether it is a file or a folder: opening a pipe waits until somebody writes."""
    return path.is_file() or path.is_dir()
