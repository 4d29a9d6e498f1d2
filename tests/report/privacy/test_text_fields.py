"""Every field that can hold text says what its text is, or is taken for a name: the list of all of
them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from tests.report.snapshots import matches_snapshot
from traceanalyzer.base.figures import SENTENCE, metric, text_kind_of
from traceanalyzer.export.perfetto.tracks import Overlay
from traceanalyzer.replay.prediction import WhatIf
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.memory.model import MemoryReport
from traceanalyzer.report.model import Report
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.trace import Run

ROOTS = (Report, *(table.row for table in TABLES), Details, MemoryReport, WhatIf, Overlay)
"""All that `--redact` is asked to clean."""


def classes(hint: Any, known: dict[type, None]) -> None:
    """Every dataclass that a value of that type can hold."""
    for inner in get_args(hint):
        classes(inner, known)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in known:
        known[hint] = None
        for inner in get_type_hints(hint).values():
            classes(inner, known)


def holds_text(hint: Any) -> bool:
    return (
        hint is str or isinstance(hint, str) or any(holds_text(inner) for inner in get_args(hint))
    )


def marked() -> Iterator[str]:
    known: dict[type, None] = {}
    for root in ROOTS:
        classes(root, known)
    for kind in known:
        hints = get_type_hints(kind)
        for f in dataclasses.fields(kind):
            if holds_text(hints[f.name]):
                yield f"{kind.__name__}.{f.name}: {text_kind_of(f)}"


def test_every_text_field_is_listed_with_what_its_text_is() -> None:
    assert matches_snapshot("\n".join(sorted(set(marked()))) + "\n", "text_fields.txt")


@dataclasses.dataclass(frozen=True)
class New:
    said_nothing: str
    with_definition: str = metric("which")
    own: str = metric("which", text="own")
    asked: str = metric("which", text="scenario")
    about: tuple[str, ...] = dataclasses.field(default=(), metadata=SENTENCE)


def test_a_field_that_says_nothing_is_private() -> None:
    where = "/home/alice/x.py"
    row = New(where, where, where, where, (f"ran {where}",))
    (cleaned,) = redact_rows([row], Run(()))
    assert "alice" not in cleaned.said_nothing + cleaned.with_definition + "".join(cleaned.about)
    assert cleaned.own == cleaned.asked == where
    (asked,) = redact_rows([dataclasses.replace(row, asked=f"{where}=2")], Run(()))
    assert "alice" not in asked.asked
