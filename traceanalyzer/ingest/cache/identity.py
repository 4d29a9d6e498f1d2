"""Which recording a kept model is of, told without reading all of the recording. A file is the same
where device, inode, length and the times of its last write and last change are: the time of the
last change is the system's, which no program sets. Samples of its content are compared besides, for
file systems that keep coarse times. A file that was changed within the last seconds is not kept at
all: it may change again within one tick of the clock. Copies and renamed files are read again."""

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from traceanalyzer import version
from traceanalyzer.base.limits import MIB, limits

FORMAT = 2  # of the files that models are kept in
LEAST_BYTES = 16 * MIB  # a shorter recording is read in about a tenth of a second
LEAST_PACKED_BYTES = MIB  # the same of a gzipped one
SETTLED_S = 2.0
"""A file that was changed less long ago may be changed again without its times telling: FAT counts
in two seconds."""
_SAMPLES = 64
_SAMPLE_BYTES = 4096


class Identity(NamedTuple):
    """A recording as it was when it was looked at."""

    name: str  # of its model: a digest of all that it depends on
    size: int


def identity_of(path: Path) -> Identity | None:
    """The identity of a recording; None where reading it again costs less, or may give something
    else. Raises OSError."""
    size = path.stat().st_size
    samples = as_it_is(path) if size >= LEAST_PACKED_BYTES else None
    if samples is None or (size < LEAST_BYTES and not samples[1].startswith(b"\x1f\x8b")):  # gzip
        return None
    facts = (FORMAT, program_state("trace", "ingest"), path.name, limits())
    return Identity(content_digest(facts, samples), size)


def as_it_is(path: Path) -> list[bytes] | None:
    """The times of a file and samples of its content: others where it is another file, or was
    changed. None where it may change without that being seen, or where more than the file says what
    is read from it. Raises OSError."""
    about = path.stat()
    if (
        path.suffix in (".nsys-rep", ".qdrep") or not path.is_file()
    ):  # the first depend on the installed `nsys`
        return None
    if time.time() - max(about.st_ctime, about.st_mtime) < SETTLED_S:
        return None
    if any(
        path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal")
    ):  # of an SQLite database
        return None
    times = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
    with path.open("rb", buffering=0) as file:
        return [repr(times).encode(), *_samples(file.fileno(), about.st_size)]


def _samples(file: int, size: int) -> list[bytes]:
    """Pieces of a file, evenly over its length, the first and the last among them; all of a short one,
    of which samples would be more."""
    if size <= _SAMPLES * _SAMPLE_BYTES:
        return [os.pread(file, size, 0)]
    last = size - _SAMPLE_BYTES
    places = (last * i // (_SAMPLES - 1) for i in range(_SAMPLES))
    return [os.pread(file, _SAMPLE_BYTES, place) for place in places]


def content_digest(facts: tuple[object, ...], pieces: list[bytes]) -> str:
    """A cache name that depends on the `repr` of these facts and on pieces of these files."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (repr(facts).encode("utf-8", "surrogateescape"), *pieces):
        digest.update(part)
    return digest.hexdigest()


@cache
def program_state(*parts: str) -> str:
    """Parts of the package (files, folders) as they are: its version, and where it is being worked
    on, their files."""
    package = os.path.dirname(version.__file__)
    files = sorted(file for part in parts for file in _files_of(os.path.join(package, part)))
    stated = [(file[len(package) :], os.stat(file)) for file in files]
    about = [(name, facts.st_size, facts.st_mtime_ns) for name, facts in stated]
    return repr((version.__version__, about))


def _files_of(part: str) -> Iterator[str]:
    # not pathlib, which takes five times as long for all of the package
    if os.path.isfile(part):
        yield part
    for folder, inside, files in os.walk(part):
        inside[:] = [name for name in inside if name != "__pycache__"]
        yield from (os.path.join(folder, file) for file in files)
