"""Time and memory of `traceanalyzer analyze` beside HTA: `python -m benchmarks.analyze`.

The 155 MB recording of ../shared/traces, replicas of it of 0.5 and 1 GB, each in processes of their own. HTA
gets an environment of its own, made on first use. See README.md here for what is measured and why.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.measured import MB, Cost, best, measure
from benchmarks.replicate import replicate

HERE = Path(__file__).parent
TRACES = HERE.parent.parent / "shared" / "traces"
LARGE = TRACES / "large" / "gpt_50_steps.json.gz"
SMALL = TRACES / "kineto" / "tiny_mlp_infer.base.json.gz"

HTA_REQUIREMENTS = ["HolisticTraceAnalysis"]
HTA_SIZES = 2
"""HTA is run on the first sizes only: it takes minutes and several times the file in memory on the largest."""

_LOAD = """
import sys, time, traceanalyzer
from pathlib import Path
traceanalyzer.load(sys.argv[2])  # imports and caches are not the reader's cost
begun, cpu = time.perf_counter(), time.process_time()
traceanalyzer.load(sys.argv[1])
print(time.perf_counter() - begun, time.process_time() - cpu)
"""


def traceanalyzer_command() -> list[str]:
    """The installed command, as a user runs it."""
    beside = Path(sys.executable).with_name("traceanalyzer")
    return [str(beside) if beside.exists() else shutil.which("traceanalyzer") or "traceanalyzer"]


def recordings(folder: Path, replicas_mb: list[float]) -> list[Path]:
    """The real recording, unpacked, and its replicas, smallest first; made once."""
    folder.mkdir(parents=True, exist_ok=True)
    original = folder / LARGE.name.removesuffix(".gz")
    if not original.exists():
        with gzip.open(LARGE, "rb") as packed, original.open("wb") as out:
            shutil.copyfileobj(packed, out, MB)
    paths = [original]
    for megabytes in replicas_mb:
        copies = -(-int(megabytes * MB) // original.stat().st_size)
        path = folder / f"{original.stem}.x{copies}.json"
        if not path.exists():
            unfinished = path.with_suffix(".part")
            replicate(original, unfinished, copies)
            unfinished.rename(path)
        paths.append(path)
    return paths


def environment(folder: Path, requirements: list[str]) -> Path:
    """Python of an environment with these packages; made once."""
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-qq", *requirements], check=True)
        ready.touch()
    return python


def run_hta(folder: Path, paths: list[Path]) -> list[Cost]:
    """HTA's load, temporal and idle breakdown; says which stages failed and when."""
    python = environment(folder / "hta", HTA_REQUIREMENTS)
    costs = []
    for path in paths:
        cost = measure([str(python), str(HERE / "hta_breakdown.py"), str(path)])
        costs.append(cost)
        if cost.status:
            row("HTA", path, cost, cost.outcome)
            continue
        result = json.loads(cost.output.strip().splitlines()[-1])
        stages = ", ".join(
            f"{name} {'FAILED (' + result['failed'][name] + ')' if name in result['failed'] else 'done'} at {at:.1f} s"
            for name, at in result["ended"].items()
        )
        row(f"HTA {result['version']}", path, cost, stages)
    return costs


def run_analyze(paths: list[Path], repeats: int) -> list[Cost]:
    """The command itself, as JSON into a file."""
    costs = []
    for path in paths:
        cost = best([*traceanalyzer_command(), "analyze", str(path), "--format", "json"], repeats)
        row("traceanalyzer analyze", path, cost, _answer(cost))
        costs.append(cost)
    return costs


def run_load(path: Path) -> None:
    """The reader alone, imports excluded."""
    cost = measure([sys.executable, "-c", _LOAD, str(path), str(SMALL)])
    if cost.status:
        print(f"reader alone: {cost.outcome}")
        return
    wall, cpu = map(float, cost.output.split())
    size = path.stat().st_size / MB
    print(f"reader alone, {size:.0f} MB: {size / wall:.0f} MB/s, {size / cpu:.0f} MB/s a CPU-second (floor 200)")


def run_small(repeats: int) -> None:
    """What the user waits for on every use."""
    for name, arguments, floor in (
        ("--help", ["--help"], 0.2),
        ("analyze, small trace", ["analyze", str(SMALL), "--format", "json"], 1.2),
    ):
        cost = best([*traceanalyzer_command(), *arguments], repeats)
        row(f"traceanalyzer {name}", SMALL, cost, f"{cost.outcome} (bar {floor} s)")


def compare(paths: list[Path], ours: list[Cost], hta: list[Cost]) -> None:
    """Ratios to HTA, memory against the file, and how the cost grows with size."""
    print()
    for path, mine, theirs in zip(paths, ours, hta, strict=False):
        print(
            f"{_size(path)}: {theirs.wall_s / mine.wall_s:.1f} times faster than HTA, "
            f"{theirs.peak_mb / mine.peak_mb:.1f} times less memory"
        )
    for path, mine in zip(paths, ours, strict=True):
        size = path.stat().st_size / MB
        print(
            f"{_size(path)}: peak memory {mine.peak_mb / size:.2f} of the file, "
            f"{size / mine.wall_s:.0f} MB/s, {mine.cpu_s / size * 1000:.2f} CPU-ms a MB"
        )
    for before, after, smaller, larger in zip(paths, paths[1:], ours, ours[1:], strict=False):
        growth = after.stat().st_size / before.stat().st_size
        print(
            f"{_size(before)} to {_size(after)}: size x{growth:.2f}, wall-clock x{larger.wall_s / smaller.wall_s:.2f}, "
            f"CPU x{larger.cpu_s / smaller.cpu_s:.2f} (linear: no more than the size)"
        )


def row(what: str, path: Path, cost: Cost, remark: str) -> None:
    """One line of results."""
    print(
        f"{what:32} {_size(path):>9} {cost.wall_s:8.2f} s {cost.cpu_s:8.2f} CPU-s {cost.peak_mb:7.0f} MB  {remark}",
        flush=True,
    )


def _size(path: Path) -> str:
    return f"{path.stat().st_size / MB:.{0 if path.stat().st_size > MB else 2}f} MB"


def _answer(cost: Cost) -> str:
    if cost.status:
        return cost.outcome
    metrics = json.loads(cost.output)["metrics"]
    step = metrics["step_time_ms"]
    return f"{step['count']} steps of {step['mean']:.4g} ms" if step else "no steps"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "traceanalyzer-benchmarks",
        help="where unpacked traces and other tools' environments are kept",
    )
    parser.add_argument("--replicas-mb", type=float, nargs="*", default=[500, 1000])
    parser.add_argument("--repeats", type=int, default=3, help="runs of traceanalyzer, of which the fastest counts")
    parser.add_argument("--no-hta", action="store_true")
    options = parser.parse_args()
    if not LARGE.exists():
        sys.exit("the shared recordings are not beside the repository")
    paths = recordings(options.folder, options.replicas_mb)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    run_small(options.repeats)
    run_load(paths[0])
    ours = run_analyze(paths, options.repeats)
    hta = [] if options.no_hta else run_hta(options.folder, paths[:HTA_SIZES])
    compare(paths, ours, hta)


if __name__ == "__main__":
    main()
