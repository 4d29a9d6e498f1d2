"""Operators that a library prepares for each shape of their inputs, where the shapes change from step to step."""

import re
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import measure, texts_where, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, ms
from traceanalyzer.trace import I64, RangeKind, distinct


@dataclass(frozen=True)
class NewShapes:
    """Operators whose input shapes change."""

    changed: int
    """Steady steps with other shapes than the one before, of ..."""
    steps: int
    """... those that have such an operator."""
    shapes: int
    """Different shapes in the steady steps."""
    operators: list[str]
    """Names of the operators that have several."""
    idle_ms: float
    """Idle time a recorded step during host work in them."""


def new_shapes(explained: Causes, pattern: str) -> NewShapes | None:
    """Operators with such a name (regular expression) whose shapes change; None where they do not."""
    rows, steps = _recorded(explained.timed, pattern), explained.timed.steps
    ranges, gaps = explained.trace.host_ranges, explained.gaps
    name, shape = ranges.name[rows], ranges.shapes[rows]
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    by_step = [frozenset(shape[step == one].tolist()) for one in distinct(step)]
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return None
    names, counts = np.unique(np.unique(np.stack((name, shape)), axis=1)[0], return_counts=True)
    charged = (gaps.cause == IdleCause.HOST) & (gaps.device == explained.timed.device) & (gaps.step >= steps.warmup)
    idle = measure(union(ranges.start[rows], ranges.end[rows]), gaps.start[charged], gaps.end[charged])
    return NewShapes(
        changed=changed,
        steps=len(by_step),
        shapes=len(frozenset().union(*by_step)),
        operators=[explained.trace.strings[code] for code in names[counts > 1]],
        idle_ms=ms(int(idle.sum()) / steps.steady_count),
    )


def _recorded(timed: Timed, pattern: str) -> I64:
    """Rows of the host ranges of steady steps that are such operators and have recorded shapes."""
    trace = timed.trace
    ranges = trace.host_ranges
    named = texts_where(trace.strings, re.compile(pattern).search)
    recorded = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(recorded)
    rows = rows[named[ranges.name[rows]]]
    return rows[timed.steady_host(ranges.start[rows])]
