"""Repetition within a step (or a recording without steps): layers, micro-batches, tokens. Told, never called a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.time.periods import find_period
from traceanalyzer.figures import metric, ms

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.timed import Timed

MIN_SHARE = 0.3
"""Repetition that fills less of the step tells little of it."""
MIN_COUNT = 4


@dataclass(frozen=True)
class Repeats:
    """Device work that repeats within one step."""

    count: int = metric("how often the sequence of device ops repeats within the step")
    mean_ms: float = metric("mean time from the begin of one repetition to that of the next", "ms")
    ops: int = metric("device ops of one repetition")
    share: float = metric("share of the step that they fill", "share")


def repeats(timed: Timed) -> Repeats | None:
    """What repeats within the longest of the first few steady steps; None where nothing does, or where the steps
    themselves are known from nothing but repetition."""
    steps, ops = timed.steps, timed.trace.device_ops
    if timed.device is None or steps.source == "periodicity":
        return None
    index = steps.warmup + int(steps.duration[steps.steady].argmax())
    rows = np.flatnonzero((steps.of_op == index) & (ops.device == timed.device))
    found = find_period(timed, rows, whole=False) if len(rows) else None
    if found is None or found.count < MIN_COUNT:
        return None
    begin = ops.start[rows[found.bounds[:-1]]]
    length = int(ops.end[rows[: found.bounds[-1]]].max()) - int(begin[0])
    share = length / int(steps.duration[index]) if steps.duration[index] else 0.0
    if share < MIN_SHARE:
        return None
    return Repeats(found.count, ms(length / found.count), int(found.bounds[1] - found.bounds[0]), min(share, 1.0))
