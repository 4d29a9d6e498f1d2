"""Folders that are named as recordings: what lies in them, and what lies deeper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from traceanalyzer.ingest.capture import is_neighbour
from traceanalyzer.ingest.detect import is_companion, is_recording

DEEPEST = 6
"""TensorBoard keeps its traces three folders down (`RUN/plugins/profile/TIME`)."""
MOST_FOLDERS = 200
"""Folders that are looked into; more is a home, not a log."""
MOST_PROBED = 20
"""Files that are opened in each of them to find one recording."""
NAMED = 6


def recordings_in(folder: Path, pattern: str | None = None) -> list[Path]:
    """The recordings that lie in a folder itself, else its snapshots and logs of torch.compile, by name. Raises
    OSError."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    found = [file for file in files if not is_neighbour(file) and is_recording(file, pattern)]
    return found or list(filter(is_companion, files))


def nothing_in(folder: Path) -> str:
    """Why a folder cannot be read, naming the folders in it that can."""
    inside = sorted(_with_recordings(folder))
    if not inside:
        return f"{folder}: no recording in this folder or below it; name the folder that holds traces or exports"
    shown = ", ".join(str(path) for path in inside[:NAMED])
    more = f" and {len(inside) - NAMED} more" if len(inside) > NAMED else ""
    return f"{folder}: no recording in this folder itself; name one of those below it: {shown}{more}"


def _with_recordings(folder: Path) -> Iterator[Path]:
    """The folders below that hold recordings; links are not followed."""
    walk = ((Path(where), names, files) for where, names, files in os.walk(folder))
    for where, names, files in islice(walk, MOST_FOLDERS):
        if len(where.relative_to(folder).parts) >= DEEPEST:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))
        candidates = (where / name for name in sorted(files)[:MOST_PROBED])
        if where != folder and any(file.is_file() and is_recording(file) for file in candidates):
            yield where
