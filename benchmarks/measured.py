"""A command's cost as the operating system counts it: wall-clock, CPU and the largest resident memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Cost:
    """What one run of a command cost."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    status: int
    output: str
    error: str

    @property
    def outcome(self) -> str:
        """`ok`, or the last line it complained with."""
        if self.status == 0:
            return "ok"
        return f"exit {self.status}: {(self.error.strip().splitlines() or ['no message'])[-1]}"


def measure(command: list[str]) -> Cost:
    """Run the command to its end. `wait4` gives the usage of this child alone.

    A child's peak memory counts from the fork on, so the measuring process must stay small: nothing that
    imports numpy may be imported here.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as error:
        begun = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=error, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        error.seek(0)
        return Cost(
            wall,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024 / MB,
            child.returncode,
            output.read(),
            error.read(),
        )


def best(command: list[str], repeats: int) -> Cost:
    """The fastest of several runs: noise of a shared machine only ever adds."""
    return min((measure(command) for _ in range(repeats)), key=lambda cost: cost.wall_s)
