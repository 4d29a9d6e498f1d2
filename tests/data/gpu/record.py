"""Records these traces on a GPU host, with what `key_averages()` says of them:
`PYTHONPATH=sample_traces python tests/data/gpu/record.py OUTPUT [NAME...]`.

Each workload has one deliberate bottleneck. It is timed first without a profiler (median of five
rounds of 20 steps), then recorded with torch.profiler (4 active steps). `manifest.json` keeps the
times.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
STEPS = 20
STACKS = {"sync_bound", "host_bound"}
MEMORY = {"compiled"}
RECORDED = (
    "launch_bound",
    "cuda_graph",
    "sync_bound",
    "input_bound",
    "host_bound",
    "compute_bound",
    "memory_bound",
    "transfer_bound",
    "compiled",
)


def unprofiled_ms(step: Callable[[], object]) -> list[float]:
    """Mean step time of each round, ms."""
    for _ in range(10):
        step()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / STEPS * 1e3)
    return rounds


def without_paths(trace: bytes) -> bytes:
    """The trace without its own path and the folders of source files, which say where it was
    recorded."""
    trace = re.sub(rb',\s*"traceName": "[^"]*"', b"", trace)
    return re.sub(rb'"(?:/[^"/]+)+/([^"/]+\.py)', rb'"\1', trace)


def record(name: str, step: Callable[[], object], folder: Path) -> None:
    """Write NAME.json.gz and what the profiler itself says of it, NAME.key_averages.json."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=2, active=4),
        record_shapes=True,
        with_stack=name in STACKS,
        profile_memory=name in MEMORY,
    ) as recording:
        for _ in range(7):
            step()
            recording.step()
        torch.cuda.synchronize()
    plain = folder / f"{name}.json"
    recording.export_chrome_trace(str(plain))
    (folder / f"{name}.json.gz").write_bytes(
        gzip.compress(without_paths(plain.read_bytes()), mtime=0)
    )
    plain.unlink()
    rows = [
        {
            "name": e.key,
            "count": e.count,
            "cpu_us": e.cpu_time_total,
            "self_cpu_us": e.self_cpu_time_total,
            "device_us": e.device_time_total,
            "self_device_us": e.self_device_time_total,
        }
        for e in recording.key_averages()
    ]
    (folder / f"{name}.key_averages.json").write_text(json.dumps(rows))


def main() -> None:
    """Time and record the named workloads, or all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name in sys.argv[2:] or RECORDED:
        torch.manual_seed(0)
        step = WORKLOADS[name]()
        rounds = unprofiled_ms(step)
        record(name, step, folder)
        manifest[name] = {
            "workload": WORKLOADS[name].__doc__,
            "step_ms_unprofiled": round(statistics.median(rounds), 4),
            "rounds_ms": [round(r, 4) for r in rounds],
        }
        print(name, manifest[name]["step_ms_unprofiled"], flush=True)
    manifest["recorded_on"] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
