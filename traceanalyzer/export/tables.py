"""All tables of a recording, events and measurements, as DataFrames: what SQLite and Parquet are
written from."""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from traceanalyzer.base import text_kind_of
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.export.answer import OWN_OF_ANSWER, answer_frames
from traceanalyzer.export.event_columns import meanings
from traceanalyzer.export.events import EVENTS, event_frame
from traceanalyzer.report.format import plain
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.privacy.aliases import Aliases
from traceanalyzer.report.privacy.secrets import Secrets
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry

if TYPE_CHECKING:
    import pandas as pd

OWN = (
    {"kind", "class", "copy_kind", "source_memory", "target_memory", "source", "step_source"}
    | {f.name for table in TABLES for f in fields(table.row) if text_kind_of(f) == "own"}
    | OWN_OF_ANSWER
)
"""Columns with words of this program, not of the recording."""
RECORDING = "recording"  # the table of the ranks: which file each is, and what recorded it
Hidden = (
    Sequence[re.Pattern[str]] | None
)  # names to hide with paths, hosts and users; None: nothing is hidden


def table_frames(
    measured: MeasuredRanks, hidden: Hidden = None
) -> "Iterator[tuple[str, pd.DataFrame]]":
    """Name and rows of each table that has any. Where several ranks were recorded, events and
    measurements of single ranks have a column `rank`."""
    if hidden is None:
        yield from _frames(measured)
        return
    texts = chain.from_iterable(m.trace.strings for m in measured.each)
    secrets = Secrets.of(
        [(m.trace.path, m.trace.source) for m in measured.each],
        texts,
    )
    aliases = Aliases(hidden)
    for name, frame in _frames(measured):
        for column in frame.select_dtypes(["object", "category", "string"]):
            names = None if column in OWN else aliases
            frame[column] = _cleaned(frame[column], secrets, names)
        yield name, frame.assign(path=secrets.inputs) if name == RECORDING else frame


def _cleaned(values: "pd.Series[Any]", secrets: Secrets, aliases: Aliases | None) -> Any:
    """A column without secrets in its texts, and with aliases for hidden names."""
    texts = values.astype(object)
    clean = {text: secrets.clean(text) for text in texts.unique() if isinstance(text, str)}
    if aliases is not None:
        clean = {text: aliases.in_name(cleaned) for text, cleaned in clean.items()}
    shown = texts.map(lambda value: clean.get(value, value))
    return shown.astype("category") if values.dtype == "category" else shown


def _frames(measured: MeasuredRanks) -> "Iterator[tuple[str, pd.DataFrame]]":
    yield RECORDING, _recordings(measured)
    yield from answer_frames(measured)
    for name in EVENTS:
        yield from _of_ranks(name, [event_frame(m, name) for m in measured.each], measured)
    for table in TABLES:
        if table.of_the_run:
            frame = _frame(measured, measured.critical, table)
            if len(frame):
                yield table.name, frame
        else:
            yield from _of_ranks(
                table.name, [_frame(measured, m, table) for m in measured.each], measured
            )


def events_frame(measured: MeasuredRanks, table: str) -> "pd.DataFrame":
    """The events of all ranks (see `event_frame`), with a column `rank` where there are several."""
    frames = [event_frame(m, table) for m in measured.each]
    for _, rows in _of_ranks(table, frames, measured):
        for name in frames[0].select_dtypes("category"):
            rows[name] = rows[name].astype("category")  # ranks have other texts
        rows.attrs = {"definitions": meanings(table, list(rows.columns))}
        return rows
    return frames[0]


def _of_ranks(
    name: str, frames: "list[pd.DataFrame]", measured: MeasuredRanks
) -> "Iterator[tuple[str, pd.DataFrame]]":
    import pandas as pd

    by_rank = zip((m.trace.rank for m in measured.each), frames, strict=True)
    filled = [(rank, frame) for rank, frame in by_rank if len(frame)]
    for rank, of_rank in filled if len(measured.each) > 1 else ():
        if "rank" not in of_rank:
            of_rank.insert(0, "rank", rank)
    if filled:
        yield name, pd.concat([one for _, one in filled], ignore_index=True)


def _recordings(measured: MeasuredRanks) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {"rank": m.trace.rank, "path": plain(m.trace.path), "source": m.trace.source}
        | {"epoch_ns": m.trace.epoch_ns}
        | {"gpu": next((device.name for device in m.trace.devices if device.name), None)}
        | {"step_source": m.timed.steps.source}
        for m in measured.each
    ]
    return pd.DataFrame(rows)


def _frame(measured: MeasuredRanks, m: Measurements, table: TableEntry) -> "pd.DataFrame":
    import pandas as pd

    rows = table.rows(measured, m, RowFilter())
    columns = {}
    for f in fields(table.row):
        values = [_plain(getattr(row, f.name)) for row in rows]
        columns[RENAMED.get(f.name, f.name)] = values
    return pd.DataFrame(columns)


def _plain(value: object) -> object:
    """A value as a database holds it: lists and records as JSON text."""
    value = (
        value.value
        if isinstance(value, enum.Enum)
        else value.item()
        if isinstance(value, np.generic)
        else value
    )
    return (
        value
        if value is None or isinstance(value, str | int | float)
        else msgspec.json.encode(value).decode()
    )
