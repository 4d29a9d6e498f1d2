"""Estimates of the roofline against what Nsight Compute measures: `python -m benchmarks.roofline_ncu FOLDER`, on a GPU.

Runs the same kernels twice, by torch.profiler with shapes (`FOLDER/trace.json`) and under `ncu --clock-control none`
(`FOLDER/report.csv`), then prints a Markdown table and the two bars of the roofline: the share of kernel time whose
bound class agrees, and of the traffic that is within 15 % where the working set exceeds the last cache. Files that
are there already are not recorded again; `--compare` records nothing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.attribution import launch_nodes
from traceanalyzer.analysis.context import Context
from traceanalyzer.analysis.counted import measured_bound
from traceanalyzer.analysis.kernel_names import short_name
from traceanalyzer.analysis.roofline import Bound
from traceanalyzer.ingest import load
from traceanalyzer.ingest.ncu import read_counters
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.kernel_counters import KernelCounters

SECTIONS = ("SpeedOfLight", "Occupancy", "LaunchStats", "ComputeWorkloadAnalysis")
METRICS = "dram__bytes.sum,dram__bytes_read.sum,dram__bytes_write.sum"
WARM_UPS = 3
WITHIN = 0.15
CASE = "case: "


def cases() -> dict[str, Callable[[], object]]:
    """The kernels, each on more data than any cache holds unless its name says small."""
    import torch
    from torch.nn import functional as f

    def made(*shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad)

    a, b = made(8192, 8192), made(8192, 8192)
    a32, b32 = made(4096, 4096, dtype=torch.float32), made(4096, 4096, dtype=torch.float32)
    small, tall, thin = made(64, 64), made(16384, 16384), made(16384, 8)
    x, weight = made(65536, 4096), made(4096)
    table, index = made(1_000_000, 256, dtype=torch.float32), torch.randperm(1_000_000, device="cuda")
    q, k, v = (made(8, 32, 4096, 128) for _ in range(3))
    image, filters = made(64, 256, 56, 56), made(256, 256, 3, 3)
    last = image.to(memory_format=torch.channels_last)
    last_filters = filters.to(memory_format=torch.channels_last)
    parameters = [made(8192, 8192, dtype=torch.float32, grad=True) for _ in range(2)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    adam = torch.optim.Adam(parameters, fused=True)
    return {
        "GEMM bf16": lambda: a @ b,
        "GEMM fp32": lambda: a32 @ b32,
        "GEMM bf16, small": lambda: small @ small,
        "GEMM bf16, thin": lambda: tall @ thin,
        "elementwise add": lambda: x + x.flip(0),
        "elementwise gelu": lambda: f.gelu(x),
        "layer norm": lambda: f.layer_norm(x, (4096,), weight, weight),
        "softmax": lambda: torch.softmax(x, -1),
        "embedding": lambda: f.embedding(index, table),
        "Adam, fused": adam.step,
        "attention": lambda: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        "convolution": lambda: f.conv2d(image, filters, padding=1),
        "convolution, channels last": lambda: f.conv2d(last, last_filters, padding=1),
    }


def workload(trace: Path | None) -> None:
    """Run every case once after a warm-up; by torch.profiler into `trace`, or for ncu (`--profile-from-start off`)."""
    import torch

    made = cases()
    for run in made.values():
        for _ in range(WARM_UPS):
            run()
    torch.cuda.synchronize()
    if trace is None:
        torch.cuda.profiler.start()
        _once(made)
        torch.cuda.profiler.stop()
        return
    with torch.profiler.profile(record_shapes=True) as profiler:
        _once(made)
    profiler.export_chrome_trace(str(trace))


def _once(made: dict[str, Callable[[], object]]) -> None:
    import torch

    for name, run in made.items():
        with torch.profiler.record_function(CASE + name):
            run()
        torch.cuda.synchronize()


def record(folder: Path) -> None:
    """Both recordings, each by a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    child = [sys.executable, "-m", "benchmarks.roofline_ncu", str(folder), "--workload"]
    if not (folder / "trace.json").exists():
        subprocess.run([*child, "trace"], check=True)
    if not (folder / "report.csv").exists():
        tool = shutil.which("ncu")
        if tool is None:
            raise SystemExit("ncu is not installed here")
        sections = [word for section in SECTIONS for word in ("--section", section)]
        options = ["--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw"]
        command = [tool, *options, *sections, "--metrics", METRICS, *child, "ncu"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        (folder / "report.csv").write_text(done.stdout)


@dataclass(frozen=True)
class Row:
    """One kernel, estimated and measured. Shares are 0..1, bytes NaN where not known."""

    case: str
    kernel: str
    time_ns: int
    estimated: Bound
    sol: float
    traffic: float
    measured: Bound
    compute: float
    memory: float
    counted: float
    beyond_cache: bool

    @property
    def agrees(self) -> bool:
        """Whether both name the same bound."""
        return self.estimated == self.measured


def compare(folder: Path) -> list[Row]:
    """The kernels of both recordings, joined in the order of their launches."""
    ctx = Context(load([folder / "trace.json"]).traces[0])
    counters = read_counters(folder / "report.csv")
    rows = np.flatnonzero(ctx.is_kernel & (ctx.launch_time >= 0))
    rows = rows[np.argsort(ctx.launch_time[rows], kind="stable")]
    if len(rows) != len(counters):
        print(f"{len(rows)} kernels in the trace, {len(counters)} in the report: the rest is left out", file=sys.stderr)
    pairs = zip(rows.tolist(), counters, strict=False)
    return [made for row, kernel in pairs if (made := _row(ctx, row, kernel)) is not None]


def _row(ctx: Context, row: int, kernel: KernelCounters) -> Row | None:
    ops, r = ctx.trace.device_ops, ctx.roofline
    name = short_name(ctx.trace.text(int(ops.name[row])) or "")
    if name.split("<")[0] != short_name(kernel.name).split("<")[0]:
        print(f"out of step: {name} recorded, {short_name(kernel.name)} measured", file=sys.stderr)
        return None
    time = int(ops.end[row] - ops.start[row])
    compute, memory = kernel.compute_share or 0.0, kernel.memory_share or 0.0
    cache = float(ctx.limit("cache_bytes")[row])
    return Row(
        case=_case(ctx, row),
        kernel=name,
        time_ns=time,
        estimated=Bound(int(r.bound[row])),
        sol=float(r.attainable[row] / time),
        traffic=float(r.bytes[row]),
        measured=measured_bound(compute, memory),
        compute=compute,
        memory=memory,
        counted=float("nan") if kernel.dram_bytes is None else kernel.dram_bytes,
        beyond_cache=bool(r.bytes[row] > cache),
    )


def _case(ctx: Context, row: int) -> str:
    node = int(launch_nodes(ctx)[row])
    around = int(ctx.tree.innermost(ctx.tree.kind == RangeKind.ANNOTATION)[node]) if node >= 0 else -1
    name = ctx.trace.text(int(ctx.trace.host_ranges.name[ctx.tree.row[around]])) if around >= 0 else None
    return (name or "").removeprefix(CASE)


def markdown(rows: list[Row]) -> str:
    """The table and both bars."""
    lines = [
        "| case | kernel | us | estimated | measured | SOL est. | SM | memory | MB est. | MB measured | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.case} | `{r.kernel}` | {r.time_ns / 1e3:.1f} | {r.estimated.label} | {r.measured.label} | {r.sol:.0%} "
        f"| {r.compute:.0%} | {r.memory:.0%} | {r.traffic / 1e6:.1f} | {r.counted / 1e6:.1f} "
        f"| {r.traffic / r.counted if r.counted else float('nan'):.2f} |"
        for r in rows
    ]
    total = sum(r.time_ns for r in rows) or 1
    large = [r for r in rows if r.beyond_cache and r.counted > 0]
    close = [r for r in large if abs(r.traffic / r.counted - 1) <= WITHIN]
    lines += [
        "",
        f"Bound class agrees on {sum(r.time_ns for r in rows if r.agrees) / total:.1%} of the kernel time (bar: 90 %).",
        f"Traffic within {WITHIN:.0%} for {len(close)} of {len(large)} kernels whose working set exceeds the cache.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", action="store_true", help="only compare what the folder holds")
    parser.add_argument("--workload", choices=("trace", "ncu"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.workload:
        workload(options.folder / "trace.json" if options.workload == "trace" else None)
        return
    if not options.compare:
        record(options.folder)
    print(markdown(compare(options.folder)))


if __name__ == "__main__":
    main()
