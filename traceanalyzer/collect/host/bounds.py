"""How long a recording in progress may take and how much memory, whatever the script does between
two of its steps: an evaluation there would be recorded whole, 200 MB a second."""

import ctypes
import time
from contextlib import suppress
from pathlib import Path

from traceanalyzer.base import dataclass

STRETCH = 5
"""Recorded steps may take so many times as long as the longest step seen before: the profiler
stretches a host by up to three."""
LEAST_SECONDS = 2.0  # so much is allowed at least: a first profile of a process takes a second
MEMORY_SHARE = 0.25  # of the memory that is free when a recording begins, what all of it may take
STOP_FACTOR = 6
"""To stop and write takes so many times the memory that the events took: measured, 0.5 to 3.3 GB
for a million events (PyTorch 2.13)."""
FREE_UNKNOWN_BYTES = 8 << 30
KIB = 1024
PAGE_BYTES = 4096
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Bounds:
    """Where a recording ends, whatever the script does."""

    deadline_s: float  # by `time.monotonic`
    most_bytes: int  # resident memory of this process

    def exceeded(self) -> str | None:
        """Which bound is passed, in words; None while none is."""
        if time.monotonic() > self.deadline_s:
            return "it took many times as long as the steps before"
        if resident_bytes() > self.most_bytes:
            return "to write it would take a quarter of the free memory"
        return None


def bounds_of(steps: int, longest_step_s: float | None, limit_s: float | None) -> Bounds:
    """Bounds of a recording of `steps` steps that begins now. A limit of the user's, in seconds,
    holds too; without a step seen before only that and memory bound it."""
    allowed_s = float("inf")
    if longest_step_s is not None:
        allowed_s = max(STRETCH * steps * longest_step_s, LEAST_SECONDS)
    if limit_s is not None:
        allowed_s = min(allowed_s, limit_s)
    most_bytes = resident_bytes() + round(MEMORY_SHARE / STOP_FACTOR * free_disk_bytes())
    return Bounds(time.monotonic() + allowed_s, most_bytes)


def return_memory() -> None:
    """Give what a written recording took back to the system: the allocator would keep gigabytes."""
    with suppress(AttributeError, OSError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Resident memory of this process; 0 where that is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def free_disk_bytes() -> int:
    """Memory that this process may still take: what the machine has, and its control group."""
    free = FREE_UNKNOWN_BYTES
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * KIB
                break
    # version 2 at the root of the container's own view; `max` is no number and no limit
    with suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())
        used = int((CGROUP / "memory.current").read_text())
        free = min(free, max(limit - used, 0))
    return free
