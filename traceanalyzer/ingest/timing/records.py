"""What the lines of a log say, as columns: numbers by field, one row a line."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.timing.fields import SIDES, TRAINING
from traceanalyzer.trace import F64, I64, Bool, constant_column

Values = Mapping[str, float]
"""What one line says, by field."""


@dataclass(frozen=True, eq=False)
class Records:
    """Lines of a log, in their order. A line that does not say something has NaN there."""

    line: I64
    columns: Mapping[str, F64]

    def __len__(self) -> int:
        return len(self.line)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def column(self, name: str) -> F64:
        """The values of a field, NaN where no line has it."""
        found = self.columns.get(name)
        return constant_column(np.nan, len(self), np.float64) if found is None else found

    def take(self, rows: I64 | Bool) -> "Records":
        """The chosen lines."""
        return Records(self.line[rows], {name: of[rows] for name, of in self.columns.items()})

    def with_columns(self, **columns: F64) -> "Records":
        """The lines with other columns."""
        return Records(self.line, {**self.columns, **columns})

    def without(self, *names: str) -> "Records":
        """The lines without some columns."""
        return Records(self.line, {n: of for n, of in self.columns.items() if n not in names})


@dataclass(frozen=True, eq=False)
class _Block:
    """Lines that say values of the same fields."""

    line: "array[int]"
    columns: "tuple[array[float], ...]"


@dataclass(frozen=True, eq=False)
class GrowingRecords:
    """The lines of one format while they are read: eight bytes a value."""

    _blocks: dict[tuple[str, ...], _Block] = field(default_factory=dict)

    def add(self, line: int, values: Values) -> None:
        """Add a line."""
        block = self._block(tuple(values))
        block.line.append(line)
        for column, value in zip(block.columns, values.values(), strict=True):
            column.append(value)

    def add_many(
        self, fields: tuple[str, ...], lines: Iterable[int], columns: Sequence[Iterable[float]]
    ) -> None:
        """Add lines that say values of the same fields, given as a column a field."""
        block = self._block(fields)
        block.line.extend(lines)
        for column, values in zip(block.columns, columns, strict=True):
            column.extend(values)

    def _block(self, fields: tuple[str, ...]) -> _Block:
        block = self._blocks.get(fields)
        if block is None:
            block = _Block(array("q"), tuple(array("d") for _ in fields))
            self._blocks[fields] = block
        return block

    def count(self, *fields: str) -> int:
        """Lines that say all of these fields."""
        wanted = set(fields)
        return sum(len(of.line) for names, of in self._blocks.items() if wanted.issubset(names))

    def count_any(self, fields: Iterable[str]) -> int:
        """Lines that say one of these fields or more."""
        wanted = set(fields)
        return sum(len(of.line) for names, of in self._blocks.items() if wanted.intersection(names))

    def __len__(self) -> int:
        return sum(len(of.line) for of in self._blocks.values())

    def records(self) -> Records:
        """All lines, in order."""
        rows = len(self)
        line = np.empty(rows, np.int64)
        columns: dict[str, F64] = {}
        at = 0
        for names, block in self._blocks.items():
            count = len(block.line)
            line[at : at + count] = np.frombuffer(block.line, np.int64)
            for name, values in zip(names, block.columns, strict=True):
                if name not in columns:
                    columns[name] = np.full(rows, np.nan)
                columns[name][at : at + count] = np.frombuffer(values, np.float64)
            at += count
        order = np.argsort(line, kind="stable")
        for name, column in columns.items():
            if name not in TRAINING:
                column[~np.isfinite(column)] = math.nan
        return Records(line[order], {name: of[order] for name, of in columns.items()})


def joined_records(parts: Sequence[GrowingRecords]) -> Records:
    """The lines of several formats, in order."""
    each = [part.records() for part in parts if len(part)]
    if len(each) == 1:
        return each[0]
    names = dict.fromkeys(name for records in each for name in records.columns)
    line = np.concatenate([records.line for records in each] or [np.empty(0, np.int64)])
    order = np.argsort(line, kind="stable")
    columns = {
        name: np.concatenate([records.column(name) for records in each])[order] for name in names
    }
    return Records(line[order], columns)


def with_sides(records: Records, others: Records, names: Sequence[str] = SIDES) -> Records:
    """The records with what other lines say of the step above them, where they do not say it
    themselves."""
    if not len(records) or not len(others):
        return records
    above = np.searchsorted(records.line, others.line, side="right") - 1
    columns = dict(records.columns)
    for name in names:
        if name in others:
            value = others.column(name)
            column = records.column(name).copy()
            gives = np.flatnonzero((above >= 0) & ~np.isnan(value))
            gives = gives[np.isnan(column[above[gives]])][::-1]
            column[above[gives]] = value[gives]
            columns[name] = column
    return Records(records.line, columns)
