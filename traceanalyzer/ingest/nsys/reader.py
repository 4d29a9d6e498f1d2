"""Nsight Systems: SQLite exports of any version since 2020, gzipped ones, and reports where `nsys` is installed.

Tables and columns are asked for by name and may all be missing. Correlation ids are only unique within a
process, so an export becomes one `Trace` a process, and every join happens inside one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest.abilities import Abilities
from traceanalyzer.ingest.nsys.about import About
from traceanalyzer.ingest.nsys.health import diagnostics
from traceanalyzer.ingest.nsys.source import export, is_report
from traceanalyzer.ingest.nsys.tables import Tables
from traceanalyzer.ingest.nsys.trace import make_traces
from traceanalyzer.ingest.sqlite.database import Database, open_database
from traceanalyzer.ingest.sqlite.file import is_sqlite, sqlite_file
from traceanalyzer.trace import Trace
from traceanalyzer.trace.distinct import distinct

ABILITIES = Abilities(
    name="Nsight Systems export (`.sqlite`; an `.nsys-rep` where `nsys` is installed)",
    tells="kernels, copies, graphs, API calls, waits, NVTX ranges in place of operators, GPU metrics, every process",
    cannot="operators' shapes (save where NVTX carries them), so no roofline; the allocator; Python's stacks",
    record="`traceanalyzer collect nsys -- python train.py`; or `nsys profile` and `nsys export --type sqlite`",
)
_TABLE_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "META_DATA_")
_QUOTED = 2
"""Of nsys's own messages, in one line of an error."""
CUDA_BEGAN = "CUDA profiling initialization"
_TABLES = ("NVTX_EVENTS", "OSRT_API", "ANALYSIS_DETAILS", "EXPORT_META_DATA", "PROCESSES")
"""A database with one of these, and with `StringIds`, is an nsys export. nvprof's has `StringTable`."""


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is this reader's to read: any SQLite database, or a report by its name.

    `head`: the first bytes of the file. Another tool's database is refused by `read`, which can say why.
    """
    return is_sqlite(head, path) or is_report(head, path)


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """One `Trace` for each process that used a GPU, ordered by rank.

    `progress` is called with the share done, 0 to 1. Raises UnreadableInputError, EmptyRecordingError.
    """
    with sqlite_file(path, export) as (file, there), open_database(file, str(path)) as database:
        if not _is_export(database):
            raise _damaged(path, there) if there < 1 else _foreign(path)
        tables = Tables.read(database, progress or _ignore)
        if not tables.processes():
            raise _damaged(path, there) if database.damaged or there < 1 else _nothing(path, tables.about, database)
        return make_traces(path, database, tables, there=there)


def _cuda_began(database: Database) -> bool:
    """Whether the profiler noted that a process initialised CUDA."""
    rows = database.integers("PROFILER_OVERHEAD", {"nameId": -1})["nameId"]
    names = database.texts(int(i) for i in distinct(rows) if i >= 0)
    return any(CUDA_BEGAN in name for name in names.values())


def _ignore(share: float) -> None:
    """Nobody watches the progress."""


def _is_export(database: Database) -> bool:
    ours = any(name.startswith(_TABLE_PREFIXES) or name in _TABLES for name in database.columns)
    return ours and database.has("StringIds")


def _foreign(path: Path) -> UnreadableInputError:
    return UnreadableInputError(
        f"{path}: an SQLite database, but not an Nsight Systems export; "
        "make one with `nsys export --type sqlite REPORT`"
    )


def _damaged(path: Path, there: float) -> UnreadableInputError:
    cut = f"cut off at {there:.0%}" if there < 1 else "damaged"
    return UnreadableInputError(
        f"{path}: the database is {cut}, and no event of it can be read; copy or export it again"
    )


def _nothing(path: Path, about: About, database: Database) -> EmptyRecordingError:
    """Why there is no trace to be made of the export."""
    said = "; ".join(note.rstrip(".") for note in diagnostics(database)[:_QUOTED])
    if said:
        why = said
    elif _cuda_began(database):
        why = "a process initialised CUDA, but none of its calls were recorded (a driver newer than this nsys?)"
    elif about.did_collect("Cuda"):
        why = "CUDA was traced, but no call was recorded"
    else:
        why = "record with `nsys profile -t cuda,nvtx`"
    return EmptyRecordingError(f"{path}: the export holds no GPU work, CUDA calls or NVTX ranges; {why}")
