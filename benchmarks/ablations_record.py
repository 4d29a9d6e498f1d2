"""Records pairs of runs that differ in one thing, each also timed without a profiler.

    python -m benchmarks.ablations_record OUT                                      one GPU
    torchrun --standalone --nproc-per-node=2 -m benchmarks.ablations_record OUT    two GPUs

(`--set ranks_scenarios`, and `--set four_ranks --plain` on four GPUs: others)

`OUT/NAME.base`, `NAME.base.syncevents` (CUDA sync events), `NAME.base.stacks` (Python stacks, where
that is asked for) and `NAME.without`, each `.json.gz` or `.rank{N}.json.gz`, and
`OUT/manifest.json` with the step times: base and without are timed in turn, in rounds, so that a
host that slows down slows both.
"""

import argparse
import gc
import gzip
import json
import re
import statistics
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from benchmarks.pairs.one import RANK, WORLD, synchronize
from benchmarks.pairs.program import DEVICE, Pair, Step
from benchmarks.pairs.sets import programs

ROUNDS = 7
ROUND_SECONDS = 0.15
WARMUP_STEPS = 12
STACKS = frozenset({"sync_loss", "python_exposed", "optimizer_fused"})
"""Recorded with Python stacks, too, and without shapes: what those cost."""
_SCRUB = (re.compile(r',\s*"traceName": "[^"]*"'), re.compile(r'"(?:/[^"/]+)+/([^"/]+\.(?:py|so))'))


def together() -> None:
    """All ranks, their devices idle."""
    synchronize()
    if WORLD > 1:
        torch.distributed.barrier()
        synchronize()


def step_ms(step: Step, count: int) -> float:
    """Mean time of `count` steps, ms."""
    together()
    start = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter() - start) * 1000 / count


def slowest(value: float) -> float:
    if WORLD == 1:
        return value
    tensor = torch.tensor([value], device=DEVICE)
    torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX)
    return float(tensor.item())


def timed(steps: dict[str, Step]) -> dict[str, list[float]]:
    """Step times of each, in rounds that take turns, ms."""
    counts = {}
    for name, step in steps.items():
        step_ms(step, WARMUP_STEPS)
        counts[name] = max(5, int(ROUND_SECONDS * 1000 / slowest(step_ms(step, 5))))
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            rounds[name].append(round(slowest(step_ms(step, counts[name])), 4))
    return rounds


def recorded(step: Step, file: Path, events: bool = False, **options: Any) -> None:
    """Four steps as torch.profiler records them, after two that warm it up."""
    config = (
        torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True) if events else None
    )
    together()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=2, active=4, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(file)),
        experimental_config=config,
        **{"record_shapes": True, **options},
    ) as profiler:
        for _ in range(7):
            step()
            profiler.step()
    text = file.read_text()
    for pattern, by in zip(_SCRUB, ("", r'"\1'), strict=True):
        text = pattern.sub(by, text)
    file.with_suffix(".json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    file.unlink()


def record(pair: Pair, out: Path, *, plain: bool) -> dict[str, dict[str, Any]]:
    """Time and record a pair; its entries of the manifest. `plain`: without the recording of sync
    events."""
    name = pair.name
    (removes, scenario) = pair.ablation
    torch.manual_seed(0)
    base = pair.make(False)
    without = pair.make(True)
    rounds = timed({"base": base, "without": without})
    suffix = f".rank{RANK}" if WORLD > 1 else ""
    recorded(base, out / f"{name}.base{suffix}.json")
    if not plain:
        recorded(base, out / f"{name}.base.syncevents{suffix}.json", events=True)
    recorded(without, out / f"{name}.without{suffix}.json")
    if name in STACKS:
        recorded(base, out / f"{name}.base.stacks{suffix}.json", with_stack=True)
        recorded(base, out / f"{name}.base.noshapes{suffix}.json", record_shapes=False)
    return {
        f"{name}.{variant}": {
            "removes": removes,
            "scenario": scenario,
            "world": WORLD,
            "step_ms_unprofiled": statistics.median(times),
            "rounds_ms": times,
        }
        for variant, times in rounds.items()
    }


def main() -> None:
    """Record the pairs that need as many GPUs as there are ranks (or those named)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", default="ranks_ablations" if WORLD > 1 else "ablations")
    parser.add_argument("--plain", action="store_true", help="no recordings of sync events")
    options = parser.parse_intermixed_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    if DEVICE == "cuda":
        torch.cuda.set_device(RANK)
    if WORLD > 1:
        device = torch.device("cuda", RANK) if DEVICE == "cuda" else None
        torch.distributed.init_process_group("nccl" if device else "gloo", device_id=device)
    manifest = out / "manifest.json"
    cases = json.loads(manifest.read_text())["cases"] if manifest.exists() else {}
    about = {
        "gpu": torch.cuda.get_device_name() if DEVICE == "cuda" else "none",
        "torch": torch.__version__,
    }
    for pair in programs(options.set):
        if options.names and pair.name not in options.names:
            continue
        began = time.perf_counter()
        try:
            cases |= record(pair, out, plain=options.plain)
        except Exception:  # one workload that fails leaves the others
            traceback.print_exc()
        gc.collect()
        if RANK == 0:
            print(
                f"{pair.name}: {time.perf_counter() - began:.1f} s",
                cases.get(f"{pair.name}.base"),
                flush=True,
            )
            manifest.write_text(json.dumps({**about, "cases": cases}, indent=1) + "\n")
    if WORLD > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
