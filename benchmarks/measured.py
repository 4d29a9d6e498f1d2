"""A command's cost as the operating system counts it: wall-clock, CPU and the largest resident
memory."""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MB = 1_000_000
PACKAGE = Path(__file__).parent.parent / "traceanalyzer"
_LOOK_S = 0.1


@dataclass(frozen=True)
class Cost:
    """What one run of a command cost."""

    wall_s: float
    cpu_s: float
    """Of all its processes."""
    peak_mb: float
    """Of the largest of its processes."""
    together_mb: float
    """Of all its processes at one moment, pages that they share counted once; looked at ten times a
    second."""
    status: int
    output: str
    error: str

    @property
    def outcome(self) -> str:
        """`ok`, or the last line it complained with."""
        if self.status == 0:
            return "ok"
        return f"exit {self.status}: {(self.error.strip().splitlines() or ['no message'])[-1]}"


def measure(command: list[str], timeout_s: float = 3600, folder: Path | None = None) -> Cost:
    """Run the command to its end, or until it takes too long, in a folder. `wait4` gives the usage
    of this child and of those that it waited for.

    A child's peak memory counts from the fork on, so the measuring process must stay small: nothing
    that imports numpy may be imported here.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as error:
        begun = time.perf_counter()
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=error,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=compiling_environment(),
        )
        late = threading.Timer(timeout_s, child.kill)
        late.start()
        looked = _Looked(child.pid)
        looked.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        late.cancel()
        looked.over.set()
        looked.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        error.seek(0)
        return Cost(
            wall,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024 / MB,
            max(looked.most / MB, usage.ru_maxrss * 1024 / MB),
            child.returncode,
            output.read(),
            error.read(),
        )


def compiling_environment() -> dict[str, str]:
    """This environment for a program that is measured: its modules are compiled one time, as they are
    where it is installed. Compiled at each start they double a short run."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def compile_package() -> None:
    """Have the package's modules compiled before anything is measured in this process."""
    compileall.compile_dir(PACKAGE, quiet=2)


def traceanalyzer_command() -> list[str]:
    """The installed command, as a user runs it."""
    beside = Path(sys.executable).with_name("traceanalyzer")
    return [str(beside) if beside.exists() else shutil.which("traceanalyzer") or "traceanalyzer"]


def available_mb() -> float:
    """Memory that a program may take without anything being swapped; Linux."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024 / MB
    return float("inf")


def best(command: list[str], repeats: int) -> Cost:
    """The fastest of several runs: noise of a shared machine only ever adds."""
    return min((measure(command) for _ in range(repeats)), key=lambda cost: cost.wall_s)


class _Looked(threading.Thread):
    """Looks at the memory of a process and of all below it until it is over."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.most = 0
        self._pid = pid

    def run(self) -> None:
        """Look until there is no more to be seen."""
        while not self.over.wait(_LOOK_S):
            self.most = max(self.most, sum(map(_proportional_bytes, _tree(self._pid))))


def _tree(pid: int) -> list[int]:
    """A process and all below it; not every kernel lists a process's children."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _proportional_bytes(pid: int) -> int:
    """A process's memory, of pages that several share its part."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
