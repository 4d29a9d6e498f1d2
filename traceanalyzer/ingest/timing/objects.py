"""Lines with named values: objects of JSON, and rows of CSV."""

from collections.abc import Sequence

import msgspec

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import NOT_JSON, decoded
from traceanalyzer.ingest.timing import tables
from traceanalyzer.ingest.timing.fields import TIMED
from traceanalyzer.ingest.timing.formats import LineFormat
from traceanalyzer.ingest.timing.found import CSV, DIGIT, JSON, FoundLines
from traceanalyzer.ingest.timing.texts import SHAPES, LineReader

Numbered = tuple[int, str]
_OBJECTS = msgspec.json.Decoder(list[dict[str, object]])
_NOT_FINITE = regex(r"\b(?:NaN|-?Infinity)\b")  # Python writes them, JSON has none
_SERVERS_OWN = ("iterLatencyMS", "inflightBatchingStats")
"""Keys of records that a function of `special.py` reads."""
_WORDS = regex(r"[A-Za-z_][\w/%().]*(?:\s+[A-Za-z_][\w/%().]*)*")
"""A header of columns that spaces part."""
_WORDS_BEFORE = regex(
    r"[A-Za-z][A-Za-z_.:-]{0,40}[ \t]+(?=\{\s*\")|[A-Za-z][A-Za-z_.:-]{0,40}:(?=\{\s*\")"
)
"""What programs print before an object: `DLLL {"step": 1}`, `INFO:metrics:{"step": 1}`."""
_MESSAGES = ("msg", "message", "log", "text", "event")
"""Keys under which loggers that write JSON keep what the program printed."""
_MOMENTS = ("ts", "time", "timestamp", "asctime", "@timestamp")
_KINDS = frozenset(("mode", "split", "phase", "stage", "prefix"))


def object_in(line: str) -> str:
    """The JSON object that a line begins with, without the brackets and commas of a list around it
    and a word before it; empty for other lines."""
    if line.startswith("{") and line.endswith("}"):
        return line
    text = line.strip().lstrip("[ ")
    if text.startswith("{"):
        return text.rstrip(",] ")
    before = _WORDS_BEFORE.match(text)
    return text[before.end() :] if before and text.endswith("}") else ""


class TableReader:
    """Reads the rows of a table into `found`."""

    def __init__(self, found: FoundLines, header: str) -> None:
        """`header` is the table's first line. It is none where that names no time."""
        self._found = found
        self._delimiter, self._names = tables.header_of(header)
        self._columns = tables.known_columns((name, i) for i, name in enumerate(self._names))
        self.is_table = self._is_table(header)
        if self.is_table:
            note_names(found, self._columns)

    def _is_table(self, header: str) -> bool:
        fields = {column.field for column in self._columns}
        timed = fields.intersection(TIMED) or {"step", "when_s"} <= fields
        alone = len(self._names) < 2 and "iter_s" not in fields
        numbers = any(DIGIT.fullmatch(name) for name in self._names)
        if self._delimiter == tables.WHITESPACE and len(self._names) > 1:
            numbers = not (fields & {"step", "epoch"} and _WORDS.fullmatch(header.strip()))
        return bool(timed) and not (alone or numbers or header.lstrip().startswith(("{", "[")))

    def read(self, rows: Sequence[Numbered]) -> None:
        """Read rows with their numbers."""
        cells = tables.rows_of_csv((line for _, line in rows), self._delimiter)
        good = [i for i, row in enumerate(cells) if len(row) == len(self._names)]
        self._found.damage(CSV, len(cells) - len(good))
        numbers = [rows[i][0] for i in good]
        _add(self._found, CSV, self._columns, numbers, [cells[i] for i in good])


class Objects:
    """Reads objects of JSON into `found`."""

    def __init__(self, found: FoundLines, texts: LineReader) -> None:
        self._found = found
        self._texts = texts
        self._known: dict[tuple[str, ...], tuple[tables.KnownColumn, ...]] = {}

    def read(self, lines: Sequence[Numbered]) -> list[Numbered]:
        """Read lines with their numbers; those that are no JSON are returned."""
        numbers = [number for number, _ in lines]
        try:
            values = _OBJECTS.decode("[" + ",".join(line for _, line in lines) + "]")
        except NOT_JSON:
            return self._read_each(lines)
        if len(values) != len(lines):  # a line with several
            return self._read_each(lines)
        self.add(numbers, values)
        return []

    def add(self, numbers: Sequence[int], values: Sequence[dict[str, object]]) -> None:
        """Add objects with the numbers of their lines."""
        kinds = set(map(tuple, values))
        if len(kinds) == 1:
            self._add_alike(kinds.pop(), list(numbers), list(values))
            return
        groups: dict[tuple[str, ...], list[int]] = {}
        for i, found in enumerate(values):
            groups.setdefault(tuple(found), []).append(i)
        for keys, places in groups.items():
            self._add_alike(keys, [numbers[i] for i in places], [values[i] for i in places])

    def _read_each(self, lines: Sequence[Numbered]) -> list[Numbered]:
        left: list[Numbered] = []
        values: list[dict[str, object]] = []
        numbers: list[int] = []
        for number, line in lines:
            found = decoded(line)
            if found is None:
                found = decoded(_NOT_FINITE.sub('"nan"', line))
            if isinstance(found, dict):
                values.append(found)
                numbers.append(number)
            elif "'" in line:  # as Python prints a dictionary
                left.append((number, line))
            else:
                self._found.damage(JSON)
        self.add(numbers, values)
        return left

    def _add_alike(
        self, keys: tuple[str, ...], numbers: list[int], values: list[dict[str, object]]
    ) -> None:
        """Add objects with the same keys."""
        if any(key in keys for key in _SERVERS_OWN):
            for number, value in zip(numbers, values, strict=True):
                self._texts.call_functions(number, msgspec.json.encode(value).decode())
        elif any(isinstance(value, dict) for value in values[0].values()):
            for number, value in zip(numbers, values, strict=True):
                flat = tables.flattened(value)
                self._add_flat(tuple(flat), [number], [flat])
        else:
            self._add_flat(keys, numbers, values)

    def _add_flat(
        self, keys: tuple[str, ...], numbers: list[int], values: list[dict[str, object]]
    ) -> None:
        columns = self._columns_of(keys)
        if not any(column.field in TIMED for column in columns):
            self._read_messages(numbers, values)
        if _KINDS.intersection(keys):
            of_training = [i for i, one in enumerate(values) if not tables.is_of_evaluation(one)]
            numbers = [numbers[i] for i in of_training]
            values = [values[i] for i in of_training]
        _add(self._found, JSON, columns, numbers, values)

    def _columns_of(self, keys: tuple[str, ...]) -> tuple[tables.KnownColumn, ...]:
        """The keys that are known, of objects with these."""
        if keys in self._known:
            return self._known[keys]
        columns = tables.known_columns((key, key) for key in keys[: tables.MOST_KEYS])
        if "host_ms" in keys:  # a line of this package's collector: its step includes its data
            columns = (*columns, tables.KnownColumn("whole", 0.0, "host_ms", ""))
        if len(self._known) < SHAPES:
            self._known[keys] = columns
        note_names(self._found, columns)
        return columns

    def _read_messages(self, numbers: list[int], values: list[dict[str, object]]) -> None:
        """Read what a program printed through a logger that writes JSON."""
        key = next((key for key in _MESSAGES if isinstance(values[0].get(key), str)), None)
        if key is None:
            return
        when = next((name for name in _MOMENTS if isinstance(values[0].get(name), str)), "")
        self._texts.read(
            (number, f"{value.get(when, '')} {value.get(key)}".strip())
            for number, value in zip(numbers, values, strict=True)
        )


def note_names(found: FoundLines, columns: Sequence[tables.KnownColumn]) -> None:
    """Keep how the columns are called, and in which unit they are."""
    found.keys |= {column.field: column.name for column in columns}
    found.factors |= {column.field: column.factor for column in columns}


def _add(
    found: FoundLines,
    form: LineFormat,
    columns: tuple[tables.KnownColumn, ...],
    numbers: Sequence[int],
    rows: Sequence[object],
) -> None:
    if columns and rows:
        columns = tables.with_clocks(columns, rows)
        fields = tuple(column.field for column in columns)
        found.of(form).add_many(fields, numbers, tables.take(columns, rows))
