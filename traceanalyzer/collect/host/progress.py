"""How far each process of a recorded command got: a small file a process, until the command has
ended."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from traceanalyzer.base import dataclass
from traceanalyzer.collect.host.files import write_json
from traceanalyzer.collect.host.ranks import current_rank

FOLDER = ".processes"


@dataclass(frozen=True)
class Progress:
    """How far one process got."""

    pid: int
    rank: int
    phase: str  # `attached`, `timing`, `recording`, `recorded`, or `failed: why`
    steps: int
    # what the user should know of the recording, a clause each
    notes: list[str] = field(default_factory=list)
    # when the process began, in the kernel's ticks: its number may be another's by now
    began: int = 0


def report(folder: Path, phase: str, steps: int, notes: Sequence[str] = ()) -> None:
    """Say how far this process is. Raises OSError."""
    (folder / FOLDER).mkdir(exist_ok=True)
    value = {
        "pid": os.getpid(),
        "rank": current_rank(),
        "phase": phase,
        "steps": steps,
        "notes": list(notes),
        "began": began(os.getpid()),
    }
    write_json(folder / FOLDER / f"{os.getpid()}.json", value)


def read_progress(folder: Path) -> list[Progress]:
    """What the processes said so far, by rank; a file that is not theirs is left out."""
    return sorted(_read(folder), key=lambda process: (process.rank, process.pid))


def _read(folder: Path) -> Iterator[Progress]:
    for file in (folder / FOLDER).glob("[0-9]*.json"):
        with suppress(OSError, ValueError, TypeError):
            yield Progress(**json.loads(file.read_text()))


def forget(folder: Path) -> None:
    """Remove the files."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def began(pid: int) -> int:
    """When a process began, in the kernel's ticks since boot; 0 where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the name, in parentheses, may hold anything; field 22 of proc(5) is the 20th after it
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
