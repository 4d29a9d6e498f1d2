"""What the parts of the nsys reader share: rows before they are split by process, text codes, counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.nsys.database import MISSING
from traceanalyzer.ingest.nsys.enums import INVALID_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.ingest.nsys.database import Database
    from traceanalyzer.trace import I32, I64, Bool

Columns = dict[str, NDArray[Any]]

UNKNOWN = -1
"""Process key or thread id of a row that does not say."""

LATEST = 2**61
"""Neither a clock that counts from 1970 nor one that counts from boot goes beyond, and differences fit int64."""
LONGEST = 2**52
"""50 days; see `kineto_times.MAX_DURATION_US`."""
TIMES = {"start": MISSING, "end": MISSING}

_TID_BITS = 24


def process_of(global_id: I64) -> I64:
    """The key of the process (hardware, VM and process id) in a serialized GlobalId; UNKNOWN stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, (global_id >> _TID_BITS) & ((1 << 40) - 1))


def pid_of(key: int) -> int:
    """The process id in a process key."""
    return key & ((1 << _TID_BITS) - 1)


def process_key(hardware: I64, vm: I64, pid: I64) -> I64:
    """The process key from its parts."""
    return (hardware << 32) | (vm << 24) | pid


def thread_of(global_id: I64) -> I64:
    """The thread id in a serialized GlobalId; UNKNOWN stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, global_id & ((1 << _TID_BITS) - 1))


def ids(column: I64) -> I64:
    """The column with nsys's "no such id" as -1."""
    return np.where(column == INVALID_ID, -1, column)


def distinct_rows(*columns: I64) -> list[tuple[int, ...]]:
    """The distinct combinations of values of columns that have few distinct values, in ascending order."""
    packed = np.zeros(len(columns[0]), np.int64)
    values = [np.unique(column) for column in columns]
    for column, known in zip(columns, values, strict=True):
        packed = packed * len(known) + np.searchsorted(known, column)
    codes = np.unique(packed)
    digits: list[I64] = []
    for known in reversed(values):
        digits.append(known[codes % max(len(known), 1)])
        codes = codes // max(len(known), 1)
    return list(zip(*(column.tolist() for column in reversed(digits)), strict=True))


@dataclass
class Tally:
    """Counts and remarks of a whole file, collected while it is read."""

    skipped: int = 0
    lost: int = 0
    clipped: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Events:
    """Rows of one kind, of all processes: aligned columns, named as in the trace's table."""

    process: I64
    """Process key of each row, UNKNOWN where the file does not say."""
    columns: Columns
    thread: I64 | None = None
    """Thread id of each row."""

    def __len__(self) -> int:
        return len(self.process)

    def take(self, rows: I64 | Bool) -> Events:
        """The given rows."""
        thread = None if self.thread is None else self.thread[rows]
        return Events(self.process[rows], {k: v[rows] for k, v in self.columns.items()}, thread)

    @classmethod
    def concatenate(cls, parts: list[Events]) -> Events:
        """All rows of the parts, which must have the same columns."""
        thread = None
        if parts[0].thread is not None:
            thread = np.concatenate([part.thread for part in parts if part.thread is not None])
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        return cls(np.concatenate([part.process for part in parts]), columns, thread)


class Strings:
    """Text codes shared by the traces of one export; holds only text that their tables refer to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._codes: dict[str, int] = {}
        self.values: list[str] = []

    def code(self, text: str) -> int:
        """The code of the text."""
        code = self._codes.setdefault(text, len(self.values))
        if code == len(self.values):
            self.values.append(text)
        return code

    def of_ids(self, column: I64, unnamed: str, rewrite: Callable[[str], str] = str) -> I32:
        """Codes of a column of `StringIds` ids, each distinct text rewritten once.

        Ids without a text get the code of `unnamed`.
        """
        distinct = np.unique(column)
        texts = self._database.texts(int(i) for i in distinct if i >= 0)
        codes = [self.code(rewrite(texts[i]) if i in texts else unnamed) for i in distinct.tolist()]
        result: I32 = np.array(codes, np.int32)[np.searchsorted(distinct, column)]
        return result


def mend_times(rows: dict[str, I64], tally: Tally, *, zero_is_missing: bool) -> Bool:
    """Which rows have times; a time span that ends before it starts is cut to nothing.

    `zero_is_missing`: nsys writes a start of 0 where the device's timestamps were not collected, and its
    own reports leave such rows out.
    """
    start, end = rows["start"], rows["end"]
    timed: Bool = (start > MISSING // 2) & (end > MISSING // 2) & (start <= LATEST) & (end <= LATEST)
    if zero_is_missing:
        timed &= start != 0
    backwards = timed & ((end < start) | (end - start > LONGEST))
    tally.lost += int((~timed).sum())
    tally.clipped += int(backwards.sum())
    rows["end"] = np.where(backwards, start, end)
    return timed
