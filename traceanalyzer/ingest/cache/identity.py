"""Which recording a kept model is of, told without reading all of the recording.

A file is the same where device, inode, length and the times of its last write and last change are: the time of the
last change is the system's, which no program sets. Samples of its content are compared besides, for file systems that
keep coarse times. A file that was changed within the last seconds is not kept at all: it may change again within one
tick of the clock. Copies and renamed files are read again.
"""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import traceanalyzer.trace as trace_module
from traceanalyzer.ingest.cache.model_file import FORMAT
from traceanalyzer.ingest.foreign import GZIP_MAGIC
from traceanalyzer.limits import MIB, limits
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    import os

LEAST_BYTES = 16 * MIB
"""A shorter recording is read in about a tenth of a second."""
LEAST_PACKED_BYTES = MIB
"""The same of a gzipped one."""
SETTLED_S = 2.0
"""A file that was changed less long ago may be changed again without its times telling: FAT counts in two seconds."""
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""What becomes of these depends on the installed `nsys`, too."""
_JOURNALS = ("-wal", "-journal")
"""Beside an SQLite database, these hold a part of it."""


class Identity(NamedTuple):
    """A recording as it was when it was looked at."""

    name: str
    """Of its model: a digest of all that it depends on."""
    size: int


def identity_of(path: Path) -> Identity | None:
    """The identity of a recording; None where reading it again costs less, or may give something else. Raises
    OSError."""
    about = path.stat()
    if about.st_size < LEAST_PACKED_BYTES or path.suffix in _REPORT_SUFFIXES or not path.is_file():
        return None
    if time.time() - max(about.st_ctime, about.st_mtime) < SETTLED_S:
        return None
    if any(path.with_name(path.name + ending).exists() for ending in _JOURNALS):
        return None
    samples = _samples(path, about.st_size)
    if about.st_size < LEAST_BYTES and not samples[0].startswith(GZIP_MAGIC):
        return None
    digest = hashlib.blake2b(digest_size=20)
    facts = (FORMAT, program("trace.py", "ingest"), path.name, limits(), *_times(about))
    for part in (repr(facts).encode("utf-8", "surrogateescape"), *samples):
        digest.update(part)
    return Identity(digest.hexdigest(), about.st_size)


def _times(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _samples(path: Path, size: int) -> list[bytes]:
    """Pieces of the file, evenly over its length, the first and the last among them."""
    last = max(size - _SAMPLE_BYTES, 0)
    with path.open("rb", buffering=0) as file:
        return [_at(file.seek(last * i // (_SAMPLES - 1)), file.read(_SAMPLE_BYTES)) for i in range(_SAMPLES)]


def _at(_: int, piece: bytes | None) -> bytes:
    return piece or b""


@cache
def program(*parts: str) -> str:
    """Parts of the package (files, folders) as they are: its version, and where it is being worked on, their files."""
    package = Path(trace_module.__file__).parent
    files = sorted(file for part in parts for file in _files_of(package / part))
    about = [(str(file.relative_to(package)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return repr((__version__, about))


def _files_of(part: Path) -> list[Path]:
    return [part] if part.is_file() else [file for file in part.rglob("*") if file.suffix in (".py", ".toml")]
