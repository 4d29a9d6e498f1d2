"""The SQLite file of a recording: the file itself, one that was gzipped, or what a recorder's own tool makes of it."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from isal import igzip

from traceanalyzer.base.files import note_read
from traceanalyzer.base.sqlite_guard import distrust
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC
from traceanalyzer.ingest.stream import DAMAGE, decompressed_limit, too_large

_CHUNK_BYTES = 1 << 16
"""What is lost at most before the damage of a gzipped file; larger is not faster."""

_HEADER_BYTES = 100
_LARGEST_PAGE = 65_536
"""Page size that the header's two bytes write as 1."""

_NEARLY_ALL = 0.999
"""Of a compressed file that ends early and whose database does not say how long it is: something is missing."""


def is_sqlite(head: bytes, path: Path) -> bool:
    """Whether the file is an SQLite database, gzipped or not. `head`: its first bytes."""
    if head.startswith(GZIP_MAGIC):
        try:
            with _decompressed(path) as stream:
                return bool(stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC)
        except DAMAGE:
            return False
    return head.startswith(SQLITE_MAGIC)


@contextmanager
def sqlite_file(path: Path, export: Callable[[Path, Path], None]) -> Iterator[tuple[Path, float]]:
    """The SQLite file of a recording and the share of it that is there (1: all); temporary files are removed.

    What is neither SQLite nor gzip is made into one by `export` (from, to). Raises UnreadableInputError, and what
    `export` does.
    """
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
    connection = sqlite3.connect(target)
    try:
        distrust(connection, target.stat().st_size)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return True


def _share_there(path: Path) -> float:
    """The share of the bytes that its header tells of (https://sqlite.org/fileformat2.html, section 1.3)."""
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return 0.0
    page_bytes = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    count_is_valid = header[24:28] == header[92:96]
    whole = pages * (_LARGEST_PAGE if page_bytes == 1 else page_bytes)
    return min(path.stat().st_size / whole, 1.0) if count_is_valid and whole else 1.0


def _decompress(path: Path, target: Path) -> bool:
    """Whether the gzipped file could be decompressed to its end; what came before the damage is kept."""
    most = decompressed_limit(path.stat().st_size)
    with target.open("wb") as output, _decompressed(path) as stream:
        while chunk := _next_chunk(stream):
            output.write(chunk)
            if output.tell() > most:
                raise too_large(path)
        return chunk is not None


def _next_chunk(stream: igzip.IGzipFile) -> bytes | None:
    """The next bytes, b"" at the end, None at damage."""
    try:
        chunk: bytes = stream.read(_CHUNK_BYTES)
    except DAMAGE:
        return None
    return chunk


def _decompressed(path: Path) -> igzip.IGzipFile:
    return igzip.IGzipFile(path)  # type: ignore[no-untyped-call]
