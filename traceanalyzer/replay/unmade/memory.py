"""The peak of GPU memory at other sizes: what is there all the time stays, what comes and goes
within a step goes with them."""

import numpy as np

from traceanalyzer.analysis.memory.stats import MemoryStats
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.work import Loads


@dataclass(frozen=True)
class Levels:
    """Bytes allocated on the GPU that holds the most: all the time, and at most in the passes that
    go with the sizes and in the optimizer, which does not."""

    always: int
    passes: int
    optimizer: int


def levels_of(timed: Timed, stats: MemoryStats | None) -> Levels | None:
    """The levels of the recorded steps; None where the allocator's totals were not recorded."""
    events = timed.trace.memory_events
    if stats is None or stats.peak is None:
        return None
    counted = (events.device >= 0) & (events.allocated >= 0)
    if not counted.any():
        return None
    device = events.device[counted][events.allocated[counted].argmax()]
    allocated = events.allocated[counted & (events.device == device)]
    passes = max((stats.forward or 0, stats.backward or 0, stats.other or 0))
    return Levels(int(allocated.min()), passes or stats.peak, stats.optimizer or 0)


def peak_bytes(levels: Levels, growth: float) -> int:
    """The peak where what comes and goes is so many times as much."""
    beyond = max(levels.passes - levels.always, 0)
    return max(round(levels.always + beyond * growth), levels.optimizer)


def growth_of_kept(tape: Tape, loads: Loads) -> float:
    """How many times as much a forward pass keeps: its operators by the bytes that they move."""
    counted = tape.compute & ~tape.in_backward & ~tape.in_optimizer & np.isfinite(loads.now.bytes)
    now = float(np.nansum(loads.now.bytes[counted]))
    return float(np.nansum(loads.then.bytes[counted])) / now if now else 1.0
