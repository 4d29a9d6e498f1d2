"""Limits on what a reader makes of a file: a few bytes may name one large thing
thousands of times."""

from pathlib import Path

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.stream import text_bytes

LEAST_BYTES = 200 * MIB
TIMES = 20
"""What SECURITY.md promises: so many bytes, and so many times those of the input."""


def allowed_bytes(path: Path) -> int:
    """How many bytes may be made of a file."""
    return LEAST_BYTES + TIMES * text_bytes(path)


class Produced:
    """Counts the bytes that are made of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = allowed_bytes(path)

    def add(self, byte_count: int) -> None:
        """Count so many bytes. Raises UnreadableInputError where they are more than a recording of
        this size can say."""
        self._left -= byte_count
        if self._left < 0:
            raise UnreadableInputError(
                f"{self._path}: the file names the same texts so often that they take more than "
                f"{LEAST_BYTES // MIB} MiB and {TIMES} times its size; it is damaged, or made to do "
                "harm"
            )
