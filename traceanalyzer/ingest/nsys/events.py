"""What the parts of the nsys reader share: rows before they are split by process, text codes,
counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import by_value, concatenated, tight
from traceanalyzer.ingest.durations import Tally, mend_times
from traceanalyzer.ingest.nsys.enums import INVALID_ID
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.ingest.sqlite.pages import TablePart
from traceanalyzer.trace import I32, I64, Bool, constant_column, distinct, is_constant

Columns = dict[str, NDArray[Any]]
UNKNOWN = -1  # process key or thread id of a row that does not say
TIMES = {"start": MISSING, "end": MISSING}
_TID_BITS = 24


def process_of(global_id: I64 | int) -> I64:
    """The key of the process (hardware, VM and process id) in each serialized GlobalId; UNKNOWN
    stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, (global_id >> _TID_BITS) & ((1 << 40) - 1))


def pid_of(key: int) -> int:
    """The process id in a process key."""
    return key & ((1 << _TID_BITS) - 1)


def process_key(hardware: I64, vm: I64, pid: I64) -> I64:
    """The process key from its parts."""
    return (hardware << 32) | (vm << 24) | pid


def thread_of(global_id: I64 | int) -> I64:
    """The thread id in each serialized GlobalId; UNKNOWN stays."""
    return np.where(global_id == UNKNOWN, UNKNOWN, global_id & ((1 << _TID_BITS) - 1))


def ids(column: I64) -> I64:
    """The column with nsys's "no such id" as -1."""
    return np.where(column == INVALID_ID, -1, column)


def distinct_rows(*columns: I64) -> list[tuple[int, ...]]:
    """The distinct combinations of values of columns that have few distinct values, in ascending
    order."""
    packed = np.zeros(len(columns[0]), np.int64)
    values = [distinct(column) for column in columns]
    for column, known in zip(columns, values, strict=True):
        packed = packed * len(known) + np.searchsorted(known, column)
    codes = distinct(packed)
    digits: list[I64] = []
    for known in reversed(values):
        digits.append(known[codes % max(len(known), 1)])
        codes = codes // max(len(known), 1)
    return list(zip(*(column.tolist() for column in reversed(digits)), strict=True))


@dataclass(frozen=True)
class ProcessEvents:
    """Rows of one kind, of all processes: aligned columns, named as in the trace's table."""

    process: I64  # key of each row's process, UNKNOWN where the file does not say
    columns: Columns
    thread: I64 | I32 | None = None  # id of each row's

    @classmethod
    def on_threads(cls, global_tid: I64, columns: Columns) -> "ProcessEvents":
        """Rows of these serialized thread ids."""
        return cls(process_of(global_tid), columns, thread_of(global_tid))

    def __len__(self) -> int:
        return len(self.process)

    def take(self, rows: I64 | Bool | slice) -> "ProcessEvents":
        """The given rows."""
        thread = None if self.thread is None else self.thread[rows]
        columns = {name: column[rows] for name, column in self.columns.items()}
        return ProcessEvents(self.process[rows], columns, thread)

    def of_process(self, process: int) -> "ProcessEvents":
        """The rows of one process. Where all are, it gets these very columns, and only empty ones
        are left here."""
        is_own = self.process == process
        if not is_own.all() or not len(is_own):
            return self.take(is_own if is_own.any() else slice(0))
        columns = dict(self.columns)
        self.columns.update({name: np.empty(0, column.dtype) for name, column in columns.items()})
        return ProcessEvents(self.process, columns, self.thread)

    @property
    def processes(self) -> list[int]:
        """The process keys that rows have."""
        return [int(key) for key in distinct(self.process)]

    @classmethod
    def concatenate(cls, parts: "list[ProcessEvents]") -> "ProcessEvents":
        """All rows of the parts, which must have the same columns, and lose them: so little is held
        twice."""
        threads = [part.thread for part in parts if part.thread is not None]
        columns = {
            name: concatenated([part.columns.pop(name) for part in parts])
            for name in list(parts[0].columns)
        }
        return cls(
            concatenated([part.process for part in parts]),
            columns,
            concatenated(threads) if threads else None,
        )


def distinct_of_all(columns: Iterable[NDArray[Any]]) -> I64:
    """The distinct values of these columns, ascending."""
    return distinct(np.concatenate(list(map(distinct, columns)))).astype(np.int64)


def small(column: I64) -> I64 | I32:
    """The column in 32 bits where its values fit."""
    fits = not len(column) or (column.min() >= -(2**31) and column.max() < 2**31)
    return tight(column.astype(np.int32) if fits else column)


def read_events(
    database: Database,
    table: str,
    columns: Mapping[str, int],
    make: Callable[[TablePart, Tally], ProcessEvents],
    tally: Tally,
    *,
    text: str | None = None,
) -> list[ProcessEvents]:
    """What `make` makes of the table, stretch by stretch; at least one, if of no rows."""

    def made(part: TablePart) -> tuple[ProcessEvents, Tally]:
        own = Tally()
        events = make(part, own)
        columns = {name: tight(column) for name, column in events.columns.items()}
        thread = None if events.thread is None else tight(events.thread.astype(np.int32))
        return ProcessEvents(tight(events.process), columns, thread), own

    found = database.each(table, columns, made, text=text)
    found = found or [made(TablePart({name: np.empty(0, np.int64) for name in columns}, []))]
    for _, own in found:
        tally.add(own)
    return [events for events, _ in found]


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

    def of_ids(self, column: I64 | I32, unnamed: str, rewrite: Callable[[str], str] = str) -> I32:
        """Codes of a column of `StringIds` ids, each distinct text rewritten once; of ids without a
        text the code of `unnamed`."""
        return self.of_parts([column], unnamed, rewrite)[0]

    def of_parts(
        self, columns: Sequence[I64 | I32], unnamed: str, rewrite: Callable[[str], str] = str
    ) -> list[NDArray[Any]]:
        """The codes of several columns of texts."""
        every = distinct_of_all(columns).tolist()
        texts = self._database.texts(every)
        codes = {i: self.code(rewrite(texts[i]) if i in texts else unnamed) for i in every}
        return [
            constant_column(codes[int(column[0])], len(column), np.int32)
            if is_constant(column)
            else by_value(column, codes.__getitem__, np.int32)
            for column in columns
        ]


def timed_rows(rows: dict[str, I64], tally: Tally, *, zero_is_missing: bool) -> Bool:
    """Which rows have times, as `mend_times` has it. `zero_is_missing`: nsys writes a start of 0
    where the device's timestamps were not collected, and its own reports leave such rows out."""
    known = (rows["start"] > MISSING // 2) & (rows["end"] > MISSING // 2)
    return mend_times(rows, known & (rows["start"] != 0) if zero_is_missing else known, tally)
