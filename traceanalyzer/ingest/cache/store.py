"""What is kept of recordings: models, and answers that were worked out from them. Each is a file in
a folder of the user's own, named by a key that says all that it depends on. Nothing in it is code,
and a checksum covers every byte. Together they have a bounded size; what was used longest ago goes
first."""

import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from isal import isal_zlib

from traceanalyzer.base import regex
from traceanalyzer.base.limits import MIB

VARIABLE = "TRACEANALYZER_CACHE"
"""Names a folder to have the cache's own in; empty: nothing is kept."""
MOST_BYTES = 2 << 30  # of all models and answers together. A recording of 1 GB takes about 120 MB.
MODEL = ".model"
ANSWER = ".answer"
"""Kinds of what is kept: the traces of a recording; a report, rows of tables or a page that came of
some."""
MAGIC = b"TAkept\x01\x00"
_KEPT = regex(r"[0-9a-f]{40}\.(model|answer)")
_UNFINISHED = regex(r"[0-9a-f]{40}\w{8}\.part")
"""Names that are given here; a file of another name is not touched."""
_ABANDONED_S = 3600
"""A model takes a second to write; one that is unfinished for an hour was left behind."""
MOST_TEXT_BYTES = 32 * MIB
"""Of one answer: the report of 10,000 steps takes 6 MB, as JSON 9, and is read in a twentieth of a
second."""
LEAST_FREE_BYTES = 256 * MIB  # of the disk: answers never fill it
_CHECKSUM_BYTES = 8


class DamagedError(ValueError):
    """A file that is not what it says, or not what was asked for."""


class CacheEntry(NamedTuple):
    """A kept model, or an answer from one."""

    path: Path
    bytes: int
    used: float  # when it was last read or written, seconds since 1970


def place() -> Path | None:
    """Where models are kept; None: nowhere, also where files have no owner to look at."""
    if not hasattr(os, "getuid"):
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    base = os.environ.get(VARIABLE, base)
    with suppress(RuntimeError):  # no home
        return Path(base).expanduser() / "traceanalyzer" if base.strip() else None
    return None


def why_not_trusted(folder: Path) -> str:
    """Why nothing is read from or written to a folder that exists; empty: it is the user's
    alone."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        return "it is no folder"
    if about.st_uid != os.getuid():
        return "it belongs to another user"
    if stat.S_IMODE(about.st_mode) & 0o077:
        return "others may look into it (chmod 700 makes it yours alone)"
    return ""


def kept_entries(folder: Path) -> list[CacheEntry]:
    """The models and answers in a folder, the one used longest ago first. Raises OSError."""
    found = []
    for path in folder.iterdir():
        with suppress(OSError):  # another command may remove it
            about = path.lstat()
            if _KEPT.fullmatch(path.name) and stat.S_ISREG(about.st_mode):
                found.append(CacheEntry(path, about.st_size, about.st_mtime))
    return sorted(found, key=lambda entry: entry.used)


class KeptEntry:
    """A kept file from front to back. Nothing is allocated that it does not hold, and `check`
    covers every byte. Raises DamagedError where it is not what it says or not what was asked for;
    OSError."""

    def __init__(self, file: BinaryIO, size: int, key: str) -> None:
        self._file = file
        self.left = size
        self._checksum = 0
        head = _head(key)
        if self.take(len(head)) != head:
            raise DamagedError("of another format, or kept for something else")
        self.left -= _CHECKSUM_BYTES

    def take(self, count: int) -> bytearray:
        """The next bytes."""
        if not 0 <= count <= self.left:
            raise DamagedError("shorter than it says")
        data = bytearray(count)
        if self._file.readinto(data) != count:  # type: ignore[attr-defined]
            raise DamagedError("cut off")
        self.left -= count
        self._checksum = isal_zlib.crc32(data, self._checksum)
        return data

    def check(self) -> None:
        """To be called when all has been taken."""
        if self.left or self._file.read(_CHECKSUM_BYTES) != self._checksum.to_bytes(
            _CHECKSUM_BYTES, "little"
        ):
            raise DamagedError("its checksum is another")


def write_checked(file: BinaryIO, key: str, parts: Iterable[bytes]) -> None:
    """Write what `Stored` reads. Raises OSError."""
    checksum = 0
    for part in chain([_head(key)], parts):
        checksum = isal_zlib.crc32(part, checksum)
        file.write(part)
    file.write(checksum.to_bytes(_CHECKSUM_BYTES, "little"))


@contextmanager
def opened_entry(key: str, kind: str) -> Iterator[KeptEntry]:
    """What is kept under a key (a digest, in hex), which counts as used now. Raises OSError, also
    where there is nothing, or it is not the user's alone; DamagedError."""
    folder = trusted_place()
    handle = os.open(folder / (key + kind), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(handle)
        if (
            not stat.S_ISREG(about.st_mode)
            or about.st_uid != os.getuid()
            or stat.S_IMODE(about.st_mode) & 0o077
        ):
            raise PermissionError(f"{folder / key}: not the user's alone")
        with suppress(OSError):
            os.utime(handle)
        yield KeptEntry(file, about.st_size, key)


def put(key: str, kind: str, parts: Iterable[bytes], least_free: int) -> None:
    """Keep these bytes under a key, where the disk has so many more free and nothing is wrong with
    the folder: whatever is costs the work that it would have saved. They take their place once they
    are whole."""
    with suppress(OSError):
        folder = trusted_place(make=True)
        unfinished = folder / f"{key}{os.urandom(4).hex()}.part"
        try:
            with open(unfinished, "xb", opener=partial(os.open, mode=0o600)) as file:
                if _free_bytes(folder) < least_free:
                    raise OSError("the disk is nearly full")
                write_checked(file, key, parts)
            unfinished.replace(folder / (key + kind))
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        make_room(folder)


def _free_bytes(folder: Path) -> int:
    """What the user may still write to the disk of a folder."""
    about = os.statvfs(folder)
    return about.f_bavail * about.f_frsize


def get_text(key: str) -> bytes | None:
    """The answer under a key, as it was kept; None where there is none, or it is damaged."""
    with suppress(OSError, DamagedError), opened_entry(key, ANSWER) as stored:
        if stored.left <= MOST_TEXT_BYTES:
            text = bytes(stored.take(stored.left))
            stored.check()
            return text
    return None


def put_text(key: str, text: bytes) -> None:
    """Keep an answer."""
    if len(text) <= MOST_TEXT_BYTES:
        put(key, ANSWER, [text], LEAST_FREE_BYTES)


def has(key: str, kind: str) -> bool:
    """Whether something is kept under a key, sound or not."""
    folder = place()
    return folder is not None and (folder / (key + kind)).is_file()


def trusted_place(*, make: bool = False) -> Path:
    """Where models are kept. Raises OSError where that is nowhere, or not the user's alone."""
    folder = place()
    if folder is None:
        raise FileNotFoundError("there is no cache")
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if why_not_trusted(folder):
        raise PermissionError(f"{folder}: not the user's alone")
    return folder


def _head(key: str) -> bytes:
    return MAGIC + bytes.fromhex(key)


def make_room(
    folder: Path, most: int = MOST_BYTES, least_age_s: float = _ABANDONED_S
) -> list[CacheEntry]:
    """Remove the models used longest ago until the others take at most so many bytes, and what was
    left unfinished for so long; returns what there was."""
    kept = kept_entries(folder)
    total = sum(entry.bytes for entry in kept)
    for entry in kept:
        if total <= most:
            break
        entry.path.unlink(missing_ok=True)
        total -= entry.bytes
    for path in folder.iterdir():
        with suppress(OSError):
            if (
                _UNFINISHED.fullmatch(path.name)
                and time.time() - path.lstat().st_mtime >= least_age_s
            ):
                path.unlink()
    return kept


def clear(folder: Path) -> list[CacheEntry]:
    """Remove every model, and nothing else; returns what there was. Raises OSError."""
    return make_room(folder, -1, 0)
