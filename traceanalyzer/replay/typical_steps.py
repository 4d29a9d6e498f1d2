"""Which steps of a recording a tape holds: steady ones, without hiccups, a few from the middle of many."""

import numpy as np

from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.trace import Bool

MAX_STEPS = 16  # steps on a tape at most: more of the same say nothing new and cost time
OUTLIER_RATIO = 1.5
"""A step this much slower than the median may have met something that is not the program's (a host hiccup) ..."""
FEW_HICCUPS = 0.2  # ... unless more than this share of the steps did: then it is how the program runs ...
NAMELESS = (IdleCause.LAUNCH, IdleCause.HOST, IdleCause.PROFILER, IdleCause.OTHER)
"""What a machine that is busy with something else looks like."""
NAMELESS_SHARE = 0.5  # ... or less than this share of its excess has no cause of its own


def typical_steps(*recordings: Causes) -> Bool:
    """For each step of the first of a run's ranks whether the tape holds it: on every rank steady and no hiccup, and of
    a long recording the steps in its middle."""
    typical = _usual(recordings[0])
    for other in recordings[1:]:
        usual = {name for name, here in zip(other.timed.steps.names, _usual(other).tolist(), strict=True) if here}
        typical &= np.array([name in usual for name in recordings[0].timed.steps.names])
    chosen = np.flatnonzero(typical)
    surplus = max(len(chosen) - MAX_STEPS, 0)
    typical[chosen[: surplus // 2]] = False
    typical[chosen[len(chosen) - (surplus - surplus // 2) :]] = False
    return typical


def _usual(explained: Causes) -> Bool:
    usual = ~hiccups(explained)
    usual[: explained.timed.steps.warmup] = False
    return usual


def hiccups(explained: Causes) -> Bool:
    """Steps that took far longer than the median for nothing that the program is known to do: longer by the profiler's
    own time, or, a few, by idle time in which the host was merely slow; not by device work, waits or loading."""
    steps = explained.timed.steps
    median = np.median(steps.duration[steps.steady])
    slow: Bool = steps.duration > OUTLIER_RATIO * median
    if explained.timed.device is None or not slow.any():
        return np.zeros(len(slow), bool)
    idle = idle_by_cause(explained.timed, explained.gaps, explained.timed.device)
    causes = NAMELESS if slow[steps.steady].mean() <= FEW_HICCUPS else (IdleCause.PROFILER,)
    nameless = np.sum([idle[cause] for cause in causes], axis=0)
    beyond: Bool = nameless - np.median(nameless[steps.steady]) >= NAMELESS_SHARE * (steps.duration - median)
    return slow & beyond
