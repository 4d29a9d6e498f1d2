"""The collectives of the representative step: which of how many, how large, how much of each nothing hides."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.timeline.shown_steps import representative

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

MAX_MESSAGES = 400
"""Longest ones that are named: more are lines beside each other."""


@dataclass(frozen=True)
class Message:
    """A collective of the step, ns from the step's start."""

    kind: str
    number: int
    """Which one of its kind and group it is in the step, from 1 on."""
    of: int
    """How many of these there are."""
    group: str | None
    bytes: int | None
    stream: int
    start: int
    end: int
    exposed: int
    """Time of it without compute beside it."""


def messages(m: Measurements) -> list[Message]:
    """The longest ones on the step's device, in order of start."""
    calls, step = m.collective_calls, representative(m.steps)
    if m.device is None:
        return []
    rows = np.flatnonzero((calls.step == step) & (calls.device == m.device))
    group = np.append(m.trace.collectives.group, np.int32(-1))[calls.metadata]
    sorts = list(zip(calls.kind[rows].tolist(), group[rows].tolist(), strict=True))
    total, seen, numbers = Counter(sorts), Counter[tuple[int, int]](), []
    for sort in sorts:
        seen[sort] += 1
        numbers.append(seen[sort])
    hidden = measure(m.activity[m.device].compute, calls.start[rows], calls.end[rows])
    length, begin = calls.end[rows] - calls.start[rows], int(m.steps.start[step])
    return [
        Message(
            KINDS[sorts[i][0]],
            numbers[i],
            total[sorts[i]],
            m.trace.text(sorts[i][1]),
            int(calls.bytes[rows[i]]) if calls.bytes[rows[i]] >= 0 else None,
            int(calls.stream[rows[i]]),
            int(calls.start[rows[i]]) - begin,
            int(calls.end[rows[i]]) - begin,
            int(length[i] - hidden[i]),
        )
        for i in np.sort(np.argsort(-length, kind="stable")[:MAX_MESSAGES]).tolist()
    ]
