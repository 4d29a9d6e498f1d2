"""The bytes of a file, decompressed where they are gzip, a piece at a time and in bounded
memory."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from isal import igzip, igzip_lib

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.files import may_read, note_read
from traceanalyzer.base.limits import MIB, limits
from traceanalyzer.ingest.foreign import GZIP_MAGIC as GZIP_MAGIC
from traceanalyzer.ingest.foreign import is_address

DAMAGE = cast("tuple[type[Exception], ...]", (OSError, EOFError, zlib.error, igzip_lib.IsalError))
"""What decompressing damaged bytes may raise."""
PIECE_BYTES = MIB
"""A piece and what is decoded from it stay in the L2 cache. Measured: 256 KB take 11 % more time,
for each piece costs some; 3 MB take 8 % more."""
PACKED_BYTES = (
    256 * 1024
)  # of a compressed file so much is read at once: where it is damaged, no more is lost
_LENGTH_BYTES = 4
_WRAPS_AT = 1 << 32
_LEAST_RATIO = 6
_MOST_RATIO = 1032
"""A gzip file ends with the length of its text, but only the last 32 bits of it. Traces pack to a
tenth or less, and nothing to less than a 1032nd."""
LONGEST_LINE = 4 * MIB
"""No row of a table or event of a trace is longer; the longest names of kernels have some 20,000
characters."""
LEAST_PLACED_BYTES = 4 * MIB
"""The decompressor reads ahead by some 100 KiB: in a smaller file that is more than a few per
cent."""


@dataclass
class ByteStream:
    """An open file. `read` gives the next piece, b"" at the end; `damage` says why the end came
    early."""

    _plain: BinaryIO
    _source: BinaryIO
    _size: int
    progress: Callable[[float], None] | None = None
    damage: str = ""
    log: bool = False  # whether it is read as a log, which has a lower limit
    # bytes that may still come out of a compressed file; None for one that is not
    _left: int | None = None
    place: int = 0  # bytes that have been read or passed over
    _last: bytes = b""  # the last piece of a compressed file: it cannot be read again

    def read(self) -> bytes:
        """The next bytes of the (decompressed) file, b"" at the end or where no more can be
        read."""
        if self._left is None:
            return self._read(PIECE_BYTES)
        size = min(PACKED_BYTES, PIECE_BYTES)
        pieces = iter(partial(self._read, size), b"")
        self._last = b"".join(islice(pieces, -(-PIECE_BYTES // size)))
        return self._last

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")

    def _read(self, size: int) -> bytes:
        if self.damage:
            return b""
        try:
            piece = self._plain.read(size)
        except EOFError:
            self.damage = "the compressed file is cut off"
        except DAMAGE:
            # of a small file the reader has all before it looks
            large = self._size >= LEAST_PLACED_BYTES
            where = f" at about {min(self.share(), 1.0):.0%} of its length" if large else ""
            self.damage = (
                f"the compressed file is damaged{where}, what follows the damage is missing"
            )
        else:
            self.place += len(piece)
            if self._left is not None:
                self._left -= len(piece)
                if self._left < 0:
                    raise too_large(Path(self._source.name), log=self.log)
            if self.progress is not None and self._size:
                self.progress(self.share())
            return piece
        return b""

    def share(self) -> float:
        """How much of the file has been read."""
        return self._source.tell() / self._size

    def go_to(self, place: int, keep: int) -> bytes:
        """Go on at this place or at one further on, where a piece begins: the `keep` bytes before
        it, or what there is of them; of those before this place only what the last piece holds."""
        if self._left is None:
            self._source.seek(max(place - keep, 0))
            self.place = place
            return self._source.read(min(keep, place))
        kept = self._last[max(len(self._last) - keep, 0) :]
        while self.place < place and (piece := self.read()):
            kept = piece if len(piece) >= keep else kept + piece
            kept = kept[max(len(kept) - keep, 0) :]
        return kept


@contextmanager
def open_stream(
    path: Path,
    progress: Callable[[float], None] | None = None,
    *,
    probing: bool = False,
    log: bool = False,
) -> Iterator[ByteStream]:
    """Open a file, gzip or not (told by its first bytes). Raises UnreadableInputError if that is
    not possible. `probing`: only to see what it is, which does not make it a file that was read."""
    try:
        source = (may_read if probing else note_read)(path).open("rb")
    except OSError as error:
        raise cannot_open(path, error) from error
    with source:
        is_gzip = source.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        source.seek(0)
        plain = cast("BinaryIO", igzip.IGzipFile(fileobj=source)) if is_gzip else source  # type: ignore[no-untyped-call]
        size = path.stat().st_size
        left = decompressed_limit(size, log=log) if is_gzip else None
        yield ByteStream(plain, source, size, progress, log=log, _left=left)


def stream_lines(stream: ByteStream) -> Iterator[bytes]:
    """The lines of an open file, as bytes; one that goes on and on comes in parts, so that it is
    never held whole."""
    rest = b""
    while piece := stream.read():
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def text_bytes(path: Path) -> int:
    """The bytes of a file once decompressed, as far as it tells without being read; 0 where it
    cannot be opened."""
    try:
        with may_read(path).open("rb") as source:
            size = path.stat().st_size
            if source.read(len(GZIP_MAGIC)) != GZIP_MAGIC or size < _LENGTH_BYTES:
                return size
            source.seek(size - _LENGTH_BYTES)
            text = int.from_bytes(source.read(_LENGTH_BYTES), "little")
    except (OSError, UnreadableInputError):
        return 0
    if size * _MOST_RATIO < _WRAPS_AT:
        return text
    missing = max(_LEAST_RATIO * size - text, 0)
    return text + -(-missing // _WRAPS_AT) * _WRAPS_AT


def decompressed_limit(size: int, *, log: bool = False) -> int:
    """Bytes that a compressed file of `size` bytes may become."""
    current = limits()
    return (
        max(current.log, current.ratio * size // 4)
        if log
        else max(current.size, current.ratio * size)
    )


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
        return UnreadableInputError(
            f"{address}: an address, not a file; download it first (curl -LO {address})"
        )
    what = (error.strerror or str(error)).lower()
    return UnreadableInputError(
        f"{path}: cannot be opened ({what}); check the path and its permissions"
    )
