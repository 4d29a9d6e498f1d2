"""How much memory reading takes, and how much there is: of the machine, and of the containers that this runs in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.ingest.foreign import SQLITE_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KIB = 1024
_STARTED_BYTES = 60 * 10**6
"""An interpreter with numpy and the readers."""


class Share(NamedTuple):
    """What is taken besides, of the file's bytes, decompressed."""

    text: float
    export: float
    """Of Nsight Systems."""


READ = Share(0.6, 2.0)
"""While it is read. Measured: 0.35 of a trace of 155 MB, 1.4 to 1.9 of exports."""
ANALYZED = Share(1.0, 8.0)
"""From start to exit. Measured: 0.7 to 0.8 of traces, 3.6 to 7.6 of exports."""
_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""By the controller that a line of /proc/self/cgroup names (version 2 names none): where groups of processes have their
limit, and what they use of it (https://docs.kernel.org/admin-guide/cgroup-v2.html)."""
_CACHED = ("inactive_file", "total_inactive_file")
"""Pages of files among what a group uses, which the system gives up as soon as memory is asked for."""


def needed_bytes(path: Path, text: int, share: Share = READ) -> int:
    """The memory that a process needs for a file of so many bytes of text."""
    try:
        with path.open("rb") as file:
            is_export = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return 0
    return _STARTED_BYTES + int((share.export if is_export else share.text) * text)


def most_at_once(needed: Iterable[int], free: int | None) -> int:
    """How many of several pieces of work, each of which needs so many bytes, fit into the memory at the same time,
    whichever they are; at least one. `free`: None where it is not known."""
    fitting = 0
    for size in sorted(needed, reverse=True):
        free = None if free is None else free - size
        if free is not None and free < 0:
            break
        fitting += 1
    return max(fitting, 1)


def free_bytes(root: Path = Path("/")) -> int | None:
    """The memory that may be taken before the machine, or a limit of a container, has none left; None where neither
    says."""
    return min((left for left in (_of_machine(root), *_of_groups(root)) if left is not None), default=None)


def _of_machine(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * _KIB
    with suppress(ValueError, OSError, AttributeError):  # macOS says how much it has in all
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_groups(root: Path) -> Iterator[int]:
    """What each group that this process is in has left, where it has a limit."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for folder, limit, used in (_GROUPS[name] for name in controllers.split(",") if name in _GROUPS):
            own = Path(path.lstrip("/"))
            for group in (own, *own.parents):
                yield from _left(root / folder / group, limit, used)


def _left(group: Path, limit: str, used: str) -> Iterator[int]:
    with suppress(OSError, ValueError):  # `max`: it has no limit
        most, taken = (int((group / name).read_text()) for name in (limit, used))
        cached = [
            int(value) for line in _lines(group / "memory.stat") for name, value in [line.split()] if name in _CACHED
        ]
        yield most - taken + max(cached, default=0)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, ValueError):
        return []
