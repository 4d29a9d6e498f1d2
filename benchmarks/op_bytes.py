"""Bytes of op models against the DRAM traffic that Nsight Compute counted: `python -m benchmarks.op_bytes TRACE CSV`.

TRACE and CSV come from the two runs of `op_bytes_run.py`. Kernels are joined in order, by name; a row is one call of an
operator with all its kernels. Both numbers are of cold caches.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.analysis.roofline.op_models import model_ops
from traceanalyzer.ingest import load

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\(bool\)|\(int\)")
METRIC = "dram__bytes.sum"
UNITS = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def counted(path: Path) -> list[tuple[str, float]]:
    """Name and DRAM bytes of each kernel, in order of launch."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row["Metric Name"] == METRIC]
    return [(r["Kernel Name"], float(r["Metric Value"].replace(",", "")) * UNITS[r["Metric Unit"]]) for r in rows]


def plain(name: str) -> str:
    """The kernel's own name, without types, return type and arguments."""
    return re.split(r"[<(]", _ANONYMOUS.sub("", name.removeprefix("void ")))[0].split("::")[-1]


def main() -> None:
    trace, ncu = Path(sys.argv[1]), counted(Path(sys.argv[2]))
    ctx = Measurements(load([trace]).traces[0])
    work, ops = model_ops(ctx), ctx.trace.device_ops
    kernels = np.flatnonzero(ctx.is_kernel)
    kernels = kernels[np.argsort(ctx.launch_time[kernels], kind="stable")]
    print(f"{len(kernels)} kernels recorded, {len(ncu)} counted")
    measured: dict[int, float] = defaultdict(float)
    names: dict[int, str] = {}
    for op, (name, traffic) in zip(kernels, ncu, strict=False):
        recorded = ctx.trace.text(int(ops.name[op])) or ""
        if plain(recorded) != plain(name):
            print(f"out of step: {plain(recorded)} recorded, {plain(name)} counted")
        row = int(work.of_device_op[op])
        measured[row] += traffic
        names[row] = plain(name)
    for row, traffic in measured.items():
        if row < 0:
            print(f"{'(unmodelled)':52s} {traffic / 1e6:9.0f} MB")
            continue
        op_name = ctx.trace.text(int(ctx.trace.host_ranges.name[row])) or ""
        print(
            f"{op_name:52s} {work.bytes[row] / 1e6:9.0f} MB modelled {traffic / 1e6:9.0f} MB counted "
            f"{work.bytes[row] / traffic:5.2f}  {names[row][:40]}"
        )


if __name__ == "__main__":
    main()
