"""How long a pipeline's steps take with other durations: every operation starts when what it waits for has ended."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.graph import Meeting, meetings
from traceanalyzer.analysis.ranks.pipeline.operations import COMPUTE, KINDS, Operations
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, Bool

CLOCKS_APART_S = 0.01
"""A transfer that ends so long before its last member began is one of clocks that differ: it took no time."""
AT_ONCE = 16_000_000
"""Times that are worked out together: 128 MB."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A job that can be simulated."""

    ops: Operations
    meetings: Sequence[Meeting]
    took: F64
    """[operation, data-parallel rank, step]: what each operation takes from when it and its partners can start, s."""
    ideal: F64
    """[operation]: the mean of a type's computations, the median of its transfers, over all workers and steps, s."""


def pipeline(ops: Operations) -> Pipeline:
    """The job of these operations. Raises TraceAnalyzerError where they make no pipeline."""
    order = meetings(ops)
    took = ops.end - ops.start
    for meeting in order:
        if meeting.is_communication:
            members = list(meeting.members)
            latest = ops.start[members].max(axis=0)
            if meeting.across:
                latest = latest.max(axis=0, keepdims=True)
            took[members] = ops.end[members] - latest
    took[took <= -CLOCKS_APART_S] = 0.0
    ideal = np.zeros(len(took))
    for kind in np.unique(ops.kind).tolist():
        of_kind = ops.kind == kind
        ideal[of_kind] = np.mean(took[of_kind]) if KINDS[kind] in COMPUTE else np.median(took[of_kind])
    return Pipeline(ops, order, took, ideal)


def step_times(of: Pipeline, recorded: Sequence[Bool]) -> F64:
    """[scenario, step]: how long each step takes, s, where the operations that a scenario marks ([operation,
    data-parallel rank]) take what they took, and the others what is ideal.

    Data-parallel ranks of which a scenario marks nothing are alike: one stands for them.
    """
    marked = [np.flatnonzero(one.any(axis=0)) for one in recorded]
    replicas, steps = of.took.shape[1:]
    chosen = [np.append(some, np.setdiff1d(np.arange(replicas), some)[:1]) for some in marked]
    result = np.zeros((len(recorded), steps))
    for width in {len(one) for one in chosen}:
        alike = [i for i, one in enumerate(chosen) if len(one) == width]
        many = max(AT_ONCE // (len(of.took) * width), 1)
        for i in range(0, len(alike), many):
            some = alike[i : i + many]
            which = np.stack([recorded[one][:, chosen[one]] for one in some])
            took, at_once = of.took[:, [chosen[one] for one in some]], max(many // len(some), 1)
            for step in range(0, steps, at_once):
                result[some, step : step + at_once] = _simulated(of, which, took[..., step : step + at_once])
    return result


def _simulated(of: Pipeline, recorded: Bool, took: F64) -> F64:
    """`recorded`: [scenario, operation, replica]; `took`: [operation, scenario, replica, step]."""
    end = np.zeros(took.shape)
    for meeting in of.meetings:
        start = end[list(meeting.waits_for)].max(axis=0, initial=0.0)
        if meeting.across:
            start = start.max(axis=1, keepdims=True)
        for one in meeting.members:
            end[one] = start + np.where(recorded[:, one, :, None], took[one], of.ideal[one])
    result: F64 = end.max(axis=(0, 2))
    return result
