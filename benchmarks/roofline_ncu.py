"""Estimates of the roofline against what Nsight Compute measured: `python -m
benchmarks.roofline_ncu [FOLDER]`.

FOLDER holds what `benchmarks/ncu_record.py` wrote; without it the measurement on an H200 that the
tests keep is compared. Prints a Markdown table and the two bars of the roofline: the share of
kernel time whose bound class agrees, and whose traffic is within 15 % where it exceeds the last
cache; of all cases, and of those held out.

What ncu measured is classed by its own rule ("GPU Speed Of Light Throughput"), with the device
memory as memory: below 60 % of both it is latency, else the greater one; with less than 10 points
between them they are balanced, and either answer agrees. (ncu's "Memory Throughput" is that of the
busiest level, caches included: 95 % for a product that keeps the tensor cores 94 % busy.)
"""

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.ncu_cases import HELD_OUT
from benchmarks.ncu_record import CASE, PARTS, UNITS
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.bounds import NEAR, Bound
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load

STORED = Path(__file__).parents[1] / "tests" / "data" / "ncu" / "h200"
WITHIN = 0.15
BALANCED = 0.1
SHOWN_NS = 400_000
"""The table shows kernels that take at least this long."""
PERCENT = ".avg.pct_of_peak_sustained_elapsed"


@dataclass(frozen=True)
class Row:
    """One kernel, estimated and measured. Shares are 0..1, bytes NaN where not known."""

    case: str
    kernel: str
    time_ns: int
    estimated: Bound
    traffic: float
    compute: float
    memory: float
    counted: float
    cache: float

    @property
    def held_out(self) -> bool:
        """Whether nothing was derived from it."""
        return self.case in HELD_OUT

    @property
    def measured(self) -> tuple[str, ...]:
        """The classes that agree with the measurement."""
        if max(self.compute, self.memory) < NEAR:
            return ("latency",)
        if min(self.compute, self.memory) >= NEAR and abs(self.compute - self.memory) < BALANCED:
            return ("compute", "memory")
        return ("compute",) if self.compute > self.memory else ("memory",)

    @property
    def agrees(self) -> bool:
        """Whether the estimate is one of them; ncu's compute is arithmetic and all other
        instructions."""
        kind = Bound.COMPUTE if self.estimated is Bound.INSTRUCTIONS else self.estimated
        return kind.label in self.measured

    @property
    def beyond_cache(self) -> bool:
        """Whether its traffic is more than the cache could keep."""
        return max(self.traffic, self.counted) > self.cache

    @property
    def close(self) -> bool:
        """Whether the traffic is estimated well."""
        return abs(self.traffic / self.counted - 1) <= WITHIN


def compare(folder: Path = STORED) -> list[Row]:
    """The kernels of all parts, joined in the order of their launches; those that ncu had no time
    for are left out."""
    recorded = [part for part in PARTS if (folder / f"{part}.csv").exists()]
    return [
        row
        for part in recorded
        for row in _part(folder / f"{part}.json.gz", folder / f"{part}.csv")
    ]


def _part(trace: Path, report: Path) -> Iterable[Row]:
    ctx = measure(load([trace]).traces[0])
    with report.open(newline="") as file:
        head, *rows = csv.reader(file)
    measured = [dict(zip(head, row, strict=True)) for row in rows[UNITS - 1 :]]
    launched = np.flatnonzero(ctx.linked.is_kernel & (ctx.linked.launch_time >= 0))
    launched = launched[np.argsort(ctx.linked.launch_time[launched], kind="stable")]
    for op, counters in zip(launched.tolist(), measured, strict=False):
        yield _row(ctx, op, counters)


def _row(ctx: Measurements, op: int, counters: dict[str, str]) -> Row:
    ops = ctx.trace.device_ops
    roofline = ctx.rated.roofline
    kernel = short_name(ctx.trace.text(int(ops.name[op])) or "")
    if kernel.split("<")[0].split("::")[-1] != short_name(counters["Kernel Name"]).split("::")[-1]:
        print(
            f"out of step: {kernel} recorded, {counters['Kernel Name']} measured", file=sys.stderr
        )

    def counter(name: str) -> float:
        return float(counters[name].replace(",", ""))

    return Row(
        case=_case(ctx, int(ctx.linked.launch_time[op])),
        kernel=kernel,
        time_ns=int(ops.end[op] - ops.start[op]),
        estimated=Bound(int(roofline.bound[op])),
        traffic=float(roofline.expected[op]),
        compute=counter("sm__throughput" + PERCENT) / 100,
        memory=counter("dram__throughput" + PERCENT) / 100,
        counted=counter("dram__bytes_read.sum") + counter("dram__bytes_write.sum"),
        cache=float(ctx.linked.limit("cache_bytes")[op]),
    )


def _case(ctx: Measurements, launched: int) -> str:
    """The case in whose time a kernel was launched (by whatever thread: the backward pass has its
    own)."""
    ranges = ctx.trace.host_ranges
    strings = ctx.trace.strings
    codes = [i for i, text in enumerate(strings) if text.startswith(CASE)]
    around = np.isin(ranges.name, codes) & (ranges.start <= launched) & (launched <= ranges.end)
    return (
        strings[ranges.name[int(np.flatnonzero(around)[0])]].removeprefix(CASE)
        if around.any()
        else ""
    )


def agreement(rows: Iterable[Row]) -> float:
    """Share of the kernel time whose bound class agrees."""
    pairs = [(row.time_ns, row.agrees) for row in rows]
    return sum(time for time, agrees in pairs if agrees) / max(sum(time for time, _ in pairs), 1)


def closeness(rows: Iterable[Row]) -> float:
    """Share of the kernel time, of kernels whose traffic exceeds the cache, with traffic within 15
    %."""
    large = [row for row in rows if row.beyond_cache]
    return sum(row.time_ns for row in large if row.close) / max(
        sum(row.time_ns for row in large), 1
    )


def markdown(rows: list[Row]) -> str:
    """The table and both bars."""
    lines = [
        "| case | kernel | us | estimated | measured | SM | DRAM | MB est. | MB measured | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.case}{' (held out)' if r.held_out else ''} | {r.kernel.split('<')[0][:40]} | {r.time_ns / 1e3:.0f} "
        f"| {r.estimated.label} | {' or '.join(r.measured)} | {r.compute:.0%} | {r.memory:.0%} | {r.traffic / 1e6:.0f} "
        f"| {r.counted / 1e6:.0f} | {r.traffic / r.counted:.2f} |"
        for r in rows
        if r.time_ns >= SHOWN_NS
    ]
    held = [row for row in rows if row.held_out]
    lines += [
        "",
        f"Bound class agrees on {agreement(rows):.1%} of the kernel time ({agreement(held):.1%} in held-out cases).",
        f"Traffic within {WITHIN:.0%} for {closeness(rows):.1%} of the time of kernels beyond the cache "
        f"({closeness(held):.1%} in held-out cases).",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=STORED)
    print(markdown(compare(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
