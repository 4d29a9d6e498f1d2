"""Idle time that may belong to something outside the program: what clocks its steps, or one long
pause."""

import numpy as np

from traceanalyzer.analysis.algebra import complement, local_searchsorted, robust_sigma, union
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.groups.idle import longest_gaps_of
from traceanalyzer.analysis.names import Framework
from traceanalyzer.base import NS_PER_MS, digits, regex
from traceanalyzer.diagnosis.measurements import Measurements

MOST_SURE = 0.6
"""Confidence of a verdict on idle time that nothing in the program may be able to shorten."""
IDLE_CLASSES = (
    "launch",
    "sync",
    "input",
    "host",
)  # classes of such idle time: nothing is promised for them
FEWEST_STEPS = 10
SHORTEST_NS = NS_PER_MS
"""Fewer steps are alike by chance, and no camera or display clocks a program at more than 1 kHz."""
SAME_SPREAD = 0.05
"""Robust spread of the steps, as a share of their median, below which something may keep their
time."""
QUIET_SHARE = 0.3
"""Share of a step without any CUDA call in which a program may wait for what clocks it."""
LONG_PAUSE_MS = 10_000
"""A gap this long is a user, a file or another program more often than work that can be moved."""
_WAITS = regex(
    r"\b(?:p?poll|epoll\w*|p?select|kqueue|kevent|u?sleep|(?:clock_)?nanosleep|recv\w*|accept4?|futex|flock)\b"
    r"|\b(?:sem_\w*wait|pthread_(?:cond|rwlock|mutex)_\w+|pthread_join|pthread_barrier_wait|wait(?:pid|id))\b|"
    r"\bacquire of _thread\.|queue\.py\(\d+\): get\b|threading\.py\(\d+\): (?:wait|join)\b"
)
"""Calls in which a thread sleeps until there is something to do: no work of the CPU."""
GAPS_LOOKED_AT = 20
ASLEEP_SHARE = 0.8
"""Of the longest gaps, the time in which the innermost call of the host has to be such a one."""
MOST_OF = 0.5  # share of the step or recording from which idle time makes it what it is


def sleep_of_host(m: Measurements) -> bool:
    """Whether the host sleeps for most of the step, by what it was in during the longest gaps."""
    idle = m.step.idle
    if idle is None or idle.host < MOST_OF * m.step.step_ms:
        return False
    gaps = longest_gaps_of(m.causes, IdleCause.HOST, count=GAPS_LOOKED_AT)
    asleep = sum(ms for ms, text in gaps if _WAITS.search(text.partition("; ended by")[0]))
    return asleep > ASLEEP_SHARE * sum(ms for ms, _ in gaps)


def outside_cause(m: Measurements) -> str:
    """What may hold the program up from outside, in a sentence; empty where nothing shows it."""
    idle = (
        sum(getattr(m.step.idle, cls) for cls in IDLE_CLASSES) if m.step.idle is not None else 0.0
    )
    if idle < MOST_OF * m.step.step_ms:
        return ""
    if m.memo(sleep_of_host):
        return (
            "The thread that launches sleeps then: what feeds it decides, and nothing is promised."
        )
    gaps = m.causes.gaps
    unit = m.timed.steps.unit
    known = (gaps.step >= 0) & (gaps.cause != IdleCause.OTHER)
    longest = float(np.where(known, gaps.duration, 0).max(initial=0)) / NS_PER_MS
    steps_ms = m.mean_step_ms * m.timed.steps.steady_count
    if not steps_ms or longest < max(LONG_PAUSE_MS, MOST_OF * steps_ms):
        return _clock(m)
    return (
        f"One pause of {digits(longest / 1e3)} s is {longest / steps_ms:.0%} of the {unit}: a user, a file or another "
        "program may have been what it waited for, and nothing is promised for it."
    )


def _clock(m: Measurements) -> str:
    """A period that hardly varies, with a stretch in it in which a program without a framework
    calls nothing."""
    steps = m.timed.steps
    calls = m.trace.api_calls
    time = steps.duration[steps.steady].astype(np.float64)
    if (
        m.joined.framework is not Framework.CUDA
        or not steps.found
        or len(time) < FEWEST_STEPS
        or not len(calls)
    ):
        return ""
    period = float(np.median(time))
    if period < SHORTEST_NS or robust_sigma(time, period) > SAME_SPREAD * period:
        return ""
    within = (int(steps.start[0]), int(steps.end[-1]))
    quiet = complement(within, union(calls.start, calls.end))
    longest = np.zeros(len(steps), np.int64)
    step = local_searchsorted(steps.start, quiet.start, side="right") - 1
    np.maximum.at(longest, step, quiet.end - quiet.start)
    stretch = float(np.median(longest[steps.steady]))
    if stretch < QUIET_SHARE * period:
        return ""
    each, without = (f"{digits(time / NS_PER_MS)} ms" for time in (period, stretch))
    return (
        f"Every step takes {each} ({digits(1e9 / period)} per second), {without} of it without a CUDA call: a camera, "
        "a display or a sleep may clock the program. Then no change of it makes a step shorter: nothing is promised."
    )
