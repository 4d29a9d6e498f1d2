"""Where the SQLite file of an nsys recording comes from: the file itself, a gzipped one, or `nsys export`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from isal import igzip

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.files import note_read
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC
from traceanalyzer.ingest.stream import DAMAGE, decompressed_limit, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""nsys's own report format has no documented magic; the name is only asked where the content is binary."""

_TEXT_BYTES = bytes(range(0x20, 0x7F)) + b"\t\n\r\f"

_CHUNK_BYTES = 1 << 16
"""What is lost at most before the damage of a gzipped file; larger is not faster."""

_HEADER_BYTES = 100
_LARGEST_PAGE = 65_536
"""Page size that the header's two bytes write as 1."""

_EXPORT_TIMEOUT_S = 3600

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


def is_report(head: bytes, path: Path) -> bool:
    """Whether the file may be nsys's own report: binary of no known kind, and named like one."""
    known = head.startswith((GZIP_MAGIC, SQLITE_MAGIC))
    return not known and bool(head.translate(None, _TEXT_BYTES)) and path.name.endswith(REPORT_SUFFIXES)


@contextmanager
def sqlite_file(path: Path) -> Iterator[tuple[Path, float]]:
    """The SQLite file of a recording and the share of it that is there (1: all); temporary files are removed.

    Raises UnreadableInputError where there is nothing to read, or `nsys` is needed and missing or fails.
    """
    with note_read(path).open("rb") as stream:
        head = stream.read(len(SQLITE_MAGIC))
    if head.startswith(SQLITE_MAGIC):
        yield path, _share_there(path)
        return
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        made = Path(folder) / "export.sqlite"
        if head.startswith(GZIP_MAGIC):
            complete = _decompress(path, made)
            yield made, min(_share_there(made), 1.0 if complete else _NEARLY_ALL)
        else:
            _export(path, made)
            yield made, 1.0


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


def _export(path: Path, target: Path) -> None:
    """Have the installed `nsys` export its report. Its output is not shown: it may quote the environment."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise UnreadableInputError(
            f"{path}: an nsys report can only be read where `nsys` is installed; run "
            f"`nsys export --type sqlite {path.name}` there and analyze the .sqlite file"
        )
    command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target)]
    for extra in (["--include-blobs", "true"], []):  # NCCL payloads, where this nsys knows the option
        if _run([*command, *extra, str(path)]) and target.exists():
            return
    raise UnreadableInputError(
        f"{path}: the installed `nsys` could not export this report; it may be older than the one that "
        "recorded it, or the report may be damaged"
    )


def _run(command: list[str]) -> bool:
    """Whether the command succeeded."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_EXPORT_TIMEOUT_S, check=False)  # noqa: S603 no shell, and a program found on the user's own PATH
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
