"""What NVML says of the GPUs, and Linux of the CPUs: once for `environment.json`, and sampled in a
thread."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BITS = {  # NVML's `nvmlClocksEventReasons`
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
}
SLOWING = frozenset(BITS.values()) - {
    "idle",
    "display_clocks",
    "application_clocks",
}  # they slow it


PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
IDLE = 3  # places in the first line of `/proc/stat` (proc(5))
IO_WAIT = 4
USER = 11  # places in a process's `stat` after its name
SYSTEM = 12
MOST_PROCESSES = 4096


def reasons(mask: int) -> list[str]:
    """Names of the clock reasons in NVML's bit mask."""
    return [name for bit, name in BITS.items() if mask & bit]


def _slowing(library: Any, handle: Any) -> list[str] | None:
    """Why a GPU is slower than it could be; None where it does not say."""
    mask = _ask(library.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return None if mask is None else [reason for reason in reasons(mask) if reason in SLOWING]


@contextlib.contextmanager
def _library() -> Iterator[Any]:
    """pynvml, initialised; None where it or the driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _ask(function: Any, *arguments: Any) -> Any:
    """NVML's answer, None where this GPU or driver has none."""
    try:
        answer = function(*arguments)
    except Exception:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer


def describe_gpus() -> list[dict[str, Any]] | None:
    """Each GPU of the host: name, memory, driver, clocks, reasons for lower clocks, other
    processes. None: no NVML."""
    with _library() as library:
        if library is None:
            return None
        driver = _ask(library.nvmlSystemGetDriverVersion)
        return [_describe(library, i, driver) for i in range(_ask(library.nvmlDeviceGetCount) or 0)]


def _describe(library: Any, index: int, driver: str | None) -> dict[str, Any]:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = _ask(library.nvmlDeviceGetMemoryInfo, handle)
    processes = _ask(library.nvmlDeviceGetComputeRunningProcesses, handle)
    return {
        "index": index,
        "name": _ask(library.nvmlDeviceGetName, handle),
        "driver": driver,
        "memory_bytes": memory.total if memory else None,
        "sm_clock_mhz": _ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM),
        "sm_clock_max_mhz": _ask(library.nvmlDeviceGetMaxClockInfo, handle, library.NVML_CLOCK_SM),
        "memory_clock_mhz": _ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_MEM),
        "throttle_reasons": _slowing(library, handle),
        "processes": None if processes is None else len(processes),
    }


class Sampler:
    """Writes a JSON line a GPU, and one of the CPUs, every `interval` seconds, from a daemon
    thread, until closed."""

    def __init__(self, path: Path, interval: float) -> None:
        self._path = path
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sampling and wait for the last line."""
        self._stopped.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        with _library() as library:
            if library is None:
                return
            handles = [
                library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())
            ]
            before = read_cpus(os.getpid())
            with self._path.open("w") as lines:
                while not self._stopped.wait(self._interval):
                    for index, handle in enumerate(handles):
                        lines.write(json.dumps({"gpu": index, **_sample(library, handle)}) + "\n")
                    now = read_cpus(os.getpid())
                    load = cpu_load(before, now) if before and now else None
                    lines.write(json.dumps(load) + "\n" if load else "")
                    lines.flush()
                    before = now


def _sample(library: Any, handle: Any) -> dict[str, Any]:
    utilization = _ask(library.nvmlDeviceGetUtilizationRates, handle)
    memory = _ask(library.nvmlDeviceGetMemoryInfo, handle)
    power = _ask(library.nvmlDeviceGetPowerUsage, handle)
    return {
        "time_ns": time.time_ns(),
        "gpu_utilization": utilization.gpu if utilization else None,
        "memory_utilization": getattr(utilization, "memory", None),
        "memory_used_bytes": memory.used if memory else None,
        "power_w": None if power is None else power / 1000,
        "sm_clock_mhz": _ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM),
        "throttle_reasons": _slowing(library, handle),
    }


class NvmlReading(NamedTuple):
    """Counters at one moment."""

    time_s: float
    ticks: tuple[int, ...]  # of all CPUs, by what they did
    program_s: float  # CPU time of the command and all processes that it started and that still run


def read_cpus(root: int, proc: Path = PROC) -> NvmlReading | None:
    """The counters now, `root` being the process whose children are the program; None where there
    are none."""
    try:
        words = (proc / "stat").read_text().splitlines()[0].split()
        ticks = tuple(int(word) for word in words[1:9])
    except (OSError, ValueError, IndexError):
        return None
    if len(ticks) <= IO_WAIT:
        return None
    now = time.monotonic()
    used = 0
    found: list[int] = []
    waiting = [root]
    while waiting and len(found) < MOST_PROCESSES:
        for task in (proc / str(waiting.pop()) / "task").glob("*"):
            with contextlib.suppress(OSError, ValueError):
                children = [int(word) for word in (task / "children").read_text().split()]
                found += children
                waiting += children
    for pid in found:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            used += int(fields[USER]) + int(fields[SYSTEM])
    return NvmlReading(now, ticks, used / TICKS)


def cpu_load(before: NvmlReading, after: NvmlReading) -> dict[str, Any] | None:
    """Shares of the CPUs' time, and cores that the program used; None where no time passed."""
    ticks = [late - early for early, late in zip(before.ticks, after.ticks, strict=False)]
    passed = sum(ticks)
    seconds = after.time_s - before.time_s
    if passed <= 0 or seconds <= 0:
        return None
    return {
        "time_ns": time.time_ns(),
        "host_cpu_share": 1.0 - (ticks[IDLE] + ticks[IO_WAIT]) / passed,
        "host_iowait_share": ticks[IO_WAIT] / passed,
        # a process that ended takes its time with it
        "program_cores": max(after.program_s - before.program_s, 0.0) / seconds,
    }
