"""Files that are read and written: nothing outside the folders that may be read is opened, nothing
that was read is overwritten, and nothing is left half written."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import BinaryIO

from traceanalyzer.base.errors import OutsideError, TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.limits import MIB, limits

_read: dict[Path, None] = {}  # every file that was opened to be read since the command began
_roots: ContextVar[tuple[Path, ...]] = ContextVar("roots", default=())


@contextmanager
def only_below(roots: Sequence[Path]) -> Iterator[None]:
    """Within the block no input is opened but below these folders (anywhere, where there are none),
    by whatever link or pattern it was found."""
    token = _roots.set(tuple(root.resolve() for root in roots))
    try:
        yield
    finally:
        _roots.reset(token)


def may_read(path: Path) -> Path:
    """The path. Raises OutsideError where it lies outside the folders that may be read,
    UnreadableInputError where it is a pipe with a name: who opens one waits for a writer."""
    if Path(os.path.realpath(path)).is_fifo():
        raise UnreadableInputError(
            f"{path}: a pipe; give a file, or a recording by - (standard input)"
        )
    roots = _roots.get()
    if roots and not any(path.resolve().is_relative_to(root) for root in roots):
        raise OutsideError(f"{path}: outside {', '.join(map(str, roots))}, which this server reads")
    return path


def note_read(path: Path) -> Path:
    """The path, remembered as one that is read. Whoever opens an input says so here. Raises what
    `may_read` does."""
    _read[may_read(path).absolute()] = None
    return path


def forget_reads() -> None:
    """A command begins: what earlier ones read in the same program may be written."""
    _read.clear()


@contextmanager
def reads_apart() -> Iterator[None]:
    """Within the block `files_read` are those of the block alone, for a command that reads several
    runs and keeps an answer about each."""
    before = dict(_read)
    _read.clear()
    try:
        yield
    finally:
        own = dict(_read)
        _read.clear()
        _read.update(before | own)


def files_read() -> set[Path]:
    """Every file that was read since the command began."""
    return set(_read)


def read_whole(path: Path, most: int | None = None) -> bytes:
    """The bytes of a small file. Raises OSError; UnreadableInputError above `most` bytes
    (`limits().side`)."""
    most = limits().side if most is None else most
    with note_read(path).open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnreadableInputError(
            f"{path}: larger than {most // MIB} MiB; leave it out, or raise --limit side=BYTES"
        )
    return data


def check_not_read(path: Path) -> None:
    """Raises TraceAnalyzerError where writing the file would destroy what was read."""
    for read in _read if path.exists() else ():
        with suppress(OSError):
            if path.samefile(read):  # by whatever name
                raise TraceAnalyzerError(
                    f"cannot write {path}: it was read for this result; name another file"
                )


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write beside `path`; it takes its place where the block ends well, else `path`
    stays as it was. One that replaces another is on the disk before it does, so that a machine that
    fails leaves one of them. What is no regular file (a pipe, a terminal) is written as it is.
    Raises TraceAnalyzerError, OSError."""
    check_not_read(path)
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    part = target.with_name(f".{target.name[:64]}.{os.urandom(6).hex()}.part")
    try:
        try:
            with open(part, "xb", opener=partial(os.open, mode=0o600)) as file:
                yield file
                if target.exists():
                    file.flush()
                    os.fsync(file.fileno())
            part.chmod(_mode(target))
            part.replace(target)
        except OSError as error:
            if error.errno is not None:
                error.filename = str(path)  # a full disk names none
            raise
        finally:
            part.unlink(missing_ok=True)
    finally:
        part.unlink(missing_ok=True)  # an interrupt may have come while the first was removing it


def _mode(target: Path) -> int:
    """Permissions as the file has them, or as the system gives a new one."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
