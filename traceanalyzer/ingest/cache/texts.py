"""Texts kept beside the models: what was worked out of recordings, and what was printed of it.

Nothing in them is code, and a checksum covers every byte.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from traceanalyzer.ingest.cache.folder import ANSWER, MOST_BYTES, made, make_room, opened
from traceanalyzer.limits import MIB

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"TAanswer\x01"
MOST_TEXT_BYTES = 16 * MIB
"""A longer one (every gap of a long recording) takes about as long to read as to work out."""
LEAST_FREE_BYTES = 256 * MIB
"""Of the disk: the cache never fills it."""
_DIGEST_BYTES = 20


def kept_text(folder: Path, name: str) -> bytes | None:
    """The text of that name (a digest, in hex), as it was kept; None where there is none, or it is damaged."""
    try:
        with opened(folder, name, ANSWER) as (file, size):
            head = MAGIC + bytes.fromhex(name)
            if not len(head) + _DIGEST_BYTES <= size <= MOST_TEXT_BYTES:
                return None
            data = file.read(size)
    except OSError:
        return None
    text = data[len(head) + _DIGEST_BYTES :]
    return text if data == head + _checksum(text) + text else None


def has_text(folder: Path, name: str) -> bool:
    """Whether there is a text of that name, sound or not."""
    return (folder / (name + ANSWER)).is_file()


def keep_text(folder: Path, name: str, text: bytes) -> None:
    """Keep a text by that name, where there is room for it."""
    if len(text) > MOST_TEXT_BYTES // 2:
        return
    with suppress(OSError):
        with made(folder, name, ANSWER) as file:
            if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
                raise OSError("the disk is nearly full")
            file.write(MAGIC + bytes.fromhex(name) + _checksum(text) + text)
        make_room(folder, MOST_BYTES)


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
