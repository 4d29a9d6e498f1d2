"""The bytes of a file, decompressed where they are gzip, a piece at a time and in bounded memory."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from isal import igzip, igzip_lib

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.files import note_read
from traceanalyzer.ingest.foreign import GZIP_MAGIC as GZIP_MAGIC
from traceanalyzer.ingest.foreign import is_address
from traceanalyzer.limits import MIB, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAMAGE = cast("tuple[type[Exception], ...]", (OSError, EOFError, zlib.error, igzip_lib.IsalError))
"""What decompressing damaged bytes may raise."""
PIECE_BYTES = 256 * 1024
"""A piece and what is decoded from it stay in the L2 cache; 1 MB pieces are read 10 % slower, 4 MB ones 25 %."""

LEAST_PLACED_BYTES = 4 * MIB
"""The decompressor reads ahead by some 100 KiB: in a smaller file that is more than a few per cent."""


@dataclass
class ByteStream:
    """An open file. `read` gives the next piece, b"" at the end; `damage` says why the end came early."""

    _plain: BinaryIO
    _source: BinaryIO
    _size: int
    _progress: Callable[[float], None] | None = None
    damage: str = ""
    log: bool = False
    """Whether it is read as a log, which has a lower limit."""
    _left: int | None = None
    """Bytes that may still come out of a compressed file; None for one that is not."""

    def read(self) -> bytes:
        """The next bytes of the (decompressed) file, b"" at the end or where no more can be read."""
        if self.damage:
            return b""
        try:
            piece = self._plain.read(PIECE_BYTES)
        except EOFError:
            self.damage = "the compressed file is cut off"
        except DAMAGE:
            self.damage = f"the compressed file is damaged{self._place()}, what follows the damage is missing"
        else:
            self._count(len(piece))
            if self._progress is not None and self._size:
                self._progress(self._source.tell() / self._size)
            return piece
        return b""

    def _place(self) -> str:
        """How far into a large file reading has come; of a small one the reader has all of it before it looks."""
        if self._size < LEAST_PLACED_BYTES:
            return ""
        return f" at about {min(self._source.tell() / self._size, 1.0):.0%} of its length"

    def _count(self, read: int) -> None:
        if self._left is not None:
            self._left -= read
            if self._left < 0:
                raise too_large(Path(self._source.name), log=self.log)


@contextmanager
def open_stream(
    path: Path, progress: Callable[[float], None] | None = None, *, probing: bool = False, log: bool = False
) -> Iterator[ByteStream]:
    """Open a file, gzip or not (told by its first bytes). Raises UnreadableInputError if that is not possible.

    `probing`: only to see what it is, which does not make it a file that was read.
    """
    try:
        source = path.open("rb") if probing else note_read(path).open("rb")
    except OSError as error:
        raise cannot_open(path, error) from error
    with source:
        is_gzip = source.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        source.seek(0)
        plain = cast("BinaryIO", igzip.IGzipFile(fileobj=source)) if is_gzip else source  # type: ignore[no-untyped-call]
        size = path.stat().st_size
        left = decompressed_limit(size, log=log) if is_gzip else None
        yield ByteStream(plain, source, size, progress, log=log, _left=left)


def decompressed_limit(size: int, *, log: bool = False) -> int:
    """Bytes that a compressed file of `size` bytes may become."""
    current = limits()
    return max(current.log, current.ratio * size // 4) if log else max(current.size, current.ratio * size)


def too_large(path: Path, *, log: bool = False) -> UnreadableInputError:
    """The error for a compressed file that goes on and on."""
    most = decompressed_limit(path.stat().st_size, log=log)
    return UnreadableInputError(
        f"{path}: holds more than {most // MIB} MiB when decompressed, which is far more than recordings do; if it is "
        f"one, raise --limit {'log' if log else 'size'}=BYTES"
    )


def head_of(path: Path) -> bytes:
    """The first bytes of the decompressed file, at most a piece; raises UnreadableInputError."""
    with open_stream(path, probing=True) as stream:
        return stream.read()


def cannot_open(path: Path, error: OSError) -> UnreadableInputError:
    """The error for a file that the system does not let us read."""
    if is_address(path):
        address = str(path).replace(":/", "://", 1)
        return UnreadableInputError(f"{address}: an address, not a file; download it first (curl -LO {address})")
    what = (error.strerror or str(error)).lower()
    return UnreadableInputError(f"{path}: cannot be opened ({what}); check the path and its permissions")
