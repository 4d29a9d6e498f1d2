"""`traceanalyzer try` on programs whose remedy is known: is it found, and is the step that of the
fix made by hand?

    python -m benchmarks.tries record OUT [--minutes 8] [--only NAME,...]    # on the GPU host
    python -m benchmarks.tries score OUT...                                  # rows of docs/accuracy.md

`record` shares its time among the programs, one after another, or one a GPU where there are
several."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CASES = {
    "slow_loader": ("loader_workers",),
    "full_precision": ("tf32", "autocast_bf16"),
    "transformer_fp32": ("autocast_bf16",),
    "written_out_norms": ("compile", "compile_graphs"),
    "many_tensors": ("fused_optimizer", "compile_graphs"),
    "contiguous_images": ("channels_last",),
    "small_decoder": ("compile_graphs",),
    "pageable_batches": ("pinned_memory",),
    "odd_convolutions": ("cudnn_benchmark",),
    "short_epochs": ("persistent_workers",),
    "healthy": (),
    "trainer_bert": ("autocast_bf16", "tf32"),
    "lightning_augmented": ("loader_workers",),
    "timm_resnet": ("channels_last", "autocast_bf16"),
    "gan_two_optimizers": ("fused_optimizer", "foreach_optimizer"),
    "translator_clipped": ("compile_graphs", "compile"),
    "accumulated_and_read": ("deferred_reads",),
    "gru_cells": ("compile_graphs", "compile"),
    "unet": ("channels_last",),
    "tiny_samples": ("loader_workers",),
    "masked_attention": ("autocast_bf16", "tf32"),
    "vit_batch_by_batch": ("compile_graphs",),
    "healthy_decoder": (),
    "healthy_pictures": (),
}
"""Each program with the switches that are its remedy."""
STEP = re.compile(r"^step_ms ([\d.]+)$", re.MULTILINE)
RIGHT = 0.05
"""The best combination may be so much slower than the fix made by hand; faster it may be."""
STOPWATCH_PATIENCE_S = 240


class Case(NamedTuple):
    name: str
    known: tuple[str, ...]
    base_ms: float | None
    fixed_ms: float | None
    found: dict[str, Any]

    @property
    def best_ms(self) -> float | None:
        """Step with what was found, as the trials timed it; the stopwatch's base without."""
        best = self.found.get("best_step")
        return best["ms"] if best else self.base_ms

    @property
    def right(self) -> bool:
        if not self.base_ms or not self.fixed_ms or not self.best_ms or not self.found:
            return False
        target = min(self.fixed_ms, self.base_ms) if self.known else self.base_ms
        return self.best_ms <= target * (1 + RIGHT)


def stopwatch(name: str, environment: dict[str, str], *words: str) -> float | None:
    command = [sys.executable, "-m", f"benchmarks.try_cases.{name}", *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=STOPWATCH_PATIENCE_S,
        check=False,
    )
    read = STEP.search(done.stdout)
    return float(read[1]) if read else None


def record_one(name: str, out: Path, gpu: str | None, ends: float, left: int) -> None:
    """Time the program and its fix, then try it in its share of the time that is left."""
    environment = dict(os.environ)
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    share_ends = time.monotonic() + (ends - time.monotonic()) / left
    base_ms = stopwatch(name, environment)
    fixed_ms = stopwatch(name, environment, "fix")
    budget_s = max(share_ends - time.monotonic(), 20.0)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier recording
    command = [
        *(sys.executable, "-m", "traceanalyzer", "try"),
        *("--budget", f"{budget_s:.0f}s", "-C", str(folder), "-o", str(out / f"{name}.md")),
        *("--", sys.executable, "-m", f"benchmarks.try_cases.{name}"),
    ]
    with (out / f"{name}.txt").open("w") as log:
        try:
            subprocess.run(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment,
                timeout=budget_s + STOPWATCH_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            log.write("it did not end in time\n")
    times = {"name": name, "base_ms": base_ms, "fixed_ms": fixed_ms, "budget_s": budget_s}
    (out / f"{name}.json").write_text(json.dumps(times))
    print(json.dumps(times), flush=True)


def record(out: Path, minutes: float, only: list[str]) -> None:
    import torch

    out.mkdir(parents=True, exist_ok=True)
    names = [name for name in CASES if not only or name in only]
    found = [str(number) for number in range(torch.cuda.device_count())]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus: Queue[str | None] = Queue()
    for each in visible.split(",") if visible else found:
        gpus.put(each)
    if gpus.empty():
        gpus.put(None)
    count = gpus.qsize()
    ends = time.monotonic() + 60 * minutes

    def one(at: int) -> None:
        gpu = gpus.get()
        try:
            record_one(names[at], out, gpu, ends, -(-(len(names) - at) // count))
        finally:
            gpus.put(gpu)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, range(len(names))))
    print(score(out))


def cases(out: Path) -> Iterator[Case]:
    for name, known in CASES.items():
        timed = out / f"{name}.json"
        tried = out / name / "try.json"
        if timed.exists():
            times = json.loads(timed.read_text())
            found = json.loads(tried.read_text())["trials"] if tried.exists() else {}
            yield Case(name, known, times["base_ms"], times["fixed_ms"], found)


def score(out: Path) -> str:
    """The table of docs/accuracy.md."""
    found = list(cases(out))
    lines = ["| program | base → fix, ms | found | step, ms | right |", "|---|---|---|---|---|"]
    for case in found:
        best = ", ".join(case.found.get("best", [])) or "-"
        figures = [case.base_ms, case.fixed_ms, case.best_ms]
        base, fixed, step = (f"{value:.3g}" if value else "?" for value in figures)
        right = "yes" if case.right else "**no**"
        lines.append(f"| {case.name} | {base} → {fixed} | {best} | {step} | {right} |")
    right = sum(case.right for case in found)
    lines.append(f"\n{right} of {len(found)} within {RIGHT:.0%} of the fix made by hand.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "score"))
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if given.what == "record":
        record(
            given.out[0].absolute(), given.minutes, [one for one in given.only.split(",") if one]
        )
    else:
        for out in given.out:
            print(f"{out.name}:\n\n{score(out)}\n")


if __name__ == "__main__":
    main()
