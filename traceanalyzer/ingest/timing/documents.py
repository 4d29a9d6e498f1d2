"""Documents of JSON with a list of steps: the `trainer_state.json` of HF's Trainer, exports of
trackers, lists of objects, objects of lists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.side_files import decoded
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.ingest.timing import tables
from traceanalyzer.ingest.timing.fields import TIMED
from traceanalyzer.ingest.timing.formats import FORMATS
from traceanalyzer.ingest.timing.found import JSON, FoundLines

HF_TRAINER = next(form for form in FORMATS if form.name == "HF Trainer")
MOST_LEVELS = 4  # of objects within objects in which a list of steps is looked for
MOST_RUNS = 8  # of a list whose parts have lists of steps
FEWEST = 2  # steps of a list
NOT_LOGS = frozenset(("schema_version", "traceEvents"))
"""Keys of documents that have lists of steps and are no logs: this package's own reports."""


def begins_document(line: str) -> bool:
    """Whether a text that begins with this line is JSON over several lines."""
    text = line.strip()
    if text[:1] not in ("{", "["):
        return False
    inside = text[1:].lstrip()
    if inside[:1] not in ("", '"', "{", "["):
        return False
    value = decoded(text.lstrip("[ ").rstrip(",] "))
    return not isinstance(value, dict) or any(isinstance(v, list | dict) for v in value.values())


def read_document(path: Path, found: FoundLines, *, probing: bool = False) -> None:
    """Add the steps of a document to `found`; nothing where it has none, or is too large.
    `probing`: only to see what it is."""
    value = _document(path, probing=probing)
    if isinstance(value, dict) and NOT_LOGS.intersection(value):
        return
    steps = max(_lists(value, 0), key=_worth, default=[])
    if _worth(steps) == 0:
        return
    names = dict.fromkeys(name for row in steps for name in row)
    columns = tables.known_columns((name, name) for name in names)
    form = HF_TRAINER if "train_steps_per_second" in names else JSON
    found.keys |= {column.field: column.name for column in columns}
    found.factors |= {column.field: column.factor for column in columns}
    for number, row in enumerate(steps):
        values = _values(columns, row)
        if values and not tables.is_of_evaluation(row):
            found.of(form).add(number, values)
    found.lines = len(steps)


def _values(columns: tuple[tables.KnownColumn, ...], row: dict[str, Any]) -> dict[str, float]:
    """The values of a step by field, of the columns that it has."""
    present = tuple(column for column in columns if column.place in row)
    fields = [column.field for column in present]
    values = [value for (value,) in tables.take(present, [row])]
    return dict(zip(fields, values, strict=True))


def _document(path: Path, *, probing: bool) -> object:
    """The document in a file; None where it is too large, or none."""
    data = bytearray()
    with open_stream(path, probing=probing) as stream:
        for piece in stream:
            data += piece
            if len(data) > limits().side:
                return None
    return decoded(bytes(data))


def _worth(rows: list[dict[str, Any]]) -> int:
    """How much a list looks like steps: 0 where it times none."""
    names = dict.fromkeys(name for row in rows for name in row)
    fields = {column.field for column in tables.known_columns((name, name) for name in names)}
    timed = fields.intersection(TIMED) and fields & {"step", "epoch", "iter_s", "its_per_s"}
    return len(rows) if timed or {"step", "when_s"} <= fields else 0


def _lists(value: Any, level: int) -> Iterator[list[dict[str, Any]]]:
    """The lists of objects in a document, flattened."""
    if level > MOST_LEVELS:
        return
    if isinstance(value, list):
        rows = [tables.flattened(row) for row in value if isinstance(row, dict)]
        if len(rows) >= FEWEST:
            yield rows
        inside = value[:MOST_RUNS]
    elif isinstance(value, dict):
        rows = _of_columns({name: of for name, of in value.items() if _is_column(of)})
        if rows:
            yield rows
        inside = list(value.values())
    else:
        return
    for inner in inside:
        yield from _lists(inner, level + 1)


def _of_columns(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of several columns of one length; none of others."""
    lengths = {len(column) for column in columns.values()}
    if len(columns) < 2 or len(lengths) > 1:
        return []
    cells = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= FEWEST
        and all(isinstance(one, int | float | str | None) for one in value)
    )
