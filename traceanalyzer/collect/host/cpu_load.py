"""How busy the host's CPUs are, and with the command that is recorded: from Linux's `/proc`; elsewhere nothing."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
IDLE, IO_WAIT = 3, 4  # places in the first line of `/proc/stat` (proc(5))
USER, SYSTEM = 11, 12  # places in a process's `stat` after its name
MOST_PROCESSES = 4096


@dataclass(frozen=True)
class Reading:
    """Counters at one moment."""

    time_s: float
    ticks: tuple[int, ...]  # of all CPUs, by what they did
    program_s: float  # CPU time of the command and all processes that it started and that still run


def read(root: int, proc: Path = PROC) -> Reading | None:
    """The counters now, `root` being the process whose children are the program; None where there are none."""
    try:
        line = (proc / "stat").read_text().splitlines()[0].split()
        ticks = tuple(int(word) for word in line[1:9])
    except (OSError, ValueError, IndexError):
        return None
    if len(ticks) <= IO_WAIT:
        return None
    now, used = time.monotonic(), 0
    for pid in _descendants(root, proc):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            used += int(fields[USER]) + int(fields[SYSTEM])
    return Reading(now, ticks, used / TICKS)


def between(before: Reading, after: Reading) -> dict[str, Any] | None:
    """Shares of the CPUs' time, and cores that the program used; None where no time passed."""
    ticks = [late - early for early, late in zip(before.ticks, after.ticks, strict=False)]
    passed, seconds = sum(ticks), after.time_s - before.time_s
    if passed <= 0 or seconds <= 0:
        return None
    return {
        "time_ns": time.time_ns(),
        "host_cpu_share": 1.0 - (ticks[IDLE] + ticks[IO_WAIT]) / passed,
        "host_iowait_share": ticks[IO_WAIT] / passed,
        # a process that ended takes its time with it
        "program_cores": max(after.program_s - before.program_s, 0.0) / seconds,
    }


def _descendants(root: int, proc: Path) -> list[int]:
    found: list[int] = []
    waiting = [root]
    while waiting and len(found) < MOST_PROCESSES:
        for task in (proc / str(waiting.pop()) / "task").glob("*"):
            with contextlib.suppress(OSError, ValueError):
                children = [int(word) for word in (task / "children").read_text().split()]
                found += children
                waiting += children
    return found
