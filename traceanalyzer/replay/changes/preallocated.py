"""A cache of its final size: what is new in a step is written into it, and the rest stays where it
is."""

from dataclasses import replace

import numpy as np

from traceanalyzer.replay.patterns.growing_joins import growing_joins
from traceanalyzer.replay.tape import Tape, parametric

LEAST_KERNEL_NS = 1_500  # a kernel takes at least this long, whatever it does
SLOW_WRITE = 2.0  # times as long for an element as in one large copy: it is written in pieces


@parametric
def preallocated(tape: Tape, times: float = 1.0) -> Tape | None:
    """Joins that grow from step to step copy what is new alone, `times` as long for each element;
    None without any."""
    shares = tape.memo(growing_joins)
    grows = np.isfinite(shares)
    if not grows.any():
        return None
    kept = np.minimum(np.where(grows, shares, 1.0) * times, 1.0)
    least = np.minimum(tape.duration, LEAST_KERNEL_NS)
    new = np.maximum(np.rint(tape.duration * kept).astype(np.int64), least)
    duration = np.where(grows, new, tape.duration)
    return replace(tape, duration=duration, alone=np.where(grows, duration, tape.alone))
