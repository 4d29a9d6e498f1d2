"""Which of AMD's formats a file is, and its reader."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.base import EmptyRecordingError, UnreadableInputError, regex
from traceanalyzer.ingest.foreign import SQLITE_MAGIC
from traceanalyzer.ingest.rocm import rocprofv1, rpd, tables
from traceanalyzer.ingest.rocm.rocpd import read_rocpd, suffixes_of
from traceanalyzer.ingest.rocm.rocprofv3 import is_json, read_json
from traceanalyzer.ingest.sqlite.database import Database, open_database, sqlite_file
from traceanalyzer.ingest.stream import head_of
from traceanalyzer.trace import Trace

_TABLES = regex(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"`\[]?(?:rocpd_|compute_(?:workload|kernel))")
"""In the first pages of a database stands what its tables are."""
_Progress = Callable[[float], None] | None
_RECORD = "record with `rocprofv3 --sys-trace -- python train.py`"


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is one of AMD's. `head`: its first bytes, decompressed."""
    if head.startswith(SQLITE_MAGIC):
        return _TABLES.search(head) is not None
    return _text_reader(head) is not None


def _text_reader(head: bytes) -> Callable[[Path, _Progress], list[Trace]] | None:
    """The reader of a text of AMD's that begins like this."""
    if is_json(head):
        return read_json
    if tables.is_table(head):
        return tables.read_tables
    if rocprofv1.is_timeline(head):
        return rocprofv1.read_timeline
    return rocprofv1.read_kernel_table if rocprofv1.is_kernel_table(head) else None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` for each process that used a GPU. `progress` is called with the share done, 0 to 1.
    Raises UnreadableInputError, EmptyRecordingError."""
    head = head_of(path)
    if head.startswith(SQLITE_MAGIC):
        with (
            sqlite_file(path, _refuse) as (file, share_there),
            open_database(file, str(path)) as database,
        ):
            read_database = _reader_of(path, database)
            traces = read_database(
                path, database, progress or (lambda _: None), share_there=share_there
            )
    else:
        traces = (_text_reader(head) or tables.read_tables)(path, progress)
    if not traces:
        raise EmptyRecordingError(
            f"{path}: the recording holds no GPU work, HIP calls or ROCTx ranges; {_RECORD}"
        )
    return traces


def _refuse(path: Path, _: Path) -> None:
    raise UnreadableInputError(f"{path}: neither a database nor a compressed one")


def _reader_of(path: Path, database: Database) -> Callable[..., list[Trace]]:
    """The reader of a database. Raises UnreadableInputError for one that has none."""
    if suffixes_of(database):
        return read_rocpd
    if rpd.is_rpd(database):
        return rpd.read_rpd
    if any(name.startswith("compute_") for name in database.columns):
        raise UnreadableInputError(
            f"{path}: a database of rocprof-compute: counters by kernel, and no times of single events; "
            f"{_RECORD}"
        )
    raise UnreadableInputError(
        f"{path}: a database of AMD's profilers without a table of kernels (damaged, or of an unknown "
        "version); record or convert it again"
    )
