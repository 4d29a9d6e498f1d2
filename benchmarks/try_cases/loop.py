"""What the programs share: a device, and a loop that times its steps."""

from __future__ import annotations

import statistics
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

FIXED = "fix" in sys.argv[1:]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = DEVICE == "cpu"
"""On a CPU the programs are a dry run, with little work."""
STEPS = 160
WARM = 20
SETTLED = 10  # steps that a reading of the stopwatch is taken over


def sized(large: int, small: int) -> int:
    return small if SMALL else large


class Stopwatch:
    """Reads the time between steps, where a library has the loop."""

    def __init__(self) -> None:
        self.number = 0
        self.readings: list[float] = []

    def before_step(self) -> None:
        if self.number >= WARM and self.number % SETTLED == 0:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            self.readings.append(time.perf_counter())
        self.number += 1

    def tell(self) -> None:
        """Print the median of the readings, ms a step."""
        times = [(b - a) / SETTLED * 1e3 for a, b in pairwise(self.readings)]
        print(f"step_ms {statistics.median(times):.4f}")


def run(step: Callable[[], object], steps: int = STEPS) -> None:
    """Run the steps and print the median of the stopwatch's readings, ms a step."""
    stopwatch = Stopwatch()
    for _ in range(steps):
        stopwatch.before_step()
        step()
    stopwatch.tell()
