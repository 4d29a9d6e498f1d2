"""What hiding copies can lead to at best: the longer of the copies and the rest of the step.

A link moves one copy at a time in each direction, and the rest of a step needs as long as it does without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.intervals import measure, subtract, union
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import Pass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

Chosen = Callable[[Tape], Bool]
"""Which ops of a tape are hidden."""


def least_times_ns(tapes: Sequence[Tape], changed: Sequence[Tape], hidden: Chosen, rest: bool) -> list[float]:
    """For each rank the least step time if these of its ops are hidden, ns. `rest`: whether all else stays as it is on
    `tapes`; where a scenario changes more, only the links are the limit."""
    chosen = [hidden(tape) for tape in tapes]
    if not any(some.any() for some in chosen):
        return [0.0] * len(tapes)
    least = [_links_ns(tape, after, some) for tape, after, some in zip(tapes, changed, chosen, strict=True)]
    if not rest:
        return least
    passes = run(tapes, repetitions(tapes))
    others = [_rest_ns(tape, times, some) for tape, times, some in zip(tapes, passes, chosen, strict=True)]
    return [max(pair) for pair in zip(least, others, strict=True)]


def _links_ns(tape: Tape, changed: Tape, hidden: Bool) -> float:
    """Time that the hidden ops need on their links, those of one device in one direction one after the other, ns a
    step: as the scenario has them, or as recorded where it takes them out."""
    ops = tape.source.trace.device_ops
    rows = tape.row[hidden]
    if not len(rows):
        return 0.0
    links = Groups.of(ops.device[rows], ops.copy_kind[rows])
    takes = np.where(changed.duration[hidden] > 0, changed.duration[hidden], tape.duration[hidden])
    return float(links.sum(takes).max()) / tape.steps


def _rest_ns(tape: Tape, times: Pass, hidden: Bool) -> float:
    """The replayed step less what only the hidden ops did, ns."""
    window = (times.done[-2], times.done[-1])
    start, end = np.array(times.came, np.int64), np.array(times.end, np.int64)
    alone = subtract(union(start[hidden], end[hidden]), union(start[~hidden], end[~hidden]))
    exposed = measure(alone, np.array(window[:1]), np.array(window[1:])).sum()
    return float(window[1] - window[0] - exposed) / tape.steps
