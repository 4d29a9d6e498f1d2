"""A recording as files for other programs: a SQLite database, or a folder of Parquet files, of all
its tables."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.files import check_not_read
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.export.tables import Hidden, table_frames
from traceanalyzer.ingest.produced import allowed_bytes

if TYPE_CHECKING:
    import pandas as pd

INDEXES = {
    "device_ops": ("start_ns", "name", "step", "operator"),
    "api_calls": ("start_ns", "name"),
    "host_ranges": ("start_ns", "name"),
    "memory_events": ("start_ns",),
    "gaps": ("start_ns", "cause"),
}
VIEWS = {
    "kernel_events": ("device_ops", "SELECT * FROM device_ops WHERE kind = 'kernel'"),
    "copy_events": ("device_ops", "SELECT * FROM device_ops WHERE kind = 'memcpy'"),
    "wait_events": ("api_calls", "SELECT * FROM api_calls WHERE waits"),
    "gaps_by_cause": (
        "gaps",
        "SELECT cause, count(*) AS gaps, sum(duration_ns) / 1e6 AS total_ms, max(duration_ns) / 1e6 AS longest_ms "
        "FROM gaps GROUP BY cause ORDER BY total_ms DESC",
    ),
}
"""Views by name, each with the table it needs."""
AT_ONCE = 50_000  # rows that are turned into Python objects at a time
TYPES = {
    "i": int,
    "u": int,
    "b": int,
    "f": float,
}  # of columns, by the letter of numpy's kind; text has others


def write_sqlite(measured: MeasuredRanks, path: Path, hidden: Hidden = None) -> dict[str, int]:
    """Write every table of the measured ranks to a new SQLite database, with `INDEXES` and `VIEWS`.
    Takes the place of a file of that name only when it is whole. Rows written, by table. Raises
    TraceAnalyzerError where the file cannot be written."""
    from sqlite_utils import Database

    written = {}
    left = sum(allowed_bytes(Path(m.trace.path)) for m in measured.each)
    with _whole(path) as scratch, contextlib.closing(sqlite3.connect(scratch)) as connection:
        database = Database(connection)
        database.execute("PRAGMA journal_mode = OFF")
        database.execute(
            "PRAGMA synchronous = OFF"
        )  # the file is of no use to anybody before it is whole
        with database.conn:
            for name, frame in table_frames(measured, hidden):
                left -= _text_length(frame)
                if left < 0:
                    raise TraceAnalyzerError(
                        f"cannot write {path}: SQLite has a name in every row, and these are so "
                        "long that they take far more than the recording; Parquet has each once: "
                        "give a name in .parquet"
                    )
                _insert(database, name, frame)
                written[name] = len(frame)
            for table in (one for one in INDEXES if one in written):
                for column in INDEXES[table]:
                    database.table(table).create_index([column])
            for view, (needs, query) in VIEWS.items():
                if needs in written:
                    database.create_view(view, query)
    return written


def _text_length(frame: "pd.DataFrame") -> int:
    """Characters of all names in a table of events, where many rows share a name."""
    length = 0
    for column in frame.select_dtypes("category"):
        texts = frame[column].cat
        lengths = [len(str(text)) for text in texts.categories]
        lengths.append(0)  # the last place, of what is missing
        length += int(np.array(lengths, np.int64)[texts.codes].sum())
    return length


def _insert(database: Any, name: str, frame: "pd.DataFrame") -> None:
    columns = {str(c): frame[c] for c in frame}
    types = {
        c: TYPES.get(
            str(getattr(v.dtype, "kind", "O")),
            str,
        )
        for c, v in columns.items()
    }
    database.table(name).create({"id": int, **types}, pk="id")
    marks = ", ".join("?" * (len(columns) + 1))
    for first in range(0, len(frame), AT_ONCE):
        lists = [_objects(values.iloc[first : first + AT_ONCE]) for values in columns.values()]
        rows = zip(range(first, first + len(lists[0])), *lists, strict=True)
        database.conn.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)  # noqa: S608 names are ours


def _objects(values: Any) -> list[Any]:
    if values.hasnans:
        return [
            None if missing else one
            for one, missing in zip(values.tolist(), values.isna(), strict=True)
        ]
    return values.tolist()


def write_parquet(measured: MeasuredRanks, folder: Path, hidden: Hidden = None) -> dict[str, int]:
    """Write every table of the measured ranks to a folder, a Parquet file each. Rows written, by
    table. Needs pyarrow. Raises TraceAnalyzerError where that is not installed, or the folder
    cannot be written."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        needs = f"{how_to_install('parquet')}; or give a name in .sqlite"
        raise TraceAnalyzerError(f"Parquet needs pyarrow: {needs}") from error
    if folder.exists():
        raise TraceAnalyzerError(f"{folder} exists: name a folder that does not")
    written = {}
    with _whole(folder) as scratch:
        scratch.mkdir()
        for name, frame in table_frames(measured, hidden):
            table = pa.Table.from_pandas(frame, preserve_index=False)
            # Opened here: Arrow takes names in UTF-8 alone.
            with (scratch / f"{name}.parquet").open("wb") as file:
                pq.write_table(table, file)
            written[name] = len(frame)
    return written


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, which takes its name at the end."""
    check_not_read(path)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:64]}.", dir=path.parent) as folder:
            yield Path(folder) / path.name
            (Path(folder) / path.name).replace(path)
    except (OSError, sqlite3.Error) as error:
        raise TraceAnalyzerError(
            f"cannot write {path}: {getattr(error, 'strerror', '') or error}"
        ) from error
