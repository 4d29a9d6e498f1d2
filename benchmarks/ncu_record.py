"""Record kernels by torch.profiler and by Nsight Compute: `python -m benchmarks.ncu_record FOLDER`,
where `ncu` is.

Needs nothing but torch. Writes for each part, `cold`, `images` and `warm`, `PART.json.gz` (shapes
recorded) and `PART.csv` (`ncu --clock-control none`, page `raw`), of the same kernels in the same
order; `benchmarks/roofline_ncu.py` compares them. Files that are there already are not recorded
again; `--only PART` records one.
"""

import argparse
import bisect
import csv
import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.ncu_cases import CASES, HELD_OUT, IMAGES, WARM, Case

SECTIONS = ("SpeedOfLight", "Occupancy", "LaunchStats")
COUNTERS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.sum",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_bytes.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_elapsed.avg.per_second",
    "sm__inst_executed.sum",
    "sm__inst_executed_pipe_alu.sum",
    "sm__inst_executed_pipe_fma.sum",
    "sm__inst_executed_pipe_fp16.sum",
    "sm__inst_executed_pipe_lsu.sum",
    "sm__inst_executed_pipe_uniform.sum",
    "sm__inst_executed_pipe_xu.sum",
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
COLUMNS = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
UNITS = 2
"""Rows before the first kernel's: names and units."""
UNNAMED = re.compile(r"<unnamed>::|\(anonymous namespace\)::")
BEHIND_NAME = re.compile(r"[<(]")
WARM_UPS = 2
CASE = "case: "
SECONDS = 150
"""Most that a run under ncu takes for cases; those left then are skipped."""


def _alternating(*parts: dict[str, Case]) -> dict[str, Case]:
    """All cases, in turn from each: where time runs out none of the parts is missing whole."""
    turns = zip_longest(*(part.items() for part in parts))
    return dict(item for turn in turns for item in turn if item is not None)


PARTS = {"cold": _alternating(CASES, HELD_OUT), "images": IMAGES, "warm": WARM}


def workload(part: str, trace: Path | None) -> None:
    """Run every case once after a warm-up; by torch.profiler into `trace`, or for ncu
    (`--profile-from-start off`)."""
    import torch

    begun = time.monotonic()
    with torch.profiler.profile(record_shapes=True) if trace else nullcontext() as profiler:
        for name, case in PARTS[part].items():
            if time.monotonic() - begun > SECONDS:
                print(f"left out for want of time: {name}", file=sys.stderr)
                continue
            _run(name, case, measured=trace is None)
    if trace is not None and profiler is not None:
        profiler.export_chrome_trace(str(trace))


def _run(name: str, case: Case, *, measured: bool) -> None:
    import torch

    try:
        run = case()
        for _ in range(WARM_UPS):
            run()
    except (RuntimeError, TypeError) as error:
        print(f"{name} cannot run here: {error}", file=sys.stderr)
        return
    torch.cuda.synchronize()
    if measured:
        torch.cuda.profiler.start()
    with torch.profiler.record_function(CASE + name):
        run()
        torch.cuda.synchronize()
    if measured:
        torch.cuda.profiler.stop()


def record(folder: Path, only: str | None) -> None:
    """For each part both recordings, each by a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, cache in (("warm", "none"), ("images", "all"), ("cold", "all")):
        if only not in (None, part):
            continue
        child = [
            sys.executable,
            "-m",
            "benchmarks.ncu_record",
            str(folder),
            "--part",
            part,
            "--workload",
        ]
        trace = folder / f"{part}.json.gz"
        report = folder / f"{part}.csv"
        if not trace.exists():
            subprocess.run([*child, "trace"], check=True)
            reduce_trace(trace)
        if not report.exists():
            report.write_text(_measured([*child, "ncu"], cache))


def _measured(child: list[str], cache: str) -> str:
    tool = shutil.which("ncu")
    if tool is None:
        raise SystemExit("ncu is not installed here")
    sections = [word for section in SECTIONS for word in ("--section", section)]
    options = ["--clock-control", "none", "--cache-control", cache, "--profile-from-start", "off"]
    options += [
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--metrics",
        ",".join(_known(tool)),
    ]
    begun = time.monotonic()
    done = subprocess.run(
        [tool, *options, *sections, *child], check=False, stdout=subprocess.PIPE, text=True
    )
    print(
        f"ncu ended with {done.returncode} after {time.monotonic() - begun:.0f} s", file=sys.stderr
    )
    return reduce_report(done.stdout)


def reduce_report(text: str) -> str:
    """Of what ncu printed the table, with what the comparison reads: names without arguments,
    launches, counters."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    kept = [i for i, name in enumerate(rows[0]) if name in COLUMNS + COUNTERS] if rows else []
    name = rows[0].index("Kernel Name") if rows else -1
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for number, row in enumerate(rows):
        row[name] = (
            row[name] if number < UNITS else BEHIND_NAME.split(UNNAMED.sub("", row[name]))[0]
        )
        writer.writerow(row[i] for i in kept)
    return file.getvalue()


def _known(tool: str) -> list[str]:
    """The counters that this ncu has, all of them if it does not say."""
    done = subprocess.run([tool, "--query-metrics"], check=False, capture_output=True, text=True)
    names = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    known = [counter for counter in COUNTERS if counter.split(".")[0] in names]
    missing = set(COUNTERS) - set(known)
    print(f"counters that ncu does not know: {sorted(missing)}", file=sys.stderr)
    return known if len(known) > len(COUNTERS) // 2 else [*COUNTERS]


def reduce_trace(path: Path) -> None:
    """Leave in a trace only what was recorded in cases: operators, launches, kernels."""
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    cases = [
        e
        for e in events
        if e.get("cat") == "user_annotation" and e.get("name", "").startswith(CASE)
    ]
    windows = sorted((e["ts"], e["ts"] + e["dur"]) for e in cases)
    starts = [start for start, _ in windows]

    def inside(event: dict[str, Any]) -> bool:
        at = bisect.bisect_right(starts, event.get("ts", 0)) - 1
        return at >= 0 and event["ts"] <= windows[at][1]

    host = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
    kept = [e for e in events if e.get("cat") in host and inside(e)]
    launched = {e["args"]["correlation"] for e in kept if "correlation" in e.get("args", {})}
    on_device = ("kernel", "gpu_memcpy", "gpu_memset")
    kept += [
        e for e in events if e.get("cat") in on_device and e["args"].get("correlation") in launched
    ]
    kept += [e for e in events if e.get("ph") == "M"]
    small = {key: trace[key] for key in ("schemaVersion", "deviceProperties") if key in trace}
    with gzip.open(path, "wt") as file:
        json.dump({**small, "traceEvents": kept}, file, separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workload", choices=("trace", "ncu"), help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    if options.workload:
        workload(
            options.part,
            options.folder / f"{options.part}.json.gz" if options.workload == "trace" else None,
        )
    else:
        record(options.folder, options.only)


if __name__ == "__main__":
    main()
