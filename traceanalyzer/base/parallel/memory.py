"""How much memory there is: of the machine, and of the containers that this runs in."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""By the controller that a line of /proc/self/cgroup names (version 2 names none): where groups of processes have their
limit, and what they use of it (https://docs.kernel.org/admin-guide/cgroup-v2.html)."""
_CACHED = ("inactive_file", "total_inactive_file")
"""Pages of files among what a group uses, which the system gives up as soon as memory is asked for."""


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
    named = (line.partition(":") for line in _lines(root / "proc/meminfo"))
    known = [int(value.split()[0]) * 1024 for name, _, value in named if name == "MemAvailable"][:1]
    if not known:
        with suppress(ValueError, OSError, AttributeError):  # macOS says how much it has in all
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((*known, *_of_groups(root)), default=None)


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
        stat = dict(line.split() for line in _lines(group / "memory.stat"))
        yield most - taken + max((int(stat[name]) for name in _CACHED if name in stat), default=0)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, ValueError):
        return []
