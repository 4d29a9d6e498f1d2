"""What `collect torch` costs a step while it is attached and does not record: `python -m
benchmarks.collect_overhead`.

For a host with one GPU (without one it runs on the CPU, to show that it works). Short rounds
without and with the hooks alternate in one process, so that clocks and other tenants touch both
alike; the figure is the median over rounds of the ratio of neighbouring rounds, with the interval
that a bootstrap gives it. The clock of unprofiled steps is held against a stopwatch in the same
way, and then whole captures are, each right after rounds with a stopwatch. Exit status 1 if a bar
is missed.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.steps.step_clock import StepClock
from traceanalyzer.collect.steps.step_finder import StepFinder

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM_UP = 20
ROUNDS = 101
ROUND_SECONDS = 0.06
CAPTURES = 7
STOPWATCH_ROUNDS = 9
BOOTSTRAPS = 2000
NEVER = 10**12
"""Steps to wait: attached, and never recording."""

COST_BAR = 0.01
AGREEMENT_BAR = 0.02
UNPROFILED_STEPS = 100


@dataclass(frozen=True)
class Ratios:
    """Ratios of neighbouring measurements, in the order made."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        drawn = np.random.default_rng(0).choice(self.values, (BOOTSTRAPS, len(self.values)))
        low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
        return f"{self.median:.4f} ({low:.4f}-{high:.4f})"


@dataclass(frozen=True)
class Outcome:
    """Ratios are over plain steps."""

    workload: str
    plain_ms: float
    waiting: Ratios
    """Attached, waiting for its steps to come."""
    timing: Ratios
    """Steps while unprofiled steps are timed."""
    unprofiled: Ratios
    """Unprofiled step times, timed as a capture does, over the stopwatch's."""
    captured: Ratios
    """The same of whole captures. From the second on the process has been profiled before."""
    after: Ratios
    """The same process after it has recorded."""

    @property
    def passes(self) -> bool:
        return (
            self.waiting.median - 1 < COST_BAR and abs(self.unprofiled.median - 1) < AGREEMENT_BAR
        )


def launch_bound_training() -> Callable[[], object]:
    """30 small layers, batch 8: the host cannot launch as fast as the device runs."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(256, 256), nn.GELU())]
    return _training(nn.Sequential(*layers), torch.randn(8, 256))


def launch_bound_inference() -> Callable[[], object]:
    """The same network without gradients: steps are the calls of the outermost module."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(256, 256), nn.GELU())]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(8, 256, device=DEVICE)
    return torch.inference_mode()(lambda: model(x))


def compute_bound_training() -> Callable[[], object]:
    """Four wide layers: the device is the limit."""
    width = 8192 if DEVICE == "cuda" else 512
    layers = [nn.Linear(width, width) for _ in range(4)]
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    return _training(
        nn.Sequential(*layers).to(dtype),
        torch.randn(4096 if DEVICE == "cuda" else 64, width, dtype=dtype),
    )


def _training(model: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    model = model.to(DEVICE)
    x = x.to(DEVICE)
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


def alternate(step: Callable[[], object], steps: int, folder: str) -> tuple[list[float], Ratios]:
    """Plain round times, ms, and the ratios of attached rounds to the plain rounds before and after
    them."""
    attached = Attached(CapturePlan(folder=folder, wait=NEVER))
    plain = [stopwatch_ms(step, steps)]
    ratios = []
    for _ in range(ROUNDS):
        attached._finder.install()
        # the outermost module is settled
        for _ in range(5):
            step()
        with_hooks = stopwatch_ms(step, steps)
        attached._finder.remove()
        plain.append(stopwatch_ms(step, steps))
        ratios.append(with_hooks / statistics.fmean(plain[-2:]))
    return plain, Ratios(ratios)


def clock_against_stopwatch(step: Callable[[], object], steps: int) -> tuple[Ratios, Ratios]:
    """Ratios to the plain rounds before and after: of the step while timed, of the step time that
    was measured."""
    before = stopwatch_ms(step, steps)
    costs = []
    measured = []
    for _ in range(ROUNDS):
        timed_ms, step_time_ms = timed_round(step, steps)
        after = stopwatch_ms(step, steps)
        costs.append(timed_ms * 2 / (before + after))
        measured.append(step_time_ms * 2 / (before + after))
        before = after
    return Ratios(costs), Ratios(measured)


def timed_round(step: Callable[[], object], steps: int) -> tuple[float, float]:
    """Step times of one round: by the stopwatch around it, and as a capture would time them."""
    clock = StepClock(steps)

    def on_step() -> None:
        clock.lap()

    finder = StepFinder(on_step, lambda: None, lambda: None, lambda error: None)
    step()
    clock.start()
    finder.install()
    timed_ms = stopwatch_ms(step, steps)
    finder.remove()
    return timed_ms, float(clock.measured()["step_time_ms"])


def capture(step: Callable[[], object]) -> float:
    """Record a capture; its unprofiled step time."""
    with tempfile.TemporaryDirectory() as name:
        plan = CapturePlan(folder=name, wait=10, unprofiled_steps=UNPROFILED_STEPS)
        attached = Attached(plan)
        attached._finder.install()
        for _ in range(plan.steps_needed + 40):
            step()
        attached._finder.remove()
        return float(json.loads((Path(name) / "unprofiled.rank0.json").read_text())["step_time_ms"])


def capture_ratio(step: Callable[[], object]) -> float:
    """A capture's unprofiled step time over that of a stopwatch read just before."""
    stopwatch = statistics.median(
        stopwatch_ms(step, UNPROFILED_STEPS) for _ in range(STOPWATCH_ROUNDS // 3)
    )
    return capture(step) / stopwatch


def measure(make: Callable[[], Callable[[], object]]) -> Outcome:
    """Everything about one workload."""
    step = make()
    for _ in range(WARM_UP):
        step()
    steps = max(int(ROUND_SECONDS * 1e3 / stopwatch_ms(step, WARM_UP)), 5)
    with tempfile.TemporaryDirectory() as name:
        before, waiting = alternate(step, steps, name)
    plain = statistics.median(before)
    timing, unprofiled = clock_against_stopwatch(step, steps)
    captured = Ratios([capture_ratio(step) for _ in range(CAPTURES)])
    after = Ratios([stopwatch_ms(step, steps) / plain for _ in range(STOPWATCH_ROUNDS)])
    return Outcome(make.__name__, plain, waiting, timing, unprofiled, captured, after)


def main() -> None:
    """Measure and print a table, a line as soon as it is known."""
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU (no bar applies)"
    print(
        f"{name}, torch {torch.__version__}; {ROUNDS} pairs of rounds of {ROUND_SECONDS} s; median (95 % interval)"
    )
    print(
        f"{'workload':24} {'plain':>9} {'waiting':>23} {'timing':>23} {'unprofiled':>23} {'captured':>23} {'after':>23}"
    )
    passed = True
    for make in WORKLOADS:
        o = measure(make)
        passed &= o.passes
        columns = "".join(
            f" {ratios!s:>23}"
            for ratios in (o.waiting, o.timing, o.unprofiled, o.captured, o.after)
        )
        print(f"{o.workload:24} {o.plain_ms:6.3f} ms{columns}", flush=True)
    print(
        f"bars: waiting < {1 + COST_BAR}, unprofiled against the stopwatch within {AGREEMENT_BAR:.0%}"
    )
    if DEVICE == "cuda" and not passed:
        sys.exit(1)


if __name__ == "__main__":
    main()
