"""What `ncu --csv` prints, without a trace."""

import re
from pathlib import Path

from traceanalyzer.base import digits
from traceanalyzer.ingest.ncu import read_counters
from traceanalyzer.trace import Told
from traceanalyzer.trace.circumstances import KernelCounters

_HEAD = re.compile(r'^\s*"ID".*"Kernel Name"', re.MULTILINE)
SHOWN = 5  # kernels that are named
NEAR_PEAK_SHARE = 0.6
"""NVIDIA's own rule: above 60 % of a peak a kernel is bound by it, below both by latency."""
NS_PER_US = 1e3
RECORD = (
    "For their share of the step, give a trace with it: `traceanalyzer analyze TRACE --ncu FILE`."
)


def holds(text: str) -> bool:
    """Whether a text has such a table."""
    return _HEAD.search(text) is not None


def told(text: str, path: Path) -> Told | None:
    """What the counters say of the kernels, the longest first."""
    kernels = read_counters(path)
    ordered = sorted(kernels, key=lambda kernel: -(kernel.duration_ns or 0.0))
    total_us = sum(kernel.duration_ns or 0.0 for kernel in kernels) / NS_PER_US
    first = ordered[0]
    spent = f", {digits(total_us)} us in all" if total_us else ""
    return Told(
        what="Counters of Nsight Compute",
        tells=f"{len(kernels):,} kernels{spent}. The longest is {_said(first)}.",
        record=RECORD,
        notes=tuple(f"{_said(kernel)}." for kernel in ordered[1:SHOWN]),
    )


def _said(kernel: KernelCounters) -> str:
    """A kernel: its time, what bounds it, by which share of the peak."""
    compute = kernel.compute_share
    memory = kernel.memory_share
    shares = [
        f"{name} {share:.0%}"
        for name, share in (("compute", compute), ("memory", memory))
        if share is not None
    ]
    most = max(compute or 0.0, memory or 0.0)
    bound = "latency" if most < NEAR_PEAK_SHARE else "compute" if most == compute else "memory"
    time = f"{digits(kernel.duration_ns / NS_PER_US)} us, " if kernel.duration_ns else ""
    of_peak = f"{bound}-bound ({', '.join(shares)} of peak)" if shares else "without its peaks"
    return f"{kernel.name}: {time}{of_peak}"
