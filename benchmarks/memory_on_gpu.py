"""Peaks predicted before they are measured, what the collector's snapshot costs, and failures: on a GPU, in one run.

    python -m benchmarks.memory_on_gpu OUT

Writes `memory.json` and `memory.tar` (snapshots, captures) to OUT, as far as the time goes: LIMIT seconds. Each family
of programs runs in a process of its own: its base with the allocator's history, then its variants without. The
predictions are made afterwards, from the snapshots alone: `python -m benchmarks.memory_accuracy OUT`.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LIMIT = 225
"""Seconds for all of it."""
AT_ONCE = 4
STEPS = 6
ROUNDS, ROUND_SECONDS = 12, 0.25
MIB = 1 << 20
ROOT = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("memory_programs.py")

SLIM = {"batch": 1, "length": 256, "width": 1536, "layers": 10, "amp": None}
FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = {
    "amp": ("gpt", {"optimizer": "fused"}, {
        "chunked-loss": {"chunks": 8}, "checkpoint": {"again": True},
        "batch-x2": {"batch": 16}, "batch-x0.5": {"batch": 4},
    }),
    "slim": ("gpt", {**SLIM, "optimizer": "foreach"}, {"fused-optimizer": {"optimizer": "fused"}}),
    "states": ("gpt", {**SLIM, "optimizer": "ranks1"}, {
        "bf16-states": {"optimizer": "bf16"}, "shard-optimizer-8": {"optimizer": "ranks8"},
    }),
    "kept": ("gpt", {"set_to_none": False, "optimizer": "fused"}, {"set-to-none": {"set_to_none": True}}),
    "accumulated": ("accumulated", {"optimizer": "fused"}, {"batch-x2": {"batch": 16}, "checkpoint": {"again": True}}),
    "lora": ("lora", {}, {"batch-x2": {"batch": 8}, "checkpoint": {"again": True}}),
    "conv": ("conv", {}, {"batch-x2": {"batch": 128}, "batch-x0.5": {"batch": 32}}),
    "generate": ("generate", {}, {"batch-x2": {"batch": 64}}),
    "small_gpt": ("small_gpt", {}, {"batch-x2": {"batch": 4}}),
    "fsdp": ("fsdp", {}, {}),
    "varied": ("gpt", {"varied": True, "optimizer": "fused"}, {}),
}  # fmt: skip
"""Program, its options, and variants: a scenario's name and the options that are its change."""
COLLECTED = ("gpt", "small_gpt", "generate")


def measured_steps(program: Any) -> dict[str, Any]:
    """Peaks of every phase of every step, and what is allocated after each."""
    import torch

    peaks: dict[str, list[int]] = {}
    after = []
    for _ in range(STEPS):
        of_step: dict[str, int] = {}
        for phase, run in program.phases:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            run()
            torch.cuda.synchronize()
            of_step[phase] = max(of_step.get(phase, 0), torch.cuda.max_memory_allocated())
        for phase, peak in of_step.items():
            peaks.setdefault(phase, []).append(peak)
        after.append(torch.cuda.memory_allocated())
    return {"peak": max(map(max, peaks.values())), "phase_peaks": peaks, "allocated_after_step": after}


def made(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """A program made, run and thrown away."""
    import torch

    from benchmarks.memory_programs import PROGRAMS

    before = torch.cuda.memory_allocated()
    program = PROGRAMS[kind](**options)
    truth = {"before": before, "after_setup": torch.cuda.memory_allocated(), **measured_steps(program)}
    truth["parameters"] = sum(p.numel() * p.element_size() for p in program.model.parameters())
    states = program.optimizer.state.values() if program.optimizer else []
    kept = [t for state in states for t in state.values() if torch.is_tensor(t) and t.is_cuda]
    truth["optimizer_state"] = sum(t.numel() * t.element_size() for t in kept)
    truth["reserved"] = torch.cuda.max_memory_reserved()
    return truth


def run_family(name: str, folder: str) -> dict[str, Any]:
    """The base with its history, then the variants."""
    import torch

    kind, options, variants = FAMILIES[name]
    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=400_000)
    result: dict[str, Any] = {"base": made(kind, options)}
    write_snapshot(f"{folder}/{name}.snapshot.pickle.gz")
    torch.cuda.memory._record_memory_history(enabled=None)
    for scenario, change in variants.items():
        gc.collect()
        torch.cuda.empty_cache()
        result[scenario] = made(kind, {**options, **change})
    return result


def write_snapshot(path: str) -> None:
    import torch

    raw = Path(path).with_suffix("")
    torch.cuda.memory._dump_snapshot(str(raw))
    Path(path).write_bytes(gzip.compress(raw.read_bytes(), 6))
    raw.unlink()


def run_varied(_: str) -> dict[str, Any]:
    """What is reserved for sequences of many lengths, under the settings of the environment."""
    return made(*FAMILIES["varied"][:2])


def run_fragmented(folder: str) -> dict[str, Any]:
    """Work of growing size, a result of each kept: every result pins the segment of the work before it."""
    import torch

    torch.cuda.set_per_process_memory_fraction(4096 * MIB / torch.cuda.get_device_properties(0).total_memory)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=400_000)
    kept: list[Any] = []
    try:
        for i in range(60):
            work = torch.empty((64 + 2 * i) * MIB, dtype=torch.uint8, device="cuda")
            del work
            kept.append(torch.empty(40 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        write_snapshot(f"{folder}/fragmented.snapshot.pickle.gz")
        return {"failed": True, "kept": len(kept), "message": str(error)[:400]}
    return {"failed": False, "kept": len(kept), "reserved": torch.cuda.memory_reserved()}


def run_cost(folder: str) -> dict[str, Any]:
    """Steps with the collector's history and without, in turns, and what writing it takes."""
    import torch
    from traceanalyzer.collect.memory_history import MemoryHistory

    from benchmarks.memory_programs import PROGRAMS

    result = {}
    for name in COLLECTED:
        program = PROGRAMS[name]()
        history = MemoryHistory(lambda: Path(folder) / "oom.pickle")
        for _ in range(10):
            program.step()
        steps = max(3, int(ROUND_SECONDS * 1e3 / timed(program, 5)))
        times: dict[str, list[float]] = {"without": [], "with": []}
        for turn in range(ROUNDS):
            for kind in ("without", "with") if turn % 2 else ("with", "without"):
                if kind == "with":
                    history.begin()
                times[kind].append(round(timed(program, steps), 4))
                if kind == "with" and turn < ROUNDS - 1:
                    history.pause()
        ratios = [a / b for a, b in zip(times["with"], times["without"], strict=True)]
        history.begin()
        timed(program, steps)
        begun, path = time.perf_counter(), Path(folder) / f"cost_{name}.pickle"
        history.write(path)
        result[name] = {
            **times, "steps_a_round": steps, "ratio": round(statistics.median(ratios), 4),
            "ratios": [round(r, 4) for r in sorted(ratios)],
            "write_ms": round((time.perf_counter() - begun) * 1e3, 1),
            "snapshot_bytes": path.stat().st_size if path.exists() else None,
        }  # fmt: skip
        path.unlink(missing_ok=True)
        del program
        gc.collect()
        torch.cuda.empty_cache()
    return result


def timed(program: Any, steps: int) -> float:
    """Milliseconds a step."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        program.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps * 1e3


def collect(name: str, folder: Path, *options: str, steps: int = 160) -> dict[str, Any]:
    """`collect torch --memory-snapshot` on a program: its status and what it wrote."""
    target = folder / f"capture_{name}"
    command = [sys.executable, "-m", "traceanalyzer", "collect", "torch", "--memory-snapshot", "-o", str(target)]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, *options, "--", str(PROGRAM), name, str(steps)],
        env=with_root(), capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    files = {file.name: file.stat().st_size for file in sorted(target.glob("*"))}
    for file in target.glob("*.pickle"):
        file.with_suffix(".pickle.gz").write_bytes(gzip.compress(file.read_bytes(), 6))
        file.unlink()
    return {
        "status": done.returncode,
        "s": round(time.monotonic() - begun, 1),
        "files": files,
        "said": done.stderr[-900:],
    }


def with_root(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **more}


MODES = {"family": run_family, "varied": run_varied, "fragmented": run_fragmented, "cost": run_cost}


def child(*arguments: str, **environment: str) -> dict[str, Any]:
    """What a mode of this file printed, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory_on_gpu", "--mode", *arguments],
            env=with_root(**environment), capture_output=True, text=True, timeout=LIMIT, check=False, cwd=ROOT,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": "too slow"}
    except (IndexError, ValueError):
        return {"error": done.stderr[-1500:]}
    return found


def main(out: Path) -> None:
    import torch

    scratch = out / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    truth: dict[str, Any] = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0)}

    def keep(name: str, value: Any) -> None:
        truth[name] = value
        print(f"{time.monotonic() - begun:5.0f} s  {name}: {json.dumps(value)[:260]}", flush=True)
        (out / "memory.json").write_text(json.dumps(truth, indent=1))

    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    keep("cost", child("cost", str(scratch)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {f"family {name}": pool.submit(child, "family", name, str(scratch)) for name in FAMILIES}
        jobs["fragmented"] = pool.submit(child, "fragmented", str(scratch))
        jobs["fragmented expandable"] = pool.submit(child, "fragmented", str(scratch), **expandable)
        jobs["varied expandable"] = pool.submit(child, "varied", str(scratch), **expandable)
        jobs["collect out_of_memory"] = pool.submit(collect, "out_of_memory", scratch, "--wait", "1000", steps=400)
        for name, job in jobs.items():
            keep(name, job.result())
    for name in COLLECTED:
        if time.monotonic() - begun < LIMIT - 45:
            keep(f"collect {name}", collect(name, scratch))
    keep("seconds", round(time.monotonic() - begun, 1))
    with tarfile.open(out / "memory.tar", "w") as tar:
        for file in sorted(scratch.rglob("*.gz")) + sorted(scratch.rglob("*.json*")):
            if str(file.relative_to(scratch)) not in tar.getnames():
                tar.add(file, str(file.relative_to(scratch)))
    for file in sorted(scratch.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    scratch.rmdir()


if __name__ == "__main__":
    if sys.argv[1] == "--mode":
        print(json.dumps(MODES[sys.argv[2]](*sys.argv[3:])))
    else:
        main(Path(sys.argv[1]))
