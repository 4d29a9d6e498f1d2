"""Answers kept beside the models of their recordings: how each is written down and read back, exactly as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from traceanalyzer import tables
from traceanalyzer.analysis.replay.whatif import WhatIf
from traceanalyzer.ingest.cache.answers import answered_once, is_answered
from traceanalyzer.report import build
from traceanalyzer.report.build import PAGE_ROWS, TOP_ROWS
from traceanalyzer.report.model import Report
from traceanalyzer.selection import Knowledge, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.selection import Asked
    from traceanalyzer.tables import Wanted

_REPORT: msgspec.json.Decoder[tuple[Report, dict[str, msgspec.Raw]]] = msgspec.json.Decoder(
    tuple[Report, dict[str, msgspec.Raw]]
)
_WHAT_IF = msgspec.json.Decoder(WhatIf)


def kept_report(asked: Asked, top: int = TOP_ROWS) -> Report:
    """The report, its long tables with so many rows. Raises as `measured` does.

    It is kept with as many as a page shows: a terminal, a page and a comparison are answered by the same one.
    """
    rows = max(top, PAGE_ROWS) if all(trace.kept_as for trace in asked.run.traces) else top

    def make() -> Report:
        return build.report_of(asked.measured, rows)

    question = _question(asked, "report", rows)
    report = make() if question is None else answered_once(asked.run, question, make, _report_text, _report_of)
    return replace(report, tables=tables.first_rows(report.tables, top))


def has_report(asked: Asked) -> bool:
    """Whether `kept_report` has one that was kept."""
    question = _question(asked, "report", PAGE_ROWS)
    return question is not None and is_answered(asked.run, question)


def kept_rows(asked: Asked, *parts: tuple[str, Wanted]) -> list[list[Any]]:
    """The rows of tables, each with those that are wanted of it. Raises as `measured` does."""

    def make() -> list[list[Any]]:
        return [tables.rows_of(asked.measured, name, wanted) for name, wanted in parts]

    def rows_from(data: bytes) -> list[list[Any]]:
        texts = msgspec.json.decode(data, type=list[msgspec.Raw])
        return [_rows(name, text) for (name, _), text in zip(parts, texts, strict=True)]

    question = _question(asked, "rows", *parts)
    return make() if question is None else answered_once(asked.run, question, make, _text, rows_from)


def kept_predictions(asked: Asked, speedups: Sequence[tuple[str, float]], bucket_mb: Sequence[float]) -> WhatIf:
    """What the step would take under each scenario. Raises as `predictions` does."""

    def make() -> WhatIf:
        return tables.predictions(asked.run, asked.selection, asked.knowledge, speedups=speedups, bucket_mb=bucket_mb)

    question = _question(asked, "whatif", list(speedups), list(bucket_mb))
    return make() if question is None else answered_once(asked.run, question, make, _text, _WHAT_IF.decode)


def _question(asked: Asked, what: str, *options: object) -> tuple[object, ...] | None:
    """What is asked; None where the answer depends on files of the user's."""
    usual, known = Knowledge(), asked.knowledge or Knowledge()
    if known.classes != usual.classes or known.hardware != usual.hardware or known.counters:
        return None
    return (what, asked.selection or Selection(), known.amounts, known.peak_flops_per_s, *options)


def _rows(table: str, text: bytes | msgspec.Raw) -> list[Any]:
    rows: list[Any] = msgspec.json.decode(text, type=list[tables.named(table).row])  # type: ignore[misc]
    return rows


def _report_text(report: Report) -> str:
    return _text((replace(report, tables={}), report.tables))


def _report_of(data: bytes) -> Report:
    report, texts = _REPORT.decode(data)
    return replace(report, tables={name: _rows(name, table) for name, table in texts.items()})


def _text(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} in an answer")
