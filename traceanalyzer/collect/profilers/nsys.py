"""Runs a command under an installed Nsight Systems, and leaves an export that can be shown to others.

Only what the analysis uses is traced. CPU sampling and OS calls slow the host and are off unless asked for. What nsys
writes holds the whole environment: it goes to a folder of its own, of which nothing but the scrubbed export stays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.collect.profilers.nsys_scrub import scrub
from traceanalyzer.collect.run import CannotRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRACED = "cuda,nvtx,cublas,cudnn"
REPORT, EXPORT = "nsys.nsys-rep", "nsys.sqlite"

MISSING = (
    "nsys is not installed (or not on PATH): it comes with the CUDA toolkit (package cuda-nsight-systems or"
    " nsight-systems-cli), or from https://developer.nvidia.com/nsight-systems; "
    "`traceanalyzer collect torch` needs no nsys"
)


@dataclass(frozen=True)
class NsysOptions:
    """What nsys records beside the device and its API calls."""

    whole_run: bool = False
    """Record from start to end, also a program without PyTorch."""
    sample_cpu: bool = False
    memory: bool = False
    keep_report: bool = False
    """Keep the `.nsys-rep`, which holds the environment, arguments and output of the command."""
    gpu_metrics: bool = False
    """Sample the GPUs' counters; the driver may ask for root."""
    os_calls: bool = False
    """Record calls of the operating system: what the host reads and waits for."""


def find_nsys() -> str:
    """The program's path. Raises CannotRecordError, which says where to get it."""
    found = shutil.which("nsys")
    if found is None:
        raise CannotRecordError(MISSING)
    return found


def work_folder(folder: Path) -> Path:
    """Where nsys writes, this process's own: also what a version of it leaves half done (`.qdstrm`)."""
    return folder / f".nsys.{os.getpid()}"


def profile_command(nsys: str, folder: Path, options: NsysOptions, command: Sequence[str]) -> list[str]:
    """The command line that runs the command under nsys."""
    flags = {
        "trace": f"{TRACED},osrt" if options.os_calls else TRACED,
        "cuda-graph-trace": "node",
        "sample": "process-tree" if options.sample_cpu else "none",
        "cpuctxsw": "process-tree" if options.sample_cpu else "none",
        "output": str(work_folder(folder) / REPORT.removesuffix(".nsys-rep")),
        "force-overwrite": "true",
    }
    if not options.whole_run:
        # `stop` lets the command run on; the default would end it with the capture
        flags |= {"capture-range": "cudaProfilerApi", "capture-range-end": "stop"}
    if options.gpu_metrics:
        flags["gpu-metrics-devices"] = "all"
    if options.memory:
        flags["cuda-memory-usage"] = "true"
    return [nsys, "profile", *(f"--{name}={value}" for name, value in flags.items()), *command]


def export_command(nsys: str, folder: Path) -> list[str]:
    """The command line that turns the report into SQLite."""
    # without the blobs NCCL's NVTX ranges lose their message sizes
    flags = ("--type=sqlite", "--include-blobs=true", "--force-overwrite=true")
    return [nsys, "export", *flags, f"--output={work_folder(folder) / EXPORT}", str(work_folder(folder) / REPORT)]


def export(nsys: str, folder: Path, options: NsysOptions) -> str | None:
    """Export and scrub the report, if the run left one. What went wrong, or None."""
    work = work_folder(folder)
    report, exported = work / REPORT, work / EXPORT
    if not report.exists():
        return "nsys left no report: the chosen steps were not reached, or it could not start"
    done = subprocess.run(export_command(nsys, folder), capture_output=True, text=True, check=False)  # noqa: S603
    if options.keep_report:
        report = report.replace(folder / REPORT)
    if done.returncode or not exported.exists():
        kept = f"the report is {report}" if options.keep_report else "--keep-report keeps the report"
        return f"nsys export failed with status {done.returncode}; {kept}"
    scrub(exported)
    exported.replace(folder / EXPORT)
    return None


def forget(folder: Path) -> None:
    """Remove everything that nsys wrote, whatever became of the run. The export has been moved out by then."""
    shutil.rmtree(work_folder(folder), ignore_errors=True)
