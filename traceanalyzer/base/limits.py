"""What a recording may hold at most. Real ones stay far below; a file beyond is damaged, or meant
to do harm.

Each limit is stated in SECURITY.md and raised by `--limit NAME=N` or `raised(name=n)`."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from traceanalyzer.base.frozen import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class InputLimits:
    """The limits in force."""

    size: int = 512 * MIB
    """Bytes that a compressed file may decompress to; `ratio` times its own size where that is
    more."""
    ratio: int = 100  # decompressed bytes for each compressed one. Recordings reach 10 to 55
    log: int = 16 * MIB
    """The same of a log, which is read line by line; a quarter of `ratio` times its size where that
    is more."""
    side: int = 64 * MIB
    """Bytes of a file that is read as a whole: an environment, samples, a table of counters, a
    policy."""
    report: int = 256 * MIB  # bytes of a saved report
    text: int = 262_144  # characters of one name. The longest kernel names have some 20,000
    digits: int = 100  # digits of one number in text
    ranks: int = 1_000_000  # ranks of a run; more make the world size unknown


_current: ContextVar[InputLimits] = ContextVar("limits", default=InputLimits())  # noqa: B039 a frozen value


def limits() -> InputLimits:
    """The limits in force."""
    return _current.get()


@contextmanager
def raised(**changes: int) -> Iterator[None]:
    """Other limits within the block. Raises TypeError for a limit that there is not."""
    token = _current.set(dataclasses.replace(limits(), **changes))
    try:
        yield
    finally:
        _current.reset(token)


def raise_for_all(**changes: int) -> None:
    """Other limits from here on, for a program that lives for one command."""
    _current.set(dataclasses.replace(InputLimits(), **changes))
