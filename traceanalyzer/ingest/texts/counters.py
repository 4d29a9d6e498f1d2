"""What `ncu` prints, as CSV or as sections for people, without a trace."""

import re
from pathlib import Path

from traceanalyzer.base import counted, digits, regex
from traceanalyzer.ingest.ncu import REPORT_SUFFIX, can_read_reports, read_counters
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import Health, PastedText, Trace
from traceanalyzer.trace.circumstances import KernelCounters

_HEAD = regex(r'^[^\S\n]*+"ID".*"Kernel Name"', re.MULTILINE)
_SECTION = regex(r"^[^\S\n]++Section: GPU Speed Of Light", re.MULTILINE)
_KERNEL = regex(
    r"^ {1,4}(?P<name>\S[^\n]{0,2000}?)(?: \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\))?,"
    r"(?: [^,\n]{1,40},)? Context \d+, Stream \d+",
    re.MULTILINE,
)
_METRIC = regex(
    r"^ {2,}(Duration|Compute \(SM\) Throughput|SM Throughput|Memory Throughput|DRAM Throughput"
    r"|Achieved Occupancy)\s+(%|nsecond|usecond|msecond|second|ns|us|ms|s)\s+([\d.,]{1,20})\s*$",
    re.MULTILINE,
)
_NS = {
    "nsecond": 1.0,
    "usecond": 1e3,
    "msecond": 1e6,
    "second": 1e9,
    "ns": 1.0,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
}
MAGIC = b"NVR\x00"  # with which a binary report begins
SHOWN = 5  # kernels that are named
NEAR_PEAK_SHARE = 0.6
"""NVIDIA's own rule: above 60 % of a peak a kernel is bound by it, below both by latency."""
LONG_NAME = 60  # characters; template arguments make names of hundreds
NS_PER_US = 1e3
RECORD = (
    "For their share of the step, give a trace with it: `traceanalyzer analyze TRACE --ncu FILE`."
)
RECORD_CSV = (
    "For their share of the step print them as CSV (`ncu --csv --page raw`, or --import of the report), "
    "and give that with a trace: `traceanalyzer analyze TRACE --ncu FILE`."
)


def recognise(text: str) -> bool:
    """Whether a text has such a table."""
    return any(pattern.search(text) for pattern in (_HEAD, _SECTION))


def summarise(text: str, path: Path) -> PastedText | None:
    """What the counters say of the kernels, the longest first."""
    is_table = _HEAD.search(text) is not None
    kernels = read_counters(path) if is_table else _printed(text)
    return _pasted(kernels, RECORD if is_table else RECORD_CSV) if kernels else None


def is_binary(head: bytes, path: Path) -> bool:
    """Whether it is a binary report of Nsight Compute, and something is installed that reads it."""
    return path.suffix == REPORT_SUFFIX and head.startswith(MAGIC) and can_read_reports()


def read_report(path: Path) -> Trace:
    """What a binary report tells. Raises UnreadableInputError."""
    kernels = read_counters(path)
    health = Health(events=len(kernels))
    return Trace(str(path), "ncu_csv", [], pasted=_pasted(kernels, RECORD), health=health)


def _pasted(kernels: list[KernelCounters], record: str) -> PastedText:
    ordered = sorted(kernels, key=lambda kernel: -(kernel.duration_ns or 0.0))
    total_us = sum(kernel.duration_ns or 0.0 for kernel in kernels) / NS_PER_US
    number = counted(len(kernels), "kernel")
    spent = f", {digits(total_us)} us in all" if total_us else ""
    return PastedText(
        what="Counters of Nsight Compute",
        tells=f"{number}{spent}. The longest: {_said(ordered[0])}.",
        record=record,
        notes=tuple(f"{_said(kernel)}." for kernel in ordered[1:SHOWN]),
    )


def _printed(text: str) -> list[KernelCounters]:
    """The kernels of sections, as ncu prints them on a console."""
    heads = list(_KERNEL.finditer(text))
    found = []
    ends = [*(following.start() for following in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        values: dict[str, float] = {}
        for metric in _METRIC.finditer(text, head.end(), end):
            number = number_in(metric[3])
            if number is not None and (metric[2] == "%") == (metric[1] != "Duration"):
                values.setdefault(metric[1], number * _NS.get(metric[2], 0.01))
        found.append(
            KernelCounters(
                head["name"],
                blocks=-1,
                threads=-1,
                duration_ns=values.get("Duration"),
                compute_share=values.get("Compute (SM) Throughput", values.get("SM Throughput")),
                memory_share=values.get("Memory Throughput"),
                dram_share=values.get("DRAM Throughput"),
                occupancy_share=values.get("Achieved Occupancy"),
            )
        )
    return found


def _said(kernel: KernelCounters) -> str:
    """A kernel: its time, what bounds it, by which share of the peak, what its warps wait for; its
    name last, cut where it is long."""
    compute = kernel.compute_share
    memory = kernel.memory_share
    shares = [
        f"{name} {share:.0%}"
        for name, share in (("compute", compute), ("memory", memory))
        if share is not None
    ]
    most = max(compute or 0.0, memory or 0.0)
    bound = "latency" if most < NEAR_PEAK_SHARE else "compute" if most == compute else "memory"
    facts = [f"{digits(kernel.duration_ns / NS_PER_US)} us"] if kernel.duration_ns else []
    of_peak = f"{', '.join(shares)} of peak" if shares else "without its peaks"
    if len(shares) > 1 or most >= NEAR_PEAK_SHARE:  # what was not measured may bind it
        of_peak = f"{bound}-bound ({of_peak})"
    facts.append(of_peak)
    for reason, share in kernel.stalls[:1]:
        facts.append(f"{share:.0%} of its cycles waiting for {reason}")
    name = kernel.name.removeprefix("void ")
    shown = name if len(name) <= LONG_NAME else f"{name[:LONG_NAME]}…"
    return f"{', '.join(facts)}: {shown}"
