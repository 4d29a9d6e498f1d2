"""What slows a pipelined job down, under the names of arXiv 2505.05713: S, S_t, S_w, M_W, M_S."""

from collections.abc import Mapping, Sequence
from itertools import starmap
from math import ceil
from operator import attrgetter

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.graph import Meeting, meetings
from traceanalyzer.analysis.ranks.pipeline.operations import (
    BACKWARD,
    COMPUTE,
    FORWARD,
    KINDS,
    PEERS,
    Operations,
)
from traceanalyzer.base import MS_PER_S, TraceAnalyzerError, dataclass, metric
from traceanalyzer.trace import F64, Bool

WORST_SHARE = 0.03  # of the workers, rounded up: those that M_W asks about
LEAST_SPREAD = 0.05  # computations that differ less from microbatch to microbatch differ by noise


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A job that can be simulated."""

    ops: Operations
    meetings: Sequence[Meeting]
    took: F64
    """[operation, data-parallel rank, step]: what each operation takes from when it and its
    partners can start, s."""
    ideal: F64
    """[operation]: the mean of a type's computations, the median of its transfers, over all workers
    and steps, s."""


@dataclass(frozen=True)
class WorkerRow:
    """A worker of the pipeline."""

    rank: int = metric("rank of the worker in the job")
    dp_rank: int = metric("data-parallel rank")
    stage: int = metric("pipeline stage")
    s_w: float = metric(
        "S_w: as S with only its operations as recorded: the least of its data-parallel "
        "rank and stage"
    )


@dataclass(frozen=True)
class StepRow:
    """A step of the pipeline."""

    step: int = metric("step as logged")
    recorded_ms: float = metric("from the first start to the last end of its operations")
    simulated_ms: float = metric("the same where every operation starts as soon as it can")
    s: float = metric("simulated time as a multiple of the ideal one")


@dataclass(frozen=True)
class Slowdown:
    """What a job loses to operations that take longer than those of their type usually do."""

    s: float = metric(
        "S: simulated step time as a multiple of the ideal one, in which all operations of a type take "
        "the same: the mean of computations, the median of transfers"
    )
    recorded_ms: float = metric("recorded step time, mean of the steps")
    simulated_ms: float = metric("the same where every operation starts as soon as it can")
    ideal_ms: float = metric("ideal step time")
    s_t: Mapping[str, float] = metric("S_t: as S with only the operations of this type as recorded")
    s_dp: Mapping[str, float] = metric(
        "as S with only the operations of this data-parallel rank as recorded"
    )
    s_stage: Mapping[str, float] = metric("as S with only the operations of this stage as recorded")
    s_w: Mapping[str, float] = metric("S_w of each worker, by its rank")
    s_worst_ranks: tuple[int, ...] = metric("the worst 3 % of workers by S_w, rounded up")
    s_worst_stage: int = metric("the stage of the largest slowdown on its own")
    m_w: float | None = metric(
        "M_W: share of the slowdown that is gone with those workers ideal", "share"
    )
    m_s: float | None = metric(
        "M_S: share of the slowdown that is gone with the last stage ideal", "share"
    )
    without_worst_ms: tuple[float, float, float] = metric(
        "what a step gains with those workers ideal: the mean, and what nine of ten steps lie in"
    )
    without_last_stage_ms: tuple[float, float, float] = metric("the same with the last stage ideal")
    forward_backward_correlation: float | None = metric(
        "correlation of forward and backward time over microbatches; null where they hardly differ"
    )


CLOCKS_APART_S = 0.01
"""A transfer that ends so long before its last member began is one of clocks that differ: it took
no time."""
AT_ONCE = 16_000_000  # times that are worked out together: 128 MB


def slowdown(of: Pipeline) -> tuple[Slowdown, list[WorkerRow], list[StepRow]]:
    """The slowdown of a job with what explains it, its workers by S_w, and its steps."""
    ops = of.ops
    all_of_them = np.ones(of.took.shape[:2], bool)
    groups = _groups(of)
    times = step_times(
        of, [all_of_them, ~all_of_them, *(mask for group in groups for mask in group.values())]
    )
    base, ideal, *others = times.mean(axis=1).tolist()
    if not ideal:
        raise TraceAnalyzerError("its operations take no time")
    ratios = (other / ideal for other in others)
    s_t, s_dp, s_stage = (
        dict(sorted(zip(group, ratios, strict=False), key=lambda item: -item[1]))
        for group in groups
    )
    rows = (
        (int(rank), *at, min(s_dp[str(at[0])], s_stage[str(at[1])]))
        for at, rank in np.ndenumerate(ops.worker)
    )
    workers = sorted(starmap(WorkerRow, rows), key=lambda row: (-row.s_w, row.rank))
    worst = workers[: ceil(len(workers) * WORST_SHARE)]
    of_worst = ~all_of_them
    for one in worst:
        of_worst[:, one.dp_rank] |= ops.stage == one.stage
    gains = times[0] - step_times(of, [~of_worst, ~groups[2][str(ops.stages - 1)]])
    shares = gains.mean(axis=1) / (base - ideal) if base > ideal else (None, None)
    recorded = ops.end.max(axis=(0, 1)) - ops.start.min(axis=(0, 1))
    found = Slowdown(
        s=base / ideal,
        recorded_ms=float(recorded.mean()) * MS_PER_S,
        simulated_ms=base * MS_PER_S,
        ideal_ms=ideal * MS_PER_S,
        s_t=s_t,
        s_dp=s_dp,
        s_stage=s_stage,
        s_w={str(one.rank): one.s_w for one in workers},
        s_worst_ranks=tuple(map(attrgetter("rank"), worst)),
        s_worst_stage=int(next(iter(s_stage))),
        m_w=shares[0],
        m_s=shares[1],
        without_worst_ms=_range(gains[0]),
        without_last_stage_ms=_range(gains[1]),
        forward_backward_correlation=_correlation(ops),
    )
    columns = (ops.step, recorded * MS_PER_S, times[0] * MS_PER_S, times[0] / times[1])
    return found, workers, list(map(StepRow, *map(np.ndarray.tolist, columns)))


def _groups(of: Pipeline) -> tuple[dict[str, Bool], dict[str, Bool], dict[str, Bool]]:
    """[operation, data-parallel rank] of each type (a send and its receive are of one), rank and
    stage."""
    names = np.array([f"{k.split('-')[0]}-pp-comm" if k in PEERS else k for k in KINDS])[
        of.ops.kind
    ]
    columns = (names[:, None], np.arange(of.took.shape[1])[None], of.ops.stage[:, None])
    types, dps, stages = (
        {str(one): np.broadcast_to(column == one, of.took.shape[:2]) for one in np.unique(column)}
        for column in columns
    )
    return types, dps, stages


def _range(gains: F64) -> tuple[float, float, float]:
    low, high = (np.quantile(gains, (0.05, 0.95)) * MS_PER_S).tolist()
    return float(gains.mean()) * MS_PER_S, low, high


def _correlation(ops: Operations) -> float | None:
    """Of a microbatch's forward and backward time on a worker, over microbatches and steps: median
    of the workers."""
    took = ops.end - ops.start
    found = []
    for stage in range(ops.stages):
        keys = (ops.place, ops.microbatch)
        rows = [np.flatnonzero(ops.of(kind) & (ops.stage == stage)) for kind in (FORWARD, BACKWARD)]
        forward, backward = (took[row[np.lexsort([key[row] for key in keys])]] for row in rows)
        for dp in (
            range(took.shape[1]) if forward.shape == backward.shape and forward.size > 1 else ()
        ):
            one = forward[:, dp].ravel()
            other = backward[:, dp].ravel()
            if min(one.std() / one.mean(), other.std() / other.mean()) > LEAST_SPREAD:
                found.append(float(np.corrcoef(one, other)[0, 1]))
    return float(np.median(found)) if found else None


def pipeline(ops: Operations) -> Pipeline:
    """The job of these operations. Raises TraceAnalyzerError where they make no pipeline."""
    order = meetings(ops)
    took = ops.end - ops.start
    for meeting in order:
        if meeting.is_communication:
            members = list(meeting.members)
            latest = ops.start[members].max(axis=(0, 1) if meeting.across else 0, keepdims=True)
            took[members] = ops.end[members] - latest
    took[took <= -CLOCKS_APART_S] = 0.0
    ideal = np.zeros(len(took))
    for kind in np.unique(ops.kind).tolist():
        of_kind = ops.kind == kind
        ideal[of_kind] = (
            np.mean(took[of_kind]) if KINDS[kind] in COMPUTE else np.median(took[of_kind])
        )
    return Pipeline(ops, order, took, ideal)


def step_times(of: Pipeline, recorded: Sequence[Bool]) -> F64:
    """[scenario, step]: how long each step takes, s, where the operations that a scenario marks
    ([operation, data-parallel rank]) take what they took, and the others what is ideal.

    Data-parallel ranks of which a scenario marks nothing are alike: one stands for them."""
    marked = [np.flatnonzero(one.any(axis=0)) for one in recorded]
    replicas, steps = of.took.shape[1:]
    chosen = [np.append(some, np.setdiff1d(np.arange(replicas), some)[:1]) for some in marked]
    result = np.zeros((len(recorded), steps))
    for width in set(map(len, chosen)):
        alike = [i for i, one in enumerate(chosen) if len(one) == width]
        many = max(AT_ONCE // (len(of.took) * width), 1)
        for i in range(0, len(alike), many):
            some = alike[i : i + many]
            which = np.stack([recorded[one][:, chosen[one]] for one in some])
            took = of.took[:, [chosen[one] for one in some]]
            at_once = max(many // len(some), 1)
            for step in range(0, steps, at_once):
                result[some, step : step + at_once] = _simulated(
                    of, which, took[..., step : step + at_once]
                )
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
    return end.max(axis=(0, 2))
