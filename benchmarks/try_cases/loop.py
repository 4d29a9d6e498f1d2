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


def run(step: Callable[[], object], steps: int = STEPS) -> None:
    """Run the steps and print the median of the stopwatch's readings, ms a step."""
    readings = []
    for number in range(steps):
        if number >= WARM and number % SETTLED == 0:
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            readings.append(time.perf_counter())
        step()
    times = [(b - a) / SETTLED * 1e3 for a, b in pairwise(readings)]
    print(f"step_ms {statistics.median(times):.4f}")
