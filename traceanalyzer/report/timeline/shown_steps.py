"""Which steps a page draws event by event, and from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.steps import Steps


def representative(steps: Steps) -> int:
    """Index (among `steps`) of the steady step whose time is closest to the median."""
    time = steps.duration[steps.steady]
    return steps.warmup + int(np.abs(time - np.median(time)).argmin())


def shown_steps(steps: Steps) -> dict[int, str]:
    """The index of each, and which it is: the representative one first, then the slowest and the fastest steady one."""
    shown = {representative(steps): "median"}
    if steps.found:
        time = steps.duration[steps.steady]
        for which, found in (("slowest", time.argmax()), ("fastest", time.argmin())):
            shown.setdefault(steps.warmup + int(found), which)
    return shown


def extent_of(steps: Steps, step: int) -> tuple[int, int]:
    """When the host or the device begins with a step, and when both are done, ns."""
    return (
        min(int(steps.start[step]), int(steps.host_start[step])),
        max(int(steps.end[step]), int(steps.host_end[step])),
    )
