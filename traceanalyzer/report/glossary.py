"""What every figure means: definitions of the report's metrics, of the tables' columns and of the words in it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from traceanalyzer.figures import definitions
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import GLOSSARY
from traceanalyzer.report.values import RENAMED
from traceanalyzer.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Entry:
    """A figure, a column or a word with its meaning. `where` is its place: `metrics.budget_ms`, `table kernels`."""

    name: str
    where: str
    unit: str
    meaning: str


def entries() -> list[Entry]:
    """All of them: words, figures of the report, columns of the tables."""
    words = [Entry(word, "word", "", meaning) for word, meaning in GLOSSARY]
    columns = [
        Entry(RENAMED.get(d.name, d.name), f"table {table.command or table.name}", d.unit, d.definition)
        for table in TABLES
        for d in definitions(table.row)
    ]
    return [*words, *_figures(Report, ""), *columns]


def explained(name: str) -> list[Entry]:
    """The entries of that name, with or without its place (`budget_ms.idle`, `idle`), case and hyphens aside."""
    wanted = _folded(name)
    return [
        entry
        for entry in entries()
        if wanted in (_folded(entry.name), _folded(f"{entry.where}.{entry.name}"))
        or _folded(f"{entry.where}.{entry.name}").endswith(f".{wanted}")
    ]


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def _figures(kind: type[Any], where: str) -> Iterator[Entry]:
    """The figures of a dataclass of the report and of those in it."""
    hints = get_type_hints(kind)
    for d in definitions(kind):
        name = RENAMED.get(d.name, d.name)
        yield Entry(name, where or "report", d.unit, d.definition)
        for inner in _dataclasses_in(hints[d.name]):
            yield from _figures(inner, f"{where}.{name}" if where else name)


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from _dataclasses_in(inner)
