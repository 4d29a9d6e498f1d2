"""Runs a command under an installed Nsight Compute, on a few kernels of one step, and leaves what
it measured as CSV.

Nsight Compute runs a kernel again and again, once for each group of counters, with its memory
restored in between: a second or so a kernel. Only kernels that were named are measured, and of each
launch shape only the first few. A collective that is run again waits for ever for the other ranks,
so these are never among them."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from traceanalyzer.base import dataclass

REPORT = "ncu.csv"

METRICS = (  # what `analyze --ncu` reads, no more: each further one is another run of every kernel
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)

STALLS = "WarpStateStats"
"""Section of ncu with what warps wait for, every reason that the GPU knows; which these are differs
from one generation to the next."""
STALL_METRIC = re.compile(
    r"smsp__average_warp_latency_per_inst_issued\.ratio"
    r"|smsp__average_warps_issue_stalled_\w+_per_issue_active\.ratio"
)

MISSING = (
    "ncu is not installed (or not on PATH): it comes with the CUDA toolkit (package cuda-nsight-compute), or from "
    "https://developer.nvidia.com/nsight-compute"
)
NO_PERMISSION = (
    "the driver lets only root read the GPU's counters (ERR_NVGPUCTRPERM): run as root, in a container with "
    "--cap-add=SYS_ADMIN, or let all users by the module option NVreg_RestrictProfilingToAdminUsers=0 of the nvidia "
    "kernel module (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
KEPT = (
    "ID",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    *METRICS,
)
"""Columns of the report that stay, with those of `STALL_METRIC`: the others describe the machine and
say who ran what."""

LAUNCHES = 10
"""Kernels of one function and launch shape differ in what they calculate (`elementwise_kernel`), so
that one is not enough; a step repeats each many times, which tells nothing new."""
UNITS = 2  # rows before the first kernel's: names and units
_ERROR = re.compile(r"^==ERROR==\s*(.+)", re.MULTILINE)


@dataclass(frozen=True)
class NcuOptions:
    """Which kernels are measured."""

    functions: tuple[
        str, ...
    ] = ()  # names of their functions, without namespace, arguments and template arguments
    pattern: str | None = None  # regular expression for these names, instead
    launches: int = LAUNCHES  # at most so many launches of each launch shape
    whole_run: bool = False  # from the start, not in the chosen step
    stalls: bool = False  # whether it is measured what warps wait for

    @property
    def regex(self) -> str:
        """What Nsight Compute looks for in the names."""
        return (
            self.pattern
            if self.pattern is not None
            else f"^({'|'.join(map(re.escape, self.functions))})$"
        )


def profile_command(ncu: str, work: Path, options: NcuOptions, command: Sequence[str]) -> list[str]:
    """The command line that runs the command under ncu."""
    flags = [
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(work / REPORT)),
        # kernels as the program runs them: at the clock they have there
        *("--target-processes", "all", "--clock-control", "none"),
        *("--kernel-name", f"regex:{options.regex}"),
        *("--filter-mode", "per-launch-config", "--launch-count", str(options.launches)),
        *("--metrics", ",".join(METRICS)),
    ]
    if options.stalls:
        flags += ["--section", STALLS]
    if not options.whole_run:
        flags += ["--profile-from-start", "off"]
    return [ncu, *flags, *command]


def finish(_program: str, work: Path, _: NcuOptions, folder: Path) -> str | None:
    """Leave of the report the table, and of that the columns of `KEPT`. What went wrong, or
    None."""
    report = work / REPORT
    if not report.exists():
        return "ncu left no report: it could not start"
    text = report.read_text("utf-8", "replace")
    rows = list(_kept(csv.reader(line for line in text.splitlines() if line.startswith('"'))))
    if len(rows) <= UNITS:
        if "ERR_NVGPUCTRPERM" in text:
            return NO_PERMISSION
        error = _ERROR.search(text)
        if error:
            return f"ncu: {error[1].strip()}"
        return (
            "ncu saw none of these kernels: the chosen step was not reached, or it runs "
            "others than the trace"
        )
    with (folder / REPORT).open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return None


def _kept(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    kept: list[int] | None = None
    for row in rows:
        kept = [i for i, name in enumerate(row) if _stays(name)] if kept is None else kept
        yield [row[i] for i in kept if i < len(row)]


def _stays(name: str) -> bool:
    return name in KEPT or STALL_METRIC.fullmatch(name) is not None
