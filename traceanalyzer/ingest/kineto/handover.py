"""Rows that were read elsewhere, appended to other rows.

Codes of strings, threads and collectives count from 0 in each process, in the order in which it first meets them; parts
that are taken in the order of the file number them as reading it from front to back does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.kineto.collectives import Collective
from traceanalyzer.ingest.kineto.events import Group
from traceanalyzer.ingest.kineto.rows import Id, Rows
from traceanalyzer.trace import is_constant, narrowed

Codes = NDArray[np.int32]
"""New codes by old ones; the last is for -1."""
_SUMS = ("events", "skipped", "repaired", "lost", "memory_events")


@dataclass
class Part:
    """Rows of a stretch of the file."""

    texts: list[str]
    """Those that are new; so are threads and collectives."""
    threads: list[tuple[Id, Id]]
    collectives: list[Collective]
    names: dict[tuple[str, Id, Id], str]
    counts: dict[Group, int]
    sums: dict[str, int]
    window: tuple[int, int] | None
    window_end: int
    mended: list[int]
    """By table."""
    tables: list[dict[str, NDArray[Any]]]


def part_of(rows: Rows) -> Part:
    """The rows as a part. Empties them."""
    texts, threads, collectives = rows.known
    return Part(
        texts=rows.texts.in_order()[texts:],
        threads=list(rows.threads)[threads:],
        collectives=list(rows.collectives)[collectives:],
        names=rows.names,
        counts=rows.counts,
        sums={name: getattr(rows, name) for name in _SUMS},
        window=rows.window,
        window_end=rows.window_end,
        mended=[columns.mended for columns in rows.tables.values()],
        tables=[_lean(columns.take()) for columns in rows.tables.values()],
    )


def _lean(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns in as few bytes as their values need: half of what there was to hand over."""
    return {
        name: values if is_constant(values) or values.itemsize == 1 else narrowed(values)
        for name, values in columns.items()
    }


class Recoding:
    """The codes that the strings, threads and collectives of one process have among all, by its own."""

    def __init__(self) -> None:
        self._texts: list[int] = []
        self._threads: list[int] = []
        self._collectives: list[int] = []

    def with_new(self, part: Part, rows: Rows) -> tuple[Codes, Codes, Codes]:
        """Those of all of its parts up to this one."""
        self._texts += map(rows.texts.code, part.texts)
        self._threads += [rows.threads[key] for key in part.threads]
        texts = _codes(self._texts)
        self._collectives += [rows.collectives[one.recoded(texts)] for one in part.collectives]
        return texts, _codes(self._threads), _codes(self._collectives)


def append(rows: Rows, part: Part, codes: Recoding) -> None:
    """Add a part to the rows of all that comes before it in the file. `codes`: those of the process that read it."""
    texts, threads, collectives = codes.with_new(part, rows)
    for kind, mended, values in zip(rows.tables, part.mended, part.tables, strict=True):
        maps = {f.name: texts for f in fields(kind) if f.metadata["text"]}
        maps |= {"thread": threads, "collective": collectives}
        maps = {name: new for name, new in maps.items() if not (new[:-1] == np.arange(len(new) - 1)).all()}
        rows.tables[kind].extend(values, mended, maps)
    rows.names.update(part.names)
    for group, count in part.counts.items():
        rows.counts[group] += count
    for name, count in part.sums.items():
        setattr(rows, name, getattr(rows, name) + count)
    rows.window = part.window or rows.window
    rows.window_end = max(rows.window_end, part.window_end)


def _codes(codes: list[int]) -> Codes:
    return np.array([*codes, -1], np.int32)
