"""What `collect torch` costs a step while it is attached and does not record: `python -m benchmarks.collect_overhead`.

For a host with one GPU (without one it runs on the CPU, to show that it works). Rounds without and with the hooks
alternate in one process, so that clocks and other tenants touch both alike; the figure is the median over rounds of
the ratio of neighbouring rounds. Then a capture is made, and its unprofiled step time is held against the stopwatch
of the plain rounds. Exit status 1 if a bar is missed.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM_UP, ROUNDS, ROUND_SECONDS = 20, 21, 0.4
NEVER = 10**12
"""Steps to wait: attached, and never recording."""

COST_BAR = 0.01
AGREEMENT_BAR = 0.02
UNPROFILED_STEPS = 100


@dataclass(frozen=True)
class Outcome:
    """Ratios are over plain steps; times in ms."""

    workload: str
    plain_ms: float
    waiting_ratio: float
    """Attached, waiting for its steps to come."""
    timing_ratio: float
    """Attached, timing unprofiled steps."""
    unprofiled_ms: float
    unprofiled_ratio: float
    after_ratio: float
    """The same process after it has recorded."""

    @property
    def passes(self) -> bool:
        return self.waiting_ratio - 1 < COST_BAR and abs(self.unprofiled_ratio - 1) < AGREEMENT_BAR


def launch_bound_training() -> Callable[[], object]:
    """30 small layers, batch 8: the host cannot launch as fast as the device runs."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(256, 256), nn.GELU())]
    return _training(nn.Sequential(*layers), torch.randn(8, 256))


def launch_bound_inference() -> Callable[[], object]:
    """The same network without gradients: steps are the calls of the outermost module."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(256, 256), nn.GELU())]
    model, x = nn.Sequential(*layers).to(DEVICE), torch.randn(8, 256, device=DEVICE)
    return torch.inference_mode()(lambda: model(x))


def compute_bound_training() -> Callable[[], object]:
    """Four wide layers: the device is the limit."""
    width = 8192 if DEVICE == "cuda" else 512
    layers = [nn.Linear(width, width) for _ in range(4)]
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    return _training(
        nn.Sequential(*layers).to(dtype), torch.randn(4096 if DEVICE == "cuda" else 64, width, dtype=dtype)
    )


def _training(model: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    model, x = model.to(DEVICE), x.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


WORKLOADS = (launch_bound_training, launch_bound_inference, compute_bound_training)


def stopwatch_ms(step: Callable[[], object], steps: int) -> float:
    """Mean step time, the device waited for at both ends."""
    _synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    _synchronize()
    return (time.perf_counter() - begin) / steps * 1e3


def _synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def alternate(step: Callable[[], object], steps: int, plan: Plan) -> tuple[list[float], float]:
    """Plain round times, and the median ratio of attached rounds to the plain rounds before and after them."""
    attached = Attached(plan)
    plain, ratios = [stopwatch_ms(step, steps)], []
    for _ in range(ROUNDS):
        attached._finder.install()
        # the outermost module is settled and the clock's events are made
        for _ in range(5):
            step()
        with_hooks = stopwatch_ms(step, steps)
        attached._finder.remove()
        plain.append(stopwatch_ms(step, steps))
        ratios.append(with_hooks / statistics.fmean(plain[-2:]))
    return plain, statistics.median(ratios)


def capture(step: Callable[[], object], folder: Path) -> float:
    """Record a capture; its unprofiled step time."""
    plan = Plan(folder=str(folder), wait=10, unprofiled_steps=UNPROFILED_STEPS)
    attached = Attached(plan)
    attached._finder.install()
    for _ in range(plan.steps_needed + 40):
        step()
    attached._finder.remove()
    return float(json.loads((folder / "unprofiled.rank0.json").read_text())["step_time_ms"])


def measure(make: Callable[[], Callable[[], object]]) -> Outcome:
    """Everything about one workload."""
    step = make()
    for _ in range(WARM_UP):
        step()
    steps = max(int(ROUND_SECONDS * 1e3 / stopwatch_ms(step, WARM_UP)), 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before, waiting = alternate(step, steps, Plan(folder=name, wait=NEVER))
        _, timing = alternate(step, steps, Plan(folder=name, wait=1, unprofiled_steps=2 * ROUNDS * (steps + 5)))
        unprofiled = capture(step, folder)
        after = statistics.median(stopwatch_ms(step, steps) for _ in range(ROUNDS))
    plain = statistics.median(before)
    return Outcome(make.__name__, plain, waiting, timing, unprofiled, unprofiled / plain, after / plain)


def main() -> None:
    """Measure and print a table."""
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU (no bar applies)"
    print(f"{name}, torch {torch.__version__}; {ROUNDS} pairs of rounds of {ROUND_SECONDS} s")
    print(f"{'workload':24} {'plain':>9} {'waiting':>9} {'timing':>9} {'unprofiled':>11} {'against':>9} {'after':>9}")
    outcomes = [measure(make) for make in WORKLOADS]
    for o in outcomes:
        print(
            f"{o.workload:24} {o.plain_ms:6.3f} ms {o.waiting_ratio:9.4f} {o.timing_ratio:9.4f}"
            f" {o.unprofiled_ms:8.3f} ms {o.unprofiled_ratio:9.4f} {o.after_ratio:9.4f}"
        )
    print(f"bars: waiting < {1 + COST_BAR}, unprofiled against the stopwatch within {AGREEMENT_BAR:.0%}")
    if DEVICE == "cuda" and not all(outcome.passes for outcome in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
