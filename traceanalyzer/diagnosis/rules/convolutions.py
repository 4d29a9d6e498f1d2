"""Convolutions whose input shapes change: cuDNN chooses an algorithm for each new one, on the host, within the step."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.gaps import IdleCause
from traceanalyzer.analysis.intervals import measure, union
from traceanalyzer.analysis.metric import ms
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64

CUDNN_BENCHMARK = "cudnn.benchmark"
"""The condition that says whether cuDNN tries all algorithms on each new shape, or asks a heuristic for one."""


def changing_convolutions(m: Measurements) -> Iterator[Draft]:
    """Convolutions get inputs of other shapes from step to step, and the GPU idles while the host works in them."""
    chosen = _convolutions(m)
    by_step = _shapes_by_step(m, chosen)
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return
    idle_ms = _idle_within_ms(m, chosen)
    setting = next((c.value for c in m.ctx.trace.conditions if c.name == CUDNN_BENCHMARK), "not known")
    evidence = [
        Evidence(CUDNN_BENCHMARK, setting, "", "conditions of the recording"),
        Evidence("idle during host work in convolutions", idle_ms, "ms", "per step"),
        Evidence("steps with other shapes than the one before", changed, "", f"of {len(by_step)} steady steps"),
        Evidence("shapes of convolutions", len(frozenset().union(*by_step)), "", "in the steady steps"),
    ]
    action = (
        "Give convolutions few shapes: crop, pad or bucket the inputs. Where shapes must change, leave "
        "torch.backends.cudnn.benchmark off: it tries every algorithm on each new shape."
    )
    basis = "the recorded step without the idle time in convolutions; kernels that were only tried would go too"
    yield Draft(
        "changing-convolutions",
        "host",
        "Convolutions get new shapes, and cuDNN chooses their algorithms within the step",
        "idle.host",
        idle_ms,
        evidence,
        [Remedy(action, basis)],
    )


def _convolutions(m: Measurements) -> I64:
    """Rows of the host ranges of steady steps that are convolutions with recorded shapes."""
    trace = m.ctx.trace
    ranges = trace.host_ranges
    named = np.array(["convolution" in text for text in trace.strings], dtype=bool)
    recorded = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(recorded)
    rows = rows[named[ranges.name[rows]]]
    return rows[m.ctx.steady_host(ranges.start[rows])]


def _shapes_by_step(m: Measurements, rows: I64) -> list[frozenset[int]]:
    """Input shapes (codes of their text) of the convolutions of each steady step that has any."""
    ranges, steps = m.ctx.trace.host_ranges, m.ctx.steps
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    return [frozenset(ranges.shapes[rows[step == one]].tolist()) for one in np.unique(step)]


def _idle_within_ms(m: Measurements, rows: I64) -> float:
    """Idle time a step that is charged to host work and lies within these host ranges."""
    ranges, gaps, steps = m.ctx.trace.host_ranges, m.gaps, m.ctx.steps
    charged = (gaps.cause == IdleCause.HOST) & (gaps.device == m.ctx.device) & (gaps.step >= steps.warmup)
    within = union(ranges.start[rows], ranges.end[rows])
    return ms(int(measure(within, gaps.start[charged], gaps.end[charged]).sum()) / steps.steady_count)
