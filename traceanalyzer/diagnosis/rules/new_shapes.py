"""Operators of cuDNN whose input shapes change: it prepares each new one on the host, within the step."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.replay.prepared import prepared_before
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.figures import ms
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64

PREPARED = "convolution|cudnn"
"""Operators for which cuDNN chooses an algorithm and builds a plan: convolutions, and attention where it is cuDNN's."""

CUDNN_BENCHMARK = "cudnn.benchmark"
"""The condition that says whether each new convolution is tried with all algorithms, or a heuristic is asked."""

PREPARED_BEFORE = Scenario(
    "prepared_before",
    prepared_before(PREPARED),
    "these operators are ready when they are called: no long work of the host in them, nothing tried out",
)

FIXED_SHAPES = (
    "Keep the shapes of convolutions and attention: crop, pad or bucket the inputs, generate with a static KV cache. "
    "Where they must change, leave torch.backends.cudnn.benchmark off, and cuDNN out of attention: "
    "torch.backends.cuda.enable_cudnn_sdp(False)."
)


def new_shapes(m: Measurements) -> Iterator[Draft]:
    """cuDNN's operators get inputs of other shapes from step to step, and the GPU idles while the host is in them."""
    rows = _prepared(m)
    by_step = _shapes_by_step(m, rows)
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return
    idle_ms = _idle_within_ms(m, rows)
    setting = next((c.value for c in m.trace.conditions if c.name == CUDNN_BENCHMARK), "not known")
    evidence = [
        Evidence("operators whose shapes change", ", ".join(_names(m, rows)), "", "steady state"),
        Evidence("idle during host work in them", idle_ms, "ms", "per step"),
        Evidence("steps with other shapes than the one before", changed, "", f"of {len(by_step)} steady steps"),
        Evidence("shapes", len(frozenset().union(*by_step)), "", "in the steady steps"),
        Evidence(CUDNN_BENCHMARK, setting, "", "conditions of the recording"),
    ]
    yield Draft(
        "new-shapes",
        "host",
        "cuDNN prepares operators anew within the step, for shapes that change",
        "idle.host",
        idle_ms,
        evidence,
        [Remedy(FIXED_SHAPES, PREPARED_BEFORE.basis, PREPARED_BEFORE)],
    )


def _names(m: Measurements, rows: I64) -> list[str]:
    """Names of the operators that have several shapes."""
    ranges = m.trace.host_ranges
    pairs = np.unique(np.stack((ranges.name[rows], ranges.shapes[rows])), axis=1)
    names, counts = np.unique(pairs[0], return_counts=True)
    return [m.trace.strings[name] for name in names[counts > 1]]


def _prepared(m: Measurements) -> I64:
    """Rows of the host ranges of steady steps that are such operators and have recorded shapes."""
    trace = m.trace
    ranges = trace.host_ranges
    named = texts_where(trace.strings, re.compile(PREPARED).search)
    recorded = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(recorded)
    rows = rows[named[ranges.name[rows]]]
    result: I64 = rows[m.steady_host(ranges.start[rows])]
    return result


def _shapes_by_step(m: Measurements, rows: I64) -> list[frozenset[int]]:
    """Input shapes (codes of their text) of the operators of each steady step that has any."""
    ranges, steps = m.trace.host_ranges, m.steps
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    return [frozenset(ranges.shapes[rows[step == one]].tolist()) for one in np.unique(step)]


def _idle_within_ms(m: Measurements, rows: I64) -> float:
    """Idle time a step that is charged to host work and lies within these host ranges."""
    ranges, gaps, steps = m.trace.host_ranges, m.gaps, m.steps
    charged = (gaps.cause == IdleCause.HOST) & (gaps.device == m.device) & (gaps.step >= steps.warmup)
    within = union(ranges.start[rows], ranges.end[rows])
    return ms(int(measure(within, gaps.start[charged], gaps.end[charged]).sum()) / steps.steady_count)
