"""One order for the rows and texts of an export, whatever order its tables have: SQLite promises none."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import recoded
from traceanalyzer.trace import I32, I64, Table, Trace, is_constant, narrowed

AnyTable = TypeVar("AnyTable", bound=Table)


def canonical(traces: list[Trace]) -> list[Trace]:
    """The traces of one export with their common strings in alphabetical order, and rows that start at the same time in
    the order of their other columns."""
    if not traces:
        return traces
    strings = traces[0].strings
    order = sorted(range(len(strings)), key=strings.__getitem__)
    # The entry at the end is for -1: no text.
    code = np.full(len(strings) + 1, -1, np.int32)
    code[order] = np.arange(len(strings))
    texts = [strings[i] for i in order]
    return [_canonical(trace, texts, code) for trace in traces]


def _canonical(trace: Trace, strings: list[str], code: I32) -> Trace:
    tables: dict[str, Any] = {
        f.name: _ordered(_recoded(value, code))
        for f in fields(trace)
        if isinstance(value := getattr(trace, f.name), Table)
    }
    return replace(trace, strings=strings, **tables)


def _recoded(table: AnyTable, code: I32) -> AnyTable:
    texts = {
        f.name: recoded(getattr(table, f.name), narrowed(code) if f.metadata["narrow"] else code)
        for f in fields(table)
        if f.metadata["text"]
    }
    return replace(table, **texts)


def _ordered(table: AnyTable) -> AnyTable:
    start = getattr(table, "start", None)
    if start is None or len(table) < 2:
        return table
    same = start[1:] == start[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(tied):
        return table
    columns = {f.name: getattr(table, f.name) for f in fields(table) if f.name != "start"}
    order = tied[np.lexsort((*(column[tied] for column in reversed(columns.values())), start[tied]))]
    moved = {name: _moved(column, tied, order) for name, column in columns.items() if not is_constant(column)}
    return replace(table, **moved)


def _moved(column: NDArray[Any], to: I64, rows: I64) -> NDArray[Any]:
    """The column with the values of these rows at other ones."""
    result = column.copy()
    result[to] = column[rows]
    return result
