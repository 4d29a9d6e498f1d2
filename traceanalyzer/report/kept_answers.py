"""Answers kept beside the models of their recordings: how each is written down and read back,
exactly as it was. Each sort of answer has a module of its own, so that a table does without what
makes reports and advice."""

from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analysis.algebra.lazy_rows import LazyRows
from traceanalyzer.diagnosis.question import Query
from traceanalyzer.ingest.cache.answers import answered_once
from traceanalyzer.report import tables
from traceanalyzer.report.table_entries import table_named
from traceanalyzer.report.table_entries.asked_about import facts_of
from traceanalyzer.report.table_entries.kinds import RowFilter

MOST_ROWS = 20_000
"""More take longer to keep than to work out: every gap of a long recording."""
MOST_RANKS = 128
"""Ranks of which tables of each are made for a question that may follow: of thousands that would
take as long as a third of the report."""


def kept_rows(asked: Query, *parts: tuple[str, RowFilter]) -> list[list[Any]]:
    """The rows of tables, each with those that are wanted of it. Raises as `measured` does."""

    def make() -> list[list[Any]]:
        return [tables.measured_rows(asked.measured, name, wanted) for name, wanted in parts]

    def made_from(data: bytes) -> list[list[Any]]:
        texts = msgspec.json.decode(data, type=list[msgspec.Raw])
        return [rows_from(name, text) for (name, _), text in zip(parts, texts, strict=True)]

    def written(rows: list[list[Any]]) -> str:
        if sum(map(len, rows)) > MOST_ROWS:
            raise ValueError("rows that take longer to keep than to make")
        return kept_text(rows)

    question = kept_question(asked, "rows", *parts)
    return (
        make() if question is None else answered_once(asked.run, question, make, written, made_from)
    )


def kept_question(asked: Query, what: str, *options: object) -> tuple[object, ...] | None:
    """What is asked; None where the answer depends on files of the user's."""
    facts = facts_of(asked.selection, asked.knowledge)
    return None if facts is None else (what, *facts, *options)


def rows_from(table: str, text: bytes | msgspec.Raw) -> list[Any]:
    """The rows of a table from their text. Raises ValueError."""
    return msgspec.json.decode(text, type=list[table_named(table).row])  # type: ignore[misc]


def kept_text(value: Any) -> str:
    """A value of dataclasses as text. Raises TypeError for what cannot be kept."""
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, LazyRows):
        return list(value)
    raise TypeError(f"{type(value)} in an answer")
