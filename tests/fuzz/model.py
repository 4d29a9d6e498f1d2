"""Readers, and what one promises of the model that it makes, whatever it read."""

from __future__ import annotations

from dataclasses import Field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.base.reading import reading_as
from traceanalyzer.ingest import load
from traceanalyzer.trace import Table, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def read(path: Path) -> None:
    """Read a recording, or a folder of them. Raises TraceAnalyzerError, and AssertionError where
    the model is unsound."""
    with reading_as(cache=False, jobs=1):
        run = load([path])
    for trace in run.traces:
        is_sound(trace)


def is_sound(trace: Trace) -> None:
    """Columns are as long as their table and of their type, rows in order, codes stand for
    something, no end lies before its start."""
    for name in _names(type(trace)):
        table = getattr(trace, name)
        if isinstance(table, Table):
            _is_sound(trace, table, name)
    assert all(isinstance(text, str) for text in trace.strings)
    for capture in trace.captures:
        is_sound(capture)


def _is_sound(trace: Trace, table: Table, name: str) -> None:
    most = {"thread": len(trace.threads), "collective": len(trace.collectives)}
    rows = len(table)
    for column in _columns(type(table)):
        values = getattr(table, column.name)
        where = (name, column.name)
        assert values.shape == (rows,), where
        assert column.metadata["narrow"] or values.dtype == column.metadata["dtype"], where
        if column.metadata["text"]:
            most[column.name] = len(trace.strings)
        if rows and column.name in most:
            assert int(values.min()) >= -1, where
            assert int(values.max()) < most[column.name], where
    start = getattr(table, "start", None)
    if start is None or not rows:
        return
    assert (np.diff(start) >= 0).all(), f"{name}: not sorted by start"
    end = getattr(table, "end", start)
    assert (end >= start).all(), f"{name}: an end before its start"


@cache
def _columns(table: type[Table]) -> tuple[Field[Any], ...]:
    return fields(table)


@cache
def _names(trace: type[Trace]) -> list[str]:
    return [one.name for one in fields(trace)]


def _read_report(path: Path) -> None:
    from traceanalyzer.report.read import report_from_json

    report_from_json(path.read_bytes())


def _read_operations(path: Path) -> None:
    from traceanalyzer.fleet.pipeline.log_file import read_operations

    read_operations(path)


def _read_digest(path: Path) -> None:
    """One that is refused is refused in a sentence."""
    from traceanalyzer.fleet.digests.files import LeftOut, read_digests
    from traceanalyzer.ingest.places import places_in

    for one in read_digests(places_in([str(path)])[0]):
        if isinstance(one, LeftOut):
            raise TraceAnalyzerError(one.why)


READERS: dict[str, Callable[[Path], None]] = {
    "recording": read,
    "report": _read_report,
    "operations": _read_operations,
    "digest": _read_digest,
}
"""By what a file is."""
