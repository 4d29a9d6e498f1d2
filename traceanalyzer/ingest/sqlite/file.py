"""The SQLite file of a recording: the file itself, one that was gzipped, or what a recorder's own tool makes of it."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from isal import igzip

from traceanalyzer.base.files import note_read
from traceanalyzer.base.sqlite_guard import distrust
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC
from traceanalyzer.ingest.sqlite.pages import page_bytes_of
from traceanalyzer.ingest.stream import DAMAGE, decompressed_limit, too_large

_CHUNK_BYTES = 1 << 16  # what is lost at most before the damage of a gzipped file; larger is not faster
_NEARLY_ALL = 0.999
"""Of a compressed file that ends early and whose database does not say how long it is: something is missing."""


def is_sqlite(head: bytes, path: Path) -> bool:
    """Whether the file is an SQLite database, gzipped or not. `head`: its first bytes."""
    with suppress(*DAMAGE):
        if head.startswith(GZIP_MAGIC):
            with _decompressed(path) as stream:
                head = stream.read(len(SQLITE_MAGIC))
    return head.startswith(SQLITE_MAGIC)


@contextmanager
def sqlite_file(path: Path, export: Callable[[Path, Path], None]) -> Iterator[tuple[Path, float]]:
    """The SQLite file of a recording and the share of it that is there (1: all); temporary files are removed. What is
    neither SQLite nor gzip is made into one by `export` (from, to). Raises UnreadableInputError, and what that does."""
    with note_read(path).open("rb") as stream:
        head = stream.read(len(SQLITE_MAGIC))
    log = path.with_name(f"{path.name}-wal")
    written_ahead = log.is_file() and log.stat().st_size > 0
    if head.startswith(SQLITE_MAGIC) and not written_ahead:
        yield path, _share_there(path)
        return
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        made = Path(folder) / "export.sqlite"
        if head.startswith(SQLITE_MAGIC):
            whole = made if _merge(path, log, made) else path
            yield whole, _share_there(whole)
        elif head.startswith(GZIP_MAGIC):
            complete = _decompress(path, made)
            yield made, min(_share_there(made), 1.0 if complete else _NEARLY_ALL)
        else:
            export(path, made)
            yield made, 1.0


def _merge(path: Path, log: Path, target: Path) -> bool:
    """Make a copy of a database with what its write-ahead log holds: a program that is still open, or was killed,
    leaves its last changes there. Whether that could be done; the recording itself stays as it is."""
    shutil.copyfile(path, target)
    shutil.copyfile(note_read(log), f"{target}-wal")
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(target)) as connection:
        distrust(connection, target.stat().st_size)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return True
    return False


def _share_there(path: Path) -> float:
    """The share of the bytes that its header tells of (https://sqlite.org/fileformat2.html, section 1.3)."""
    with path.open("rb") as stream:
        header = stream.read(100)
    if len(header) < 100:
        return 0.0
    count_is_valid = header[24:28] == header[92:96]
    whole = int.from_bytes(header[28:32], "big") * page_bytes_of(header)
    return min(path.stat().st_size / whole, 1.0) if count_is_valid and whole else 1.0


def _decompress(path: Path, target: Path) -> bool:
    """Whether the gzipped file could be decompressed to its end; what came before the damage is kept."""
    most = decompressed_limit(path.stat().st_size)
    with target.open("wb") as output, _decompressed(path) as stream:
        while True:
            try:
                chunk: bytes = stream.read(_CHUNK_BYTES)
            except DAMAGE:
                return False
            if not chunk:
                return True
            output.write(chunk)
            if output.tell() > most:
                raise too_large(path)


def _decompressed(path: Path) -> igzip.IGzipFile:
    return igzip.IGzipFile(path)  # type: ignore[no-untyped-call]
