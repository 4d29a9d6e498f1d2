"""A find made small: what can be left out without it breaking elsewhere is left out (delta
debugging)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.fuzz.guard import Find, failure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.kinds import Kind

SECONDS = 20.0


def minimised(found: Find, kind: Kind, folder: Path) -> bytes:
    """The smallest data that this finds in time to break at the same place; as they are where they
    end a process, which smaller ones would end too."""
    data = found.data
    if found.why.startswith("Killed"):
        return data
    ends = time.monotonic() + SECONDS
    folder /= "smaller"  # the process that found it goes on in the other
    length = len(data) // 2
    while length and time.monotonic() < ends:
        at = 0
        while at < len(data) and time.monotonic() < ends:
            shorter = data[:at] + data[at + length :]
            if replace(found, why=failure(kind, shorter, folder, found.command)).name == found.name:
                data = shorter
            else:
                at += length
        length //= 2
    return data
