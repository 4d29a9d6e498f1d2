"""What each process of a recorded command came to: small files by which `traceanalyzer collect` knows what happened."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.collect.host.ranks import current_rank
from traceanalyzer.collect.host.rescue import write_json

FOLDER = ".processes"


@dataclass(frozen=True)
class Progress:
    """How far one process got."""

    pid: int
    rank: int
    phase: str
    """`attached`, `timing`, `recording`, `recorded`, or `failed: why`."""
    steps: int
    notes: list[str] = field(default_factory=list)
    """What the user should know of the recording, a clause each."""


def report(folder: Path, phase: str, steps: int, notes: Sequence[str] = ()) -> None:
    """Say how far this process is."""
    (folder / FOLDER).mkdir(exist_ok=True)
    value = {"pid": os.getpid(), "rank": current_rank(), "phase": phase, "steps": steps, "notes": list(notes)}
    write_json(folder / FOLDER / f"{os.getpid()}.json", value)


def read(folder: Path) -> list[Progress]:
    """What the processes said so far, by rank."""
    files = (folder / FOLDER).glob("[0-9]*.json")
    return sorted((Progress(**json.loads(file.read_text())) for file in files), key=lambda p: (p.rank, p.pid))


def forget(folder: Path) -> None:
    """Remove the files."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
