"""Nsight Systems: SQLite exports of any version since 2020, gzipped ones, and reports (`.nsys-rep`)
where `nsys` is installed to export them. Tables and columns are asked for by name and may all be
missing. Correlation ids are only unique within a process, so an export becomes one `Trace` a
process, and every join happens inside one."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from traceanalyzer.base import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC
from traceanalyzer.ingest.nsys.about import About
from traceanalyzer.ingest.nsys.health import diagnostics
from traceanalyzer.ingest.nsys.tables import NsysTables
from traceanalyzer.ingest.nsys.trace import make_traces
from traceanalyzer.ingest.sqlite.database import Database, is_sqlite, open_database, sqlite_file
from traceanalyzer.trace import Trace, distinct

_TEXT_BYTES = bytes(range(0x20, 0x7F)) + b"\t\n\r\f"


_TABLE_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "META_DATA_")
_TABLES = ("NVTX_EVENTS", "OSRT_API", "ANALYSIS_DETAILS", "EXPORT_META_DATA", "PROCESSES")
"""A database with one of these, and with `StringIds`, is an nsys export. nvprof's has
`StringTable`."""


def export_report(path: Path, target: Path) -> None:
    """Have the installed `nsys` export its report. Its output is not shown: it may quote the
    environment. Raises UnreadableInputError where it is missing or fails."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise UnreadableInputError(
            f"{path}: an nsys report can only be read where `nsys` is installed; run "
            f"`nsys export --type sqlite {path.name}` there and analyze the .sqlite file"
        )
    command = [
        nsys,
        "export",
        "--type",
        "sqlite",
        "--force-overwrite",
        "true",
        "--output",
        str(target),
    ]
    for extra in (
        ["--include-blobs", "true"],
        [],
    ):  # NCCL payloads, where this nsys knows the option
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # noqa: S603
                [*command, *extra, str(path)], capture_output=True, timeout=3600, check=True
            )
            if target.exists():
                return
    raise UnreadableInputError(
        f"{path}: the installed `nsys` could not export this report; it may be older than the one that "
        "recorded it, or the report may be damaged"
    )


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is this reader's to read: any SQLite database, or nsys's own report, which
    is binary of no known kind and named like one. `head`: the first bytes. Another tool's database
    is refused by `read`, which can say why.
    """
    if head.startswith((GZIP_MAGIC, SQLITE_MAGIC)):
        return is_sqlite(head, path)
    return bool(head.translate(None, _TEXT_BYTES)) and path.name.endswith((".nsys-rep", ".qdrep"))


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """One `Trace` for each process that used a GPU, ordered by rank. `progress` is called with the
    share done, 0 to 1. Raises UnreadableInputError, EmptyRecordingError."""
    with (
        sqlite_file(path, export_report) as (file, share_there),
        open_database(file, str(path)) as database,
    ):
        ours = any(name.startswith(_TABLE_PREFIXES) or name in _TABLES for name in database.columns)
        if not (ours and database.has("StringIds")):
            foreign = UnreadableInputError(f"{path}: {_what_it_is(database)}")
            raise _damaged(path, share_there) if share_there < 1 else foreign
        tables = NsysTables.read(database, progress or (lambda _: None))
        if not tables.processes():
            raise (
                _damaged(path, share_there)
                if database.damaged or share_there < 1
                else _nothing(path, tables.about, database)
            )
        return make_traces(path, database, tables, share_there=share_there)


def _what_it_is(database: Database) -> str:
    """What a database is that no reader takes, and what to do."""
    if database.has("device_ops") and database.has("recording"):
        return (
            "the database `traceanalyzer export` wrote: events for SQL, without what the analysis "
            "needs; give the recording that it was made from"
        )
    return (
        "an SQLite database, but not an Nsight Systems export, nor of rocprofv3 or RPD; "
        "make one with `nsys export --type sqlite REPORT`, or record with `collect rocprofv3`"
    )


def _damaged(path: Path, share_there: float) -> UnreadableInputError:
    cut = f"cut off at {share_there:.0%}" if share_there < 1 else "damaged"
    return UnreadableInputError(
        f"{path}: the database is {cut}, and no event of it can be read; copy or export it again"
    )


def _nothing(path: Path, about: About, database: Database) -> EmptyRecordingError:
    """Why there is no trace to be made of the export."""
    overheads = database.texts(
        distinct(database.integers("PROFILER_OVERHEAD", {"nameId": -1})["nameId"])
    )
    reported = "; ".join(note.rstrip(".") for note in diagnostics(database)[:2])
    if reported:
        why = reported
    elif any("CUDA profiling initialization" in name for name in overheads.values()):
        why = (
            "a process initialised CUDA, but none of its calls were recorded (a driver newer "
            "than this nsys?)"
        )
    elif about.did_collect("Cuda"):
        why = "CUDA was traced, but no call was recorded"
    else:
        why = "record with `nsys profile -t cuda,nvtx`"
    return EmptyRecordingError(
        f"{path}: the export holds no GPU work, CUDA calls or NVTX ranges; {why}"
    )
