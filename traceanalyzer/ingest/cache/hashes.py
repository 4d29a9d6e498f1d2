"""SHA-256 of long inputs, kept for the next question: of 155 MB it takes a tenth of a second, a third
of what the page of a kept report takes. A hash belongs to a file as long as a model of it would."""

import hashlib
from pathlib import Path

from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.cache.identity import LEAST_BYTES, as_it_is, content_digest
from traceanalyzer.ingest.cache.store import get_text, place, put_text


def sha256_of(path: Path) -> str:
    """The hash of a file, in hex: the kept one, else worked out. Raises OSError."""
    key = _key(path)
    kept = None if key is None else get_text(key)
    if kept is not None:
        return kept.decode("ascii", "replace")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if key is not None and _key(path) == key:  # not changed meanwhile
        put_text(key, found.encode())
    return found


def _key(path: Path) -> str | None:
    """Where the hash of a file is kept; None where it is not: of a short file it is sooner made."""
    if not reading().cache or place() is None or path.stat().st_size < LEAST_BYTES:
        return None
    seen = as_it_is(path)
    return None if seen is None else content_digest(("sha256",), seen)
