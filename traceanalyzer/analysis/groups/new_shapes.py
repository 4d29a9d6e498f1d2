"""Operators that a library prepares for each shape of their inputs, where the shapes change from step to step."""

import re
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.algebra.lookup import texts_where
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64, RangeKind
from traceanalyzer.trace.distinct import distinct


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
    rows = _recorded(explained.timed, pattern)
    by_step = _shapes_by_step(explained.timed, rows)
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return None
    shapes = len(frozenset().union(*by_step))
    return NewShapes(changed, len(by_step), shapes, _names(explained.timed, rows), _idle_within_ms(explained, rows))


def _names(timed: Timed, rows: I64) -> list[str]:
    """Names of the operators that have several shapes."""
    ranges = timed.trace.host_ranges
    pairs = np.unique(np.stack((ranges.name[rows], ranges.shapes[rows])), axis=1)
    names, counts = np.unique(pairs[0], return_counts=True)
    return [timed.trace.strings[name] for name in names[counts > 1]]


def _recorded(timed: Timed, pattern: str) -> I64:
    """Rows of the host ranges of steady steps that are such operators and have recorded shapes."""
    trace = timed.trace
    ranges = trace.host_ranges
    named = texts_where(trace.strings, re.compile(pattern).search)
    recorded = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(recorded)
    rows = rows[named[ranges.name[rows]]]
    return rows[timed.steady_host(ranges.start[rows])]


def _shapes_by_step(timed: Timed, rows: I64) -> list[frozenset[int]]:
    """Input shapes (codes of their text) of the operators of each steady step that has any."""
    ranges, steps = timed.trace.host_ranges, timed.steps
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    return [frozenset(ranges.shapes[rows[step == one]].tolist()) for one in distinct(step)]


def _idle_within_ms(explained: Causes, rows: I64) -> float:
    """Idle time a step that is charged to host work and lies within these host ranges."""
    ranges, gaps, steps = explained.trace.host_ranges, explained.gaps, explained.timed.steps
    charged = (gaps.cause == IdleCause.HOST) & (gaps.device == explained.timed.device) & (gaps.step >= steps.warmup)
    within = union(ranges.start[rows], ranges.end[rows])
    return ms(int(measure(within, gaps.start[charged], gaps.end[charged]).sum()) / steps.steady_count)
