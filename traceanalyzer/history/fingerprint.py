"""What recordings hold, as one short text: equal where the same files were analysed, whatever they are called."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def fingerprint(paths: Iterable[str]) -> str | None:
    """SHA-256 over the files' contents, in hexadecimal; their order and names do not count.

    None where there are no files, or one cannot be read any more.
    """
    try:
        contents = sorted(_digest(path) for path in set(paths))
    except OSError:
        return None
    return hashlib.sha256(b"".join(contents)).hexdigest() if contents else None


def _digest(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
