"""NVTX ranges of an nsys export: the user's phases and steps, PyTorch's operators, NCCL's calls."""

from __future__ import annotations

import re
from array import array
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.ingest.nsys.database import MISSING
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import (
    TIMES,
    UNKNOWN,
    Columns,
    Events,
    mend_times,
    process_of,
    read_events,
    small,
    thread_of,
    tight,
)
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.ingest.nsys.database import Database
    from traceanalyzer.ingest.nsys.events import Strings, Tally
    from traceanalyzer.ingest.nsys.pages import Part
    from traceanalyzer.trace import I32, I64, Bool

NVTX = "NVTX_EVENTS"

_UNNAMED = "unnamed range"

_TEXTS_AT_ONCE = 512
"""What is made of so many texts stays in the processor's cache."""
MANY_ALIKE = 4
"""Where each text stands so often on the mean, it is quicker to look at each once."""

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
    names = _Names(strings)

    def ranges(part: Part, own: Tally) -> Events:
        rows, texts = _ranges_of(part, own)
        code, sequence, shapes = names.of(texts)
        kept = _kept(rows, own)
        columns: Columns = {
            "name": code,
            "textId": small(np.where(code < 0, rows["textId"], -1)),
            "start": rows["start"],
            "end": rows["end"],
            "sequence": sequence,
            "shapes": shapes,
            "row": rows.get("rowid", np.full(len(kept), -1, np.int64)),
        }
        tid = rows["globalTid"]
        return Events(process_of(tid), columns, thread_of(tid)).take(kept)

    columns = {**TIMES, "globalTid": UNKNOWN, "endGlobalTid": MISSING, "textId": -1, "eventType": -1}
    if with_rows:
        columns["rowid"] = -1
    events = Events.concatenate(read_events(database, NVTX, columns, ranges, tally, text="text"))
    if tally.unclosed:
        tally.notes.append(f"{tally.unclosed} NVTX ranges were still open when the recording ended and are left out")
    name, ids = events.columns["name"], events.columns.pop("textId")
    if (name < 0).any():
        name = np.where(name >= 0, name, strings.of_ids(ids, _UNNAMED, bare_name))
    operators = names.operators(name, events.columns["sequence"])
    kind = tight(np.where(operators, RangeKind.OP, RangeKind.ANNOTATION).astype(np.uint8))
    events.columns.update({"kind": kind, "name": name})
    return events


def _ranges_of(part: Part, tally: Tally) -> tuple[dict[str, I64], list[bytes]]:
    """The rows that are ranges, and their texts; the others (marks, names, domains) are counted."""
    kinds = part.integers["eventType"]
    is_range = np.isin(kinds, NVTX_RANGES)
    tally.skipped += int(((kinds != -1) & ~is_range).sum())
    if is_range.all():
        return part.integers, part.texts
    return {name: column[is_range] for name, column in part.integers.items()}, list(
        compress(part.texts, is_range.tolist())
    )


def _kept(rows: dict[str, I64], tally: Tally) -> Bool:
    """Which ranges have possible times, and an end on the thread they began on; the others are counted."""
    tid, end_tid = rows["globalTid"], rows["endGlobalTid"]
    crosses = (end_tid != MISSING) & (tid != UNKNOWN) & (end_tid != tid)
    closed: Bool = rows["end"] != MISSING
    tally.unclosed += int((~closed).sum())
    tally.lost += int((~closed).sum())
    tally.skipped += int((closed & crosses).sum())
    kept = closed & ~crosses
    rows["end"] = np.where(kept, rows["end"], rows["start"])
    result: Bool = kept & mend_times(rows, tally, zero_is_missing=False)
    return result


def bare_name(text: str) -> str:
    """The text without the numbers that `emit_nvtx` appends."""
    match = _EMITTED.fullmatch(text)
    return match["name"] if match else text


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


class _Names:
    """Names, autograd sequence numbers and input shapes from the texts of ranges."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._codes: dict[str, int] = {"": -1}
        self._numbered: set[str] = set()
        self._code, self._sequence, self._shapes = array("i"), array("q"), array("i")

    def of(self, texts: list[bytes]) -> tuple[I32, I64, I32]:
        """Of the texts of ranges: code of the name (-1 where the range has no text of its own), autograd sequence
        number and code of the input shapes (-1 without)."""
        self._code, self._sequence, self._shapes = array("i"), array("q"), array("i")
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            self._extend_all(texts[first : first + _TEXTS_AT_ONCE])
        return np.array(self._code, np.int32), np.array(self._sequence, np.int64), np.array(self._shapes, np.int32)

    def _extend_all(self, texts: Sequence[bytes]) -> None:
        if len(set(texts)) * MANY_ALIKE < len(texts):
            self._extend_by_kinds(texts)
        else:
            self._extend(texts)

    def _extend(self, texts: Sequence[bytes]) -> None:
        together = b"\n".join(texts)
        lines = _LINE.findall(together.decode("utf-8", "replace"))
        if len(lines) == len(texts) == together.count(b"\n") + 1:
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

    def operators(self, name: I32, sequence: I64) -> Bool:
        """Which of the ranges, with these name codes and sequence numbers, are PyTorch operators."""
        is_operator = np.zeros(len(self._strings.values), bool)
        for text in self._numbered - {""}:
            is_operator[self._codes[text]] = _OPERATOR.fullmatch(text) is not None
        for code in np.unique(name).tolist():
            is_operator[code] |= self._strings.values[code].startswith(_ALWAYS_OPERATOR)
        result: Bool = is_operator[name] | (sequence >= 0)
        return result
