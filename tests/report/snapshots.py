"""Compares text with a stored file; with UPDATE_SNAPSHOTS=1 in the environment writes it anew, to
be read in a diff."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def matches_snapshot(text: str, name: str) -> bool:
    """Whether the text is what the file holds; an assertion on it shows the difference."""
    file = FOLDER / name
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    return True
