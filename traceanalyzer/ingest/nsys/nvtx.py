"""NVTX ranges of an nsys export: the user's phases and steps, PyTorch's operators, NCCL's calls."""

from __future__ import annotations

import re
from array import array
from contextlib import suppress
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.ingest.nsys.database import MISSING, NotWholeError, together
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import TIMES, UNKNOWN, Events, mend_times, process_of, thread_of
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.ingest.nsys.database import Database
    from traceanalyzer.ingest.nsys.events import Strings, Tally
    from traceanalyzer.trace import I32, I64, Bool

NVTX = "NVTX_EVENTS"

_UNNAMED = "unnamed range"

_TEXTS_AT_ONCE = 512
"""What is made of so many texts stays in the processor's cache."""
MANY_ALIKE = 4
"""Where each text stands so often on the mean, it is quicker to look at each once."""

_RANGE_TYPES = ", ".join(str(int(kind)) for kind in NVTX_RANGES)

_EMITTED = re.compile(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[[\[\]\d, -]*\]))?(?:, input_op_ids = \[[\[\]()\d, -]*\])?",
    re.DOTALL,
)
"""The text that PyTorch's `emit_nvtx` gives a range: every call has its own numbers."""

_LINE = re.compile(r"^([^,\n]*)(?:, seq = (\d{1,18}))?(, op_id = \d+)?$", re.MULTILINE)
"""The usual form of these texts, for many of them at once: three times as fast as one by one."""

_OPERATOR = re.compile(r"(?:[A-Za-z_]\w*::)+[\w.]+|autograd::engine::evaluate_function: .*")
"""Names of PyTorch operators and autograd nodes, as against those of `record_function` blocks."""

_ALWAYS_OPERATOR = "aten::"
"""PyTorch's own namespace: an operator even where the text has no numbers."""


def nvtx_ranges(database: Database, strings: Strings, tally: Tally, *, with_rows: bool = False) -> Events:
    """Closed ranges that begin and end on one thread, with columns of `HostRanges`.

    A column `row` holds each range's rowid if `with_rows`, else -1.
    """
    crossing = _crossing(database)
    columns = {**TIMES, "globalTid": UNKNOWN, "textId": -1}
    if with_rows or len(crossing):
        columns["rowid"] = -1
    names, numbers = _names_and_numbers(database, columns, strings)
    start, tid = numbers["start"], numbers["globalTid"]
    row = numbers.get("rowid", np.full(len(start), -1, np.int64))
    name = np.where(names.code >= 0, names.code, strings.of_ids(numbers["textId"], _UNNAMED, bare_name))
    kept = _closed(numbers["end"], np.isin(row, crossing), tally)
    numbers["end"] = np.where(kept, numbers["end"], start)
    kept &= mend_times(numbers, tally, zero_is_missing=False)
    table = {
        "kind": np.where(names.operators(name), RangeKind.OP, RangeKind.ANNOTATION),
        "name": name,
        "start": start,
        "end": numbers["end"],
        "sequence": names.sequence,
        "shapes": names.shapes,
        "row": row,
    }
    events = Events(process_of(tid), table, thread_of(tid))
    return events if kept.all() else events.take(kept)


def _names_and_numbers(
    database: Database, columns: Mapping[str, int], strings: Strings
) -> tuple[_Names, dict[str, I64]]:
    """The texts of all ranges, and their other columns."""
    names, parts = _Names(strings), []
    with suppress(NotWholeError):
        for part in database.parts(NVTX, columns, text="text", where=f"eventType IN ({_RANGE_TYPES})"):
            for first in range(0, len(part.texts), _TEXTS_AT_ONCE):
                names.extend(part.texts[first : first + _TEXTS_AT_ONCE])
            parts.append(part._replace(texts=[]))
        return names, together(parts, columns)
    names = _Names(strings)
    try:
        return names, _row_by_row(database, columns, names, cast=False)
    except TypeError:
        names = _Names(strings)
        return names, _row_by_row(database, columns, names, cast=True)


def _row_by_row(database: Database, columns: Mapping[str, int], names: _Names, *, cast: bool) -> dict[str, I64]:
    """The columns of all ranges, their texts taken in by `names`."""
    numbers = [array("q") for _ in columns]
    wanted: dict[str, int | bytes | None] = {**columns, "text": b""}
    for batch in database.batches(NVTX, wanted, where=f"eventType IN ({_RANGE_TYPES})", cast=cast):
        *integers, texts = zip(*batch, strict=True)
        for number, values in zip(numbers, integers, strict=True):
            number.extend(values)
        names.extend(texts)
    return {name: np.frombuffer(number, np.int64) for name, number in zip(columns, numbers, strict=True)}


def bare_name(text: str) -> str:
    """The text without the numbers that `emit_nvtx` appends."""
    match = _EMITTED.fullmatch(text)
    return match["name"] if match else text


def nvtx_marks(database: Database) -> int:
    """How many rows of the table are no ranges (marks, names, domains)."""
    return sum(1 for _ in database.rows(NVTX, {"eventType": -1}, where=f"eventType NOT IN ({_RANGE_TYPES})"))


def nvtx_thread_names(database: Database) -> dict[tuple[int, int], str]:
    """Names that the program gave its threads, by (process key, thread id)."""
    rows = list(
        database.rows(
            NVTX, {"globalTid": UNKNOWN, "textId": -1, "text": None}, where=f"eventType = {NvtxEvent.THREAD_NAME:d}"
        )
    )
    registered = database.texts({row[1] for row in rows if row[1] >= 0})
    tids = np.array([row[0] for row in rows], np.int64)
    keys = zip(process_of(tids).tolist(), thread_of(tids).tolist(), strict=True)
    return {key: str(text or registered.get(i, "")) for key, (_, i, text) in zip(keys, rows, strict=True)}


def _crossing(database: Database) -> I64:
    """Rowids of ranges that end on another thread than they began on."""
    if not database.has(NVTX, "globalTid", "endGlobalTid"):
        return np.empty(0, np.int64)
    across = "endGlobalTid IS NOT NULL AND endGlobalTid != globalTid"
    return database.integers(NVTX, {"rowid": -1}, where=across)["rowid"]


def _closed(end: I64, crosses: Bool, tally: Tally) -> Bool:
    """Which ranges have an end, on the thread they began on; the others are counted."""
    closed: Bool = end != MISSING
    unclosed = int((~closed).sum())
    if unclosed:
        tally.lost += unclosed
        tally.notes.append(f"{unclosed} NVTX ranges were still open when the recording ended and are left out")
    tally.skipped += int((closed & crosses).sum())
    return closed & ~crosses


class _Names:
    """Names, autograd sequence numbers and input shapes from the texts of ranges, in their order."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._codes: dict[str, int] = {"": -1}
        self._numbered: set[str] = set()
        self._code = array("i")
        self._sequence = array("q")
        self._shapes = array("i")

    def extend(self, texts: Sequence[bytes]) -> None:
        """Take in the texts of further ranges."""
        if len(set(texts)) * MANY_ALIKE < len(texts):
            self._extend_by_kinds(texts)
        else:
            self._extend(texts)

    def _extend(self, texts: Sequence[bytes]) -> None:
        lines = _LINE.findall(b"\n".join(texts).decode("utf-8", "replace"))
        if len(lines) == len(texts):
            heads, sequences, numbers = zip(*lines, strict=True)
            self._learn(dict.fromkeys(heads))
            self._numbered.update(compress(heads, numbers))
            self._code.extend(map(self._codes.__getitem__, heads))
            self._sequence.extend([int(text) if text else -1 for text in sequences])
            self._shapes.extend([-1] * len(lines))
        else:
            for text in texts:
                self._add(text.decode("utf-8", "replace"))

    def _extend_by_kinds(self, texts: Sequence[bytes]) -> None:
        """The same, each text looked at once."""
        begun, distinct = len(self._code), list(dict.fromkeys(texts))
        self._extend(distinct)
        place = {text: i for i, text in enumerate(distinct)}
        rows = np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))
        for column in (self._code, self._sequence, self._shapes):
            known = np.array(column[begun:])
            del column[begun:]
            column.frombytes(known[rows].tobytes())

    def _learn(self, names: Iterable[str]) -> None:
        """Number new names in the order of their first appearance, so that every run reads the same."""
        for name in names:
            if name not in self._codes:
                self._codes[name] = self._strings.code(name)

    def _add(self, text: str) -> None:
        """Take in one text of any form."""
        match = _EMITTED.fullmatch(text)
        name = match["name"] if match else text
        self._learn((name,))
        if match and name != text:
            self._numbered.add(name)
        self._code.append(self._codes[name])
        self._sequence.append(int(match["seq"] or -1) if match else -1)
        self._shapes.append(self._strings.code(match["sizes"]) if match and match["sizes"] else -1)

    @property
    def code(self) -> I32:
        """Code of each name, -1 where the range has no text of its own."""
        return np.frombuffer(self._code, np.int32)

    @property
    def sequence(self) -> I64:
        """Autograd sequence number of each range, -1 without."""
        return np.frombuffer(self._sequence, np.int64)

    @property
    def shapes(self) -> I32:
        """Code of the input shapes of each range, -1 without."""
        return np.frombuffer(self._shapes, np.int32)

    def operators(self, name: I32) -> Bool:
        """Which of the ranges, with these name codes, are PyTorch operators."""
        is_operator = np.zeros(len(self._strings.values), bool)
        for text in self._numbered - {""}:
            is_operator[self._codes[text]] = _OPERATOR.fullmatch(text) is not None
        for code in np.unique(name).tolist():
            is_operator[code] |= self._strings.values[code].startswith(_ALWAYS_OPERATOR)
        result: Bool = is_operator[name] | (self.sequence >= 0)
        return result
