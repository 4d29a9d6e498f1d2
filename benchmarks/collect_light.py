"""What each recording of a capture says of the step without the profiler: `python -m benchmarks.collect_light OUT`.

For a host with one GPU, timm, torchvision and transformers. Each program runs in a process of its own: a stopwatch,
a capture (steps timed, a light recording, a full one), a stopwatch again, then a profile as a user would record it,
which leaves CUPTI switched on, and a stopwatch again. Then scripts that use torch.profiler themselves run under the
collector. Writes `light.json` and the captures, packed.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP, ROUNDS = 15, 5
ROUND_SECONDS, LEAST_STEPS = 0.35, 4
SECONDS_A_PROGRAM = 75
PACKS = 4
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CONFLICTS = (
    "around",
    "before",
    "during",
    "schedule",
    "thread",
    "fork",
    "legacy",
    "nvtx",
    "lightning",
    "accelerate",
    "trainer",
    "graph",
    "compiled",
)
SCRIPT = Path(__file__).with_name("collect_conflicts.py")
ROOT = Path(__file__).parents[1]


def stopwatch_ms(step: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Mean step time of each round, the device waited for at both ends."""
    import torch

    times, steps = [], LEAST_STEPS
    for number in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / steps * 1e3)
        if number == 0:
            steps = max(LEAST_STEPS, int(ROUND_SECONDS * 1e3 / times[0]))
    return times[1:]


def capture(step: Callable[[], object], folder: Path) -> None:
    """A capture as `collect torch` makes it."""
    from traceanalyzer.collect.attach import Attached
    from traceanalyzer.collect.plan import Plan

    attached = Attached(Plan(folder=str(folder), active=3, wait=5))
    attached._finder.install()
    for _ in range(400):
        step()
        if attached._recorder.finished:
            break
    attached._finder.remove()


def profiled(step: Callable[[], object]) -> int:
    """Record three steps as a user would; the number of kernels recorded."""
    from torch.profiler import profile

    with tempfile.TemporaryDirectory() as folder:
        with profile() as profiler:
            for _ in range(3):
                step()
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return sum(event.get("cat") == "kernel" for event in events)


def events_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with gzip.open(path) as file:
        recording = json.load(file)
    return recording, [event for event in recording["traceEvents"] if event.get("ph") == "X"]


def steps_of(path: Path) -> dict[str, float]:
    """Step time, device busy and idle time of a step, ms: medians between the first device ops of steps."""
    recording, events = events_of(path)
    base = recording.get("baseTimeNanoseconds", 0)
    if "traceanalyzer_light" in recording:
        ends = [(ns - base) / 1e3 for ns in recording["traceanalyzer_light"]["step_ends_ns"]]
    else:
        steps = sorted(
            (e["ts"], e["dur"]) for e in events if e["name"].startswith("ProfilerStep#") and "gpu" not in e["cat"]
        )
        ends = [ts for ts, _ in steps] + [sum(steps[-1])]
    launched = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    work = sorted(
        (e["ts"], e["ts"] + e["dur"], launched.get(e["args"].get("correlation"), -1.0))
        for e in events
        if e["cat"] in DEVICE_WORK
    )
    firsts = [min((w[0] for w in work if a <= w[2] < b), default=None) for a, b in pairwise(ends)]
    windows = [(a, b) for a, b in pairwise(firsts) if a is not None and b is not None]
    busy = [_busy(work, *window) for window in windows]
    host = [b - a for a, b in pairwise(ends)]
    return {
        "steps": len(windows),
        "host_step_ms": statistics.median(host) / 1e3,
        "step_ms": statistics.median(b - a for a, b in windows) / 1e3,
        "busy_ms": statistics.median(busy) / 1e3,
        "busy_each_ms": [b / 1e3 for b in busy],
        "device_ops": len(work),
    }


def _busy(work: list[tuple[float, float, float]], begin: float, end: float) -> float:
    """Union of the device work inside a window."""
    total, reached = 0.0, begin
    for start, stop, _ in work:
        low, high = max(start, reached), min(stop, end)
        if high > low:
            total, reached = total + high - low, high
    return total


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Everything about one program."""
    import torch

    from benchmarks.ordinary_programs import PROGRAMS

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    step = PROGRAMS[name]()
    for _ in range(WARM_UP):
        step()
    found: dict[str, Any] = {"program": name, "before_ms": stopwatch_ms(step)}
    begin = time.perf_counter()
    capture(step, folder)
    found["capture_s"] = time.perf_counter() - begin
    found["after_ms"] = stopwatch_ms(step, 3)
    found["kernels_of_a_profile"] = profiled(step)
    found["after_a_profile_ms"] = stopwatch_ms(step, 3)
    found["unprofiled"] = json.loads((folder / "unprofiled.rank0.json").read_text())
    for kind in ("light", "trace"):
        file = folder / f"{kind}.rank0.json.gz"
        found[kind] = steps_of(file) if file.exists() else None
    return found


def basis(found: dict[str, Any]) -> dict[str, float]:
    """Idle shares of the step, by what they are taken from; `truth` by the stopwatch's step."""
    light, full, step = found["light"], found["trace"], statistics.median(found["before_ms"])
    unprofiled = found["unprofiled"]["step_time_ms"]
    return {
        "stopwatch_ms": step,
        "truth": 1 - light["busy_ms"] / step,
        "full": 1 - full["busy_ms"] / full["step_ms"],
        "light": 1 - light["busy_ms"] / light["step_ms"],
        "full_busy_over_unprofiled": 1 - full["busy_ms"] / unprofiled,
        "light_busy_over_unprofiled": 1 - light["busy_ms"] / unprofiled,
        "extrapolated_ms": 2 * light["step_ms"] - full["step_ms"],
    }


def run_program(name: str, captures: Path) -> dict[str, Any]:
    """Measure a program in a process of its own."""
    folder = captures / name
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.collect_light", "--program", name, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_A_PROGRAM, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return {"program": name, "failed": "timeout"}
    if done.returncode:
        return {"program": name, "failed": done.returncode, "stderr": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def conflicts(folder: Path) -> list[dict[str, Any]]:
    """Scripts with profilers of their own, plain and under the collector, side by side."""
    running = {}
    for mode in CONFLICTS:
        for plain in (True, False):
            own = folder / f"{mode}{'_plain' if plain else ''}"
            own.mkdir(parents=True)
            script = [str(SCRIPT), mode, str(own)]
            code = "from traceanalyzer.cli import main; main()"
            options = ["collect", "torch", "-o", str(own / "capture"), "--wait", "5", "--active", "30", "--"]
            command = [sys.executable, *(script if plain else ["-c", code, *options, sys.executable, *script])]
            running[mode, plain] = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            )
    rows = []
    for mode in CONFLICTS:
        outputs = {plain: running[mode, plain].communicate(timeout=150) for plain in (True, False)}
        own = folder / mode / "capture"
        rows.append({
            "mode": mode,
            "status": [running[mode, plain].returncode for plain in (True, False)],
            "same_output": outputs[True][0] == outputs[False][0],
            "output": [outputs[plain][0][-500:] for plain in (True, False)],
            "said": [line for line in outputs[False][1].splitlines() if line.startswith("traceanalyzer")],
            "stderr": outputs[False][1][-1500:] if running[mode, False].returncode else "",
            "plain_stderr": outputs[True][1][-800:] if running[mode, True].returncode else "",
            "files": sorted(file.name for file in own.glob("*")),
        })  # fmt: skip
    return rows


def pack(captures: Path, out: Path) -> None:
    """The captures in a few files, of about the same size."""
    folders = sorted((f for f in captures.iterdir() if f.is_dir()), key=_size, reverse=True)
    groups: list[list[Path]] = [[] for _ in range(PACKS)]
    for folder in folders:
        min(groups, key=lambda group: sum(map(_size, group))).append(folder)
    for number, group in enumerate(groups):
        with tarfile.open(out / f"captures{number}.tar", "w") as tar:
            for folder in group:
                for file in folder.iterdir():
                    if file.is_file():
                        tar.add(file, f"{folder.name}/{file.name}")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Measure, and print a line a program."""
    if sys.argv[1] == "--program":
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
        return
    from benchmarks.ordinary_programs import PROGRAMS

    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        captures = Path(name) / "captures"
        results = []
        for program in sys.argv[2:] or PROGRAMS:
            begin = time.perf_counter()
            found = run_program(program, captures)
            if "failed" not in found and found["light"] and found["trace"]:
                found["basis"] = basis(found)
            results.append(found)
            (out / "light.json").write_text(json.dumps({"programs": results}, indent=1))
            print(f"{time.perf_counter() - begin:5.1f} s", program, _line(found), flush=True)
        pack(captures, out)
        rows = conflicts(Path(name) / "conflicts")
        (out / "light.json").write_text(json.dumps({"programs": results, "conflicts": rows}, indent=1))
        for row in rows:
            print(
                row["mode"], row["status"], "same" if row["same_output"] else row["output"], row["said"], row["files"]
            )
            print(row["stderr"], row["plain_stderr"])


def _line(found: dict[str, Any]) -> str:
    if "failed" in found:
        return str(found)
    keys = ("before_ms", "after_ms", "after_a_profile_ms")
    times = " ".join(f"{key[:-3]} {statistics.median(found[key]):.2f}" for key in keys)
    kernels = found["kernels_of_a_profile"]
    shares = {key: round(value, 3) for key, value in found.get("basis", {}).items()}
    steady = {key: found["unprofiled"][key] for key in ("step_time_ms", "steady", "low_ms", "high_ms", "timed_steps")}
    return f"{times} kernels {kernels} {shares} {steady} light {found['light']} full {found['trace']}"


if __name__ == "__main__":
    main()
