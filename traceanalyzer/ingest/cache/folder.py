"""The folder that models are kept in: the user's own, of bounded size, the one used longest ago goes first."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "TRACEANALYZER_CACHE"
"""Names another folder; empty: nothing is kept."""
MOST_BYTES = 2 << 30
"""Of all models and answers together. A recording of 1 GB takes about 120 MB."""
SUFFIX = ".model"
ANSWER = ".answer"
"""What was worked out from models: a report, the rows of a table."""
_PART = ".part"
_ABANDONED_S = 3600
"""A model takes a second to write; one that is unfinished for an hour was left behind."""


class Entry(NamedTuple):
    """A kept model, or an answer from one."""

    path: Path
    bytes: int
    used: float
    """When it was last read or written, seconds since 1970."""


def place() -> Path | None:
    """Where models are kept; None: nowhere, also where files have no owner to look at."""
    if not hasattr(os, "getuid"):
        return None
    said = os.environ.get(VARIABLE)
    if said is not None:
        return Path(said).expanduser() if said.strip() else None
    if sys.platform == "darwin":
        return Path("~/Library/Caches/traceanalyzer").expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "traceanalyzer"


def why_not_trusted(folder: Path) -> str:
    """Why nothing is read from or written to a folder that exists; empty: it is the user's alone."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        return "it is no folder"
    if about.st_uid != os.getuid():
        return "it belongs to another user"
    if stat.S_IMODE(about.st_mode) & 0o077:
        return "others may look into it (chmod 700 makes it yours alone)"
    return ""


def entries(folder: Path) -> list[Entry]:
    """The models and answers in a folder, the one used longest ago first. Raises OSError."""
    found = []
    for path in folder.iterdir():
        with suppress(OSError):  # another command may remove it
            about = path.lstat()
            if path.suffix in (SUFFIX, ANSWER) and stat.S_ISREG(about.st_mode):
                found.append(Entry(path, about.st_size, about.st_mtime))
    return sorted(found, key=lambda entry: entry.used)


@contextmanager
def opened(folder: Path, name: str, suffix: str = SUFFIX) -> Iterator[tuple[BinaryIO, int]]:
    """A model (or an answer) and its length, which counts as used now. Raises OSError, also where it is not the user's
    alone."""
    if why_not_trusted(folder):
        raise PermissionError(f"{folder}: not the user's alone")
    handle = os.open(folder / (name + suffix), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(f"{folder / name}: not the user's alone")
        with suppress(OSError):
            os.utime(handle)
        yield file, about.st_size


@contextmanager
def made(folder: Path, name: str, suffix: str = SUFFIX) -> Iterator[BinaryIO]:
    """A model (or an answer) to write; it takes its place where the block ends well. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if why_not_trusted(folder):
        raise PermissionError(f"{folder}: not the user's alone")
    handle, unfinished = tempfile.mkstemp(prefix=name, suffix=_PART, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(unfinished).replace(folder / (name + suffix))
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def make_room(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove the models used longest ago until the others take at most so many bytes, and what was left unfinished."""
    kept = entries(folder)
    total = sum(entry.bytes for entry in kept)
    for entry in kept:
        if total <= most:
            break
        entry.path.unlink(missing_ok=True)
        total -= entry.bytes
    for path in folder.glob(f"*{_PART}"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _ABANDONED_S:
                path.unlink(missing_ok=True)


def clear(folder: Path) -> list[Entry]:
    """Remove every model, and nothing else; returns what there was. Raises OSError."""
    gone = entries(folder)
    for entry in gone:
        entry.path.unlink(missing_ok=True)
    for path in folder.glob(f"*{_PART}"):
        path.unlink(missing_ok=True)
    return gone
