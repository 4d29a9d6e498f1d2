"""What a reader promises of the model that it makes, whatever it read."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.base.reading import reading_as
from traceanalyzer.ingest import load
from traceanalyzer.trace import Table, Trace

if TYPE_CHECKING:
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
    for one in fields(trace):
        table = getattr(trace, one.name)
        if isinstance(table, Table):
            _is_sound(trace, table, one.name)
    assert all(isinstance(text, str) for text in trace.strings)
    for capture in trace.captures:
        is_sound(capture)


def _is_sound(trace: Trace, table: Table, name: str) -> None:
    most = {"thread": len(trace.threads), "collective": len(trace.collectives)}
    for column in fields(table):
        values = getattr(table, column.name)
        where = f"{name}.{column.name}"
        assert values.shape == (len(table),), where
        assert column.metadata["narrow"] or values.dtype == column.metadata["dtype"], where
        if column.metadata["text"]:
            most[column.name] = len(trace.strings)
        if len(table) and column.name in most:
            assert int(values.min()) >= -1, where
            assert int(values.max()) < most[column.name], where
    start = getattr(table, "start", None)
    if start is None or not len(table):
        return
    assert (np.diff(start) >= 0).all(), f"{name}: not sorted by start"
    end = getattr(table, "end", start)
    assert (end >= start).all(), f"{name}: an end before its start"
