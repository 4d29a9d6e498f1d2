"""Logs with named columns: JSON lines and CSV. The names say what the values are."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from traceanalyzer.base import dataclass, regex
from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.fields import TRAINING
from traceanalyzer.ingest.timing.names import EVALUATION, UNKNOWN_UNIT, Meaning, meaning
from traceanalyzer.ingest.timing.pairs import value_of
from traceanalyzer.ingest.timing.printed import is_not_finite, printed_number

OWN_NAMES = {
    "_runtime": Meaning("clock_s"),
    "_timestamp": Meaning("when_s"),
    "wall time": Meaning("when_s"),
    "wall_time": Meaning("when_s"),
    "relative time (process)": Meaning("clock_s"),
    "relative time (wall)": Meaning("clock_s"),
    "elapsed_time": Meaning("clock_s"),
    "trainer/global_step": Meaning("step"),
    "num_input_tokens_seen": Meaning("tokens"),
    "i": Meaning("step"),
    "idx": Meaning("step"),
    "index": Meaning("step"),
}
"""Names of exports of Weights & Biases, of TensorBoard and of programs that fit no rule."""
DLLOGGERS_OWN = "elapsedtime"
"""A key beside which a step is a list of epoch and step."""
WHITESPACE = ""  # the delimiter of columns that spaces part
MOST_LEVELS = 3  # of objects within objects
MOST_KEYS = 4_000  # of one line
_QUANTITY = regex(r"^\s*+([-+]?[\d.,:]++(?:[eE][-+]?\d++)?)\s*+([a-zA-Z/%µ]*+)\s*+")
_DURATION = regex(
    r"(?:(\d{1,18})d\s*)?(?:(\d{1,18})h\s*)?(?:(\d{1,18})m\s*)?(?:(\d{1,18}(?:\.\d+)?)s)?"
)
_CLOCK = regex(r"(?:\d{1,4}:)?\d{1,2}:\d{2}(?:\.\d{1,9})?")
_STATISTIC = regex(r"__(?:MIN|MAX)$")


@dataclass(frozen=True)
class KnownColumn:
    """A column whose name is known. `place`: its key, or its number in a row."""

    field: str
    factor: float
    place: Any
    name: str


def known_columns(names: Iterable[tuple[str, Any]]) -> tuple[KnownColumn, ...]:
    """The columns that are known, the first of each field; names with their places."""
    found: dict[str, KnownColumn] = {}
    for name, place in names:
        meant = meaning_of(name)
        if meant is not None:
            found.setdefault(meant.field, KnownColumn(meant.field, meant.factor, place, name))
    return tuple(found.values())


def meaning_of(name: str) -> Meaning | None:
    """What a column's name means."""
    if _STATISTIC.search(name):
        return None
    plain = name.rpartition(" - ")[2].strip()  # `run 7 - train/loss`
    own = OWN_NAMES.get(plain.lower())
    return own if own is not None else meaning(plain)


def rows_of_csv(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """The cells of each line; none of a line that cannot be read."""
    lines = list(lines)
    if delimiter == WHITESPACE:
        return [line.split() for line in lines]
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        rows = []
    if len(rows) == len(lines):  # no cell reaches over several lines
        return rows
    rows = []
    for line in lines:
        try:
            rows.append(next(csv.reader([line], delimiter=delimiter), []))
        except csv.Error:
            rows.append([])
    return rows


def header_of(line: str) -> tuple[str, list[str]]:
    """The delimiter of a table and the names in its first line."""
    delimiter = next((d for d in (",", "\t", ";") if d in line), WHITESPACE)
    if line.lstrip().startswith("|"):
        delimiter = "|"
    cells = rows_of_csv([line.lstrip("# ")], delimiter)[0]
    return delimiter, [cell.strip() for cell in cells]


def flattened(values: Mapping[str, Any], path: str = "", level: int = 0) -> dict[str, Any]:
    """The values of an object and of those in it, by their paths. A step that is a list of epoch and
    step, as DLLogger writes it, is its last."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            if level < MOST_LEVELS:
                found |= flattened(value, f"{path}{name}/", level + 1)
        elif len(found) < MOST_KEYS:
            if name == "step" and isinstance(value, list) and value and DLLOGGERS_OWN in values:
                found[path + name] = value[-1]
            elif not isinstance(value, list):
                found[path + name] = value
    return found


def is_of_evaluation(values: Mapping[str, Any]) -> bool:
    """Whether an object says that it is not of training: `"mode": "val"`."""
    kinds = (values.get(name) for name in ("mode", "split", "phase", "stage", "prefix"))
    return any(isinstance(kind, str) and kind.lower().strip("_/") in EVALUATION for kind in kinds)


def take(columns: Sequence[KnownColumn], rows: Sequence[Any]) -> list[list[float]]:
    """The values of columns in rows (objects with all keys, or lists of cells)."""
    return [
        _scaled(list(map(itemgetter(column.place), rows)), column.factor, column.field)
        for column in columns
    ]


def with_clocks(columns: tuple[KnownColumn, ...], rows: Sequence[Any]) -> tuple[KnownColumn, ...]:
    """The columns, where those of times without a unit are in seconds: their cells are `00:40`."""
    return tuple(
        replace(column, field=f"{column.field.removesuffix(UNKNOWN_UNIT)}_s")
        if column.field.endswith(UNKNOWN_UNIT) and _is_clock(rows[-1][column.place])
        else column
        for column in columns
    )


def _is_clock(cell: object) -> bool:
    return isinstance(cell, str) and _CLOCK.fullmatch(cell.strip()) is not None


def _scaled(values: list[Any], factor: float, field: str) -> list[float]:
    read = _read(values, factor, field)
    if field in TRAINING:
        return [math.inf if is_not_finite(values[i]) else one for i, one in enumerate(read)]
    return read


def _read(values: list[Any], factor: float, field: str) -> list[float]:
    read = _plain_numbers(values)
    if read is None:
        read = [quantity(value, field) for value in values]
    return read if factor == 1.0 else [value * factor for value in read]


def _plain_numbers(values: list[Any]) -> list[float] | None:
    """The values as Python reads them, which is fast; None where one of them needs more."""
    kinds = set(map(type, values))
    are_short_texts = kinds == {str} and max(map(len, values)) < limits().digits
    if not are_short_texts and not kinds <= {float, int}:
        return None
    try:
        return list(map(float, values))
    except (OverflowError, ValueError):
        return None


def quantity(value: object, field: str) -> float:
    """A number as exports write it: `0:01:30`, `3m 10s`, `5/100`, `41.2%`; NaN for what is none."""
    if not isinstance(value, str):
        read = printed_number(value)
        return math.nan if read is None else read
    text = value[: limits().digits].strip()
    moment = moment_of(text) if field == "when_s" else None
    if moment is not None:
        return moment[0] if moment[1] else math.nan
    found = _QUANTITY.fullmatch(text.partition("/")[0] if field == "step" else text)
    if found and (not found[2] or found[2] in ("%", "s")):
        read = value_of(found[1])
        return read / 100 if found[2] == "%" and field == "mfu" else read
    return _seconds(text)


def _seconds(text: str) -> float:
    """A length of time by its parts: `0:01:30`, `3m 10s`; NaN for another text."""
    spent = _DURATION.fullmatch(text) if text else None
    if spent is None:
        return math.nan
    days, hours, minutes, seconds = (float(part or 0.0) for part in spent.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
