"""What slows a pipelined job down, under the names of arXiv 2505.05713: S, S_t, S_w, M_W, M_S."""

from collections.abc import Mapping
from math import ceil

import numpy as np

from traceanalyzer.base.figures import MS_PER_S, metric
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.fleet.pipeline.operations import BACKWARD, FORWARD, KINDS, SENDS_RECEIVES, Operations
from traceanalyzer.fleet.pipeline.simulate import Pipeline, step_times
from traceanalyzer.trace import F64, Bool

WORST_SHARE = 0.03
"""Of the workers, rounded up: those that M_W asks about."""
LEAST_SPREAD = 0.05
"""Computations that differ less from microbatch to microbatch differ by noise."""


@dataclass(frozen=True)
class WorkerRow:
    """A worker of the pipeline."""

    rank: int = metric("rank of the worker in the job")
    dp_rank: int = metric("data-parallel rank")
    stage: int = metric("pipeline stage")
    s_w: float = metric(
        "S_w: simulated step time with only this worker's operations as recorded, as a multiple of the ideal one; the "
        "smaller of those of its data-parallel rank and of its stage"
    )


@dataclass(frozen=True)
class StepRow:
    """A step of the pipeline."""

    step: int = metric("step as logged")
    recorded_ms: float = metric("from the first start to the last end of its operations", "ms")
    simulated_ms: float = metric("the same where every operation starts as soon as it can", "ms")
    s: float = metric("simulated time as a multiple of the ideal one")


@dataclass(frozen=True)
class Range:
    """What the job gains a step, ms: the mean, and what 90 % of the steps lie in."""

    gain_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class Slowdown:
    """What a job loses to operations that take longer than those of their type usually do."""

    s: float = metric(
        "S: simulated step time as a multiple of the ideal one, in which all operations of a type take the same: the "
        "mean of computations, the median of transfers"
    )
    recorded_ms: float = metric("recorded step time, mean of the steps", "ms")
    simulated_ms: float = metric("the same where every operation starts as soon as it can", "ms")
    ideal_ms: float = metric("ideal step time", "ms")
    s_t: Mapping[str, float] = metric("S_t: as S with only the operations of this type as recorded")
    s_dp: Mapping[str, float] = metric("as S with only the operations of this data-parallel rank as recorded")
    s_stage: Mapping[str, float] = metric("as S with only the operations of this stage as recorded")
    s_w: Mapping[str, float] = metric("S_w of each worker, by its rank")
    s_worst_ranks: tuple[int, ...] = metric("the worst 3 % of workers by S_w, rounded up")
    s_worst_stage: int = metric("the stage of the largest slowdown on its own")
    m_w: float | None = metric("M_W: share of the slowdown that is gone with those workers ideal", "share")
    m_s: float | None = metric(
        "M_S: share of the slowdown that is gone with the last stage ideal; above 1 where other stages are faster than "
        "the mean", "share",
    )  # fmt: skip
    without_worst: Range = metric("gain with the worst 3 % of workers ideal")
    without_last_stage: Range = metric("gain with the last stage ideal")
    forward_backward_correlation: float | None = metric(
        "correlation of forward and backward time from microbatch to microbatch, median of the workers; null where "
        "they hardly differ"
    )


def slowdown(of: Pipeline) -> tuple[Slowdown, list[WorkerRow], list[StepRow]]:
    """The slowdown of a job with what explains it, its workers by S_w, and its steps."""
    ops, all_of_them = of.ops, np.ones(of.took.shape[:2], bool)
    groups = (_by_type(of), _by_dp(of), _by_stage(of))
    times = step_times(of, [all_of_them, ~all_of_them, *(mask for group in groups for mask in group.values())])
    base, ideal, *others = times.mean(axis=1).tolist()
    ratios = iter([other / ideal for other in others])
    s_t, s_dp, s_stage = ({name: next(ratios) for name in group} for group in groups)
    workers = _workers(ops, s_dp, s_stage)
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
        s_t=_falling(s_t),
        s_dp=_falling(s_dp),
        s_stage=_falling(s_stage),
        s_w={str(one.rank): one.s_w for one in workers},
        s_worst_ranks=tuple(one.rank for one in worst),
        s_worst_stage=int(max(s_stage, key=lambda stage: s_stage[stage])),
        m_w=shares[0],
        m_s=shares[1],
        without_worst=_range(gains[0]),
        without_last_stage=_range(gains[1]),
        forward_backward_correlation=_correlation(ops),
    )
    columns = (ops.step, recorded * MS_PER_S, times[0] * MS_PER_S, times[0] / times[1])
    return found, workers, [StepRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _by_type(of: Pipeline) -> dict[str, Bool]:
    """[operation, data-parallel rank] of each type; a send and its receive are of one."""
    names = np.array([f"{k.split('-')[0]}-pp-comm" if k in SENDS_RECEIVES else k for k in KINDS])[of.ops.kind]
    return {str(name): _everywhere(names == name, of) for name in np.unique(names)}


def _by_stage(of: Pipeline) -> dict[str, Bool]:
    return {str(stage): _everywhere(of.ops.stage == stage, of) for stage in range(of.ops.stages)}


def _by_dp(of: Pipeline) -> dict[str, Bool]:
    ranks = np.arange(of.took.shape[1])
    return {str(dp): np.broadcast_to(ranks == dp, of.took.shape[:2]) for dp in ranks}


def _everywhere(which: Bool, of: Pipeline) -> Bool:
    return np.broadcast_to(which[:, None], of.took.shape[:2])


def _workers(ops: Operations, s_dp: Mapping[str, float], s_stage: Mapping[str, float]) -> list[WorkerRow]:
    rows = [
        WorkerRow(int(rank), dp, stage, min(s_dp[str(dp)], s_stage[str(stage)]))
        for (dp, stage), rank in np.ndenumerate(ops.worker)
    ]
    return sorted(rows, key=lambda row: (-row.s_w, row.rank))


def _falling(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def _range(gains: F64) -> Range:
    low, high = np.quantile(gains, (0.05, 0.95)) * MS_PER_S
    return Range(float(gains.mean()) * MS_PER_S, float(low), float(high))


def _correlation(ops: Operations) -> float | None:
    """Of the time of a microbatch's forward and backward computation on a worker, over microbatches and steps."""
    took, found = ops.end - ops.start, []
    for stage in range(ops.stages):
        forward, backward = (_of_microbatches(ops, stage, kind) for kind in (FORWARD, BACKWARD))
        both = sorted(forward.keys() & backward.keys())
        for dp in range(took.shape[1]) if len(both) > 1 else ():
            one, other = (took[[of[key] for key in both], dp].ravel() for of in (forward, backward))
            if min(one.std(), other.std()) > LEAST_SPREAD * max(one.mean(), other.mean()):
                found.append(float(np.corrcoef(one, other)[0, 1]))
    return float(np.median(found)) if found else None


def _of_microbatches(ops: Operations, stage: int, kind: str) -> dict[tuple[int, int], int]:
    rows = np.flatnonzero(ops.of(kind) & (ops.stage == stage))
    return {(int(ops.place[row]), int(ops.microbatch[row])): int(row) for row in rows}
