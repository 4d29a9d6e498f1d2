"""What slows a pipelined job down, under the names of arXiv 2505.05713: S, S_t, S_w, M_W, M_S."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

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
from traceanalyzer.trace import F64, I64, Bool

WORST_SHARE = 0.03  # of the workers, rounded up: those that M_W asks about
CLOCKS_APART_S = 0.01
"""A transfer that ends so long before its last member began is one of clocks that differ: it took
no time."""
AT_ONCE = 16_000_000  # times that are worked out together: 128 MB
LEAST_TIME_S = 1e-12  # computations that take no time have no mean to share out
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
class PipelineStep:
    """A step of the pipeline."""

    step: int = metric("step as logged")
    recorded_ms: float = metric("from the first start to the last end of its operations")
    simulated_ms: float = metric("the same where every operation starts as soon as it can")
    s: float = metric("simulated time as a multiple of the ideal one")


@dataclass(frozen=True)
class PipelineSlowdown:
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
    even_stages_ms: tuple[float, float, float] = metric(
        "the same with the computations of a type spread evenly over the stages"
    )
    even_microbatches_ms: tuple[float, float, float] = metric(
        "the same with every microbatch of a step as much work as the others: a worker computes its mean of each"
    )
    forward_backward_correlation: float | None = metric(
        "correlation of forward and backward time over microbatches; null where they hardly differ"
    )


@dataclass(frozen=True, eq=False)
class _Groups:
    """[operation, data-parallel rank] of each type (a send and its receive are of one), rank and
    stage."""

    types: Mapping[str, Bool]
    dps: Mapping[str, Bool]
    stages: Mapping[str, Bool]

    @property
    def masks(self) -> list[Bool]:
        """All of them: types, ranks, then stages."""
        return [*self.types.values(), *self.dps.values(), *self.stages.values()]


def _times_s(job: Pipeline, groups: _Groups) -> F64:
    """[scenario, step]: where all take what they took, where none does, and where one group alone
    does."""
    everything = np.ones(job.took.shape[:2], bool)
    return step_times_s(job, [everything, ~everything, *groups.masks])


@dataclass(frozen=True)
class _Ratios:
    """How much longer a step takes than ideally where one group alone takes what it took, by the
    group's name, the largest first."""

    types: dict[str, float]
    dps: dict[str, float]
    stages: dict[str, float]


def slowdown(job: Pipeline) -> tuple[PipelineSlowdown, list[WorkerRow], list[PipelineStep]]:
    """The slowdown of a job with what explains it, its workers by S_w, and its steps."""
    ops = job.ops
    groups = _groups(job)
    times_s = _times_s(job, groups)
    base_s, ideal_s, *others_s = times_s.mean(axis=1).tolist()
    if not ideal_s:
        raise TraceAnalyzerError("its operations take no time")
    ratios = _ratios_of(groups, [other_s / ideal_s for other_s in others_s])
    workers = _worker_rows(ops, ratios.dps, ratios.stages)
    worst = workers[: ceil(len(workers) * WORST_SHARE)]
    gains_s = times_s[0] - step_times_s(
        job, [~_mask_of(job, worst), ~groups.stages[str(ops.stages - 1)]]
    )
    held = _share_recorded(ops, base_s)
    shares = (None, None)
    if base_s > ideal_s:
        shares = gains_s.mean(axis=1) / (base_s - ideal_s)
    found = PipelineSlowdown(
        s=base_s / ideal_s,
        recorded_ms=float(ops.recorded_s.mean()) * MS_PER_S,
        simulated_ms=base_s * MS_PER_S,
        ideal_ms=ideal_s * MS_PER_S,
        s_t=ratios.types,
        s_dp=ratios.dps,
        s_stage=ratios.stages,
        s_w={str(worker.rank): worker.s_w for worker in workers},
        s_worst_ranks=tuple(worker.rank for worker in worst),
        s_worst_stage=int(next(iter(ratios.stages))),
        m_w=shares[0],
        m_s=shares[1],
        without_worst_ms=_range(gains_s[0] * held),
        without_last_stage_ms=_range(gains_s[1] * held),
        even_stages_ms=_range((times_s[0] - _as_took_s(_with_even_stages(job))) * held),
        even_microbatches_ms=_range((times_s[0] - _as_took_s(_with_even_microbatches(job))) * held),
        forward_backward_correlation=_correlation(ops),
    )
    return found, workers, _step_rows(ops, ops.recorded_s, times_s)


def _as_took_s(job: Pipeline) -> F64:
    """[step]: where every operation takes what it took."""
    return step_times_s(job, [np.ones(job.took.shape[:2], bool)])[0]


def _ratios_of(groups: _Groups, ratios: Sequence[float]) -> _Ratios:
    """`ratios`: one for each of `groups.masks`."""
    following = iter(ratios)
    return _Ratios(
        types=_falling(groups.types, following),
        dps=_falling(groups.dps, following),
        stages=_falling(groups.stages, following),
    )


def _falling(group: Iterable[str], ratios: Iterator[float]) -> dict[str, float]:
    """The next ratios by the names of a group, the largest first."""
    named = {name: next(ratios) for name in group}
    return dict(sorted(named.items(), key=lambda item: -item[1]))


def _worker_rows(
    ops: Operations, s_dp: Mapping[str, float], s_stage: Mapping[str, float]
) -> list[WorkerRow]:
    """The workers, the slowest first."""
    rows = []
    for (dp, stage), rank in np.ndenumerate(ops.worker):
        s_w = min(s_dp[str(dp)], s_stage[str(stage)])
        rows.append(WorkerRow(rank=int(rank), dp_rank=dp, stage=stage, s_w=s_w))
    return sorted(rows, key=lambda row: (-row.s_w, row.rank))


def _mask_of(job: Pipeline, workers: Sequence[WorkerRow]) -> Bool:
    """[operation, data-parallel rank]: those of these workers."""
    mask = np.zeros(job.took.shape[:2], bool)
    for worker in workers:
        mask[:, worker.dp_rank] |= job.ops.stage == worker.stage
    return mask


def _step_rows(ops: Operations, recorded_s: F64, times_s: F64) -> list[PipelineStep]:
    """`times_s` has the steps as simulated, then those that are ideal."""
    rows = []
    for i, step in enumerate(ops.step.tolist()):
        rows.append(
            PipelineStep(
                step=step,
                recorded_ms=float(recorded_s[i]) * MS_PER_S,
                simulated_ms=float(times_s[0, i]) * MS_PER_S,
                s=float(times_s[0, i] / times_s[1, i]),
            )
        )
    return rows


def _groups(job: Pipeline) -> _Groups:
    shape = job.took.shape[:2]
    types = np.array([_type_of(kind) for kind in KINDS])[job.ops.kind]
    return _Groups(
        types=_masks(types[:, None], shape),
        dps=_masks(np.arange(shape[1])[None], shape),
        stages=_masks(job.ops.stage[:, None], shape),
    )


def _type_of(kind: str) -> str:
    return f"{kind.split('-')[0]}-pp-comm" if kind in PEERS else kind


def _masks(column: Any, shape: tuple[int, ...]) -> dict[str, Bool]:
    """Where a column has each of its values, by value."""
    return {str(value): np.broadcast_to(column == value, shape) for value in np.unique(column)}


def _with_even_stages(job: Pipeline) -> Pipeline:
    """The job with the computations of a type spread evenly over the stages: what one has more
    than the mean, the others have less."""
    took = job.took.copy()
    for of_kind in (job.ops.of(FORWARD), job.ops.of(BACKWARD)):
        mean_s = job.took[of_kind].mean() if of_kind.any() else 0.0
        for stage in range(job.ops.stages):
            rows = of_kind & (job.ops.stage == stage)
            took[rows] *= mean_s / max(took[rows].mean(), LEAST_TIME_S) if rows.any() else 1.0
    return replace(job, took=took)


def _with_even_microbatches(job: Pipeline) -> Pipeline:
    """The job with the work of a step spread evenly over its microbatches: each worker computes at
    its own mean speed, and a step has as much work as it had."""
    took = job.took.copy()
    for of_kind in (job.ops.of(FORWARD), job.ops.of(BACKWARD)):
        for place in np.unique(job.ops.place[of_kind]):
            rows = of_kind & (job.ops.place == place)
            of_worker = job.took[rows].mean(axis=(0, 2), keepdims=True)
            of_step = job.took[rows].mean(axis=(0, 1), keepdims=True)
            took[rows] = of_worker * of_step / max(job.took[rows].mean(), LEAST_TIME_S)
    return replace(job, took=took)


def _share_recorded(ops: Operations, replayed_s: float) -> float:
    """The part of a replayed step that was recorded. Operations that overlap in the log are replayed
    one after the other: of a step that gets longer so, the gain is a share."""
    return min(float(ops.recorded_s.mean()), replayed_s) / replayed_s


def _range(gains: F64) -> tuple[float, float, float]:
    low, high = (np.quantile(gains, (0.05, 0.95)) * MS_PER_S).tolist()
    return float(gains.mean()) * MS_PER_S, low, high


def _correlation(ops: Operations) -> float | None:
    """Correlation of a microbatch's forward and backward time on a worker, over microbatches and steps: median
    of the workers."""
    found = []
    for stage in range(ops.stages):
        forward = _by_microbatch(ops, FORWARD, stage)
        backward = _by_microbatch(ops, BACKWARD, stage)
        if forward.shape != backward.shape or forward.size < 2:
            continue
        for dp in range(forward.shape[1]):
            before = forward[:, dp].ravel()
            after = backward[:, dp].ravel()
            spread = min(before.std() / before.mean(), after.std() / after.mean())
            if spread > LEAST_SPREAD:
                found.append(float(np.corrcoef(before, after)[0, 1]))
    return float(np.median(found)) if found else None


def _by_microbatch(ops: Operations, kind: str, stage: int) -> F64:
    """[microbatch, data-parallel rank, step]: the times of a stage's computations, s."""
    rows = np.flatnonzero(ops.of(kind) & (ops.stage == stage))
    order = np.lexsort((ops.place[rows], ops.microbatch[rows]))
    took: F64 = (ops.end - ops.start)[rows[order]]
    return took


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
        rows = ops.kind == kind
        usual = np.mean if KINDS[kind] in COMPUTE else np.median
        ideal[rows] = usual(took[rows])
    return Pipeline(ops, order, took, ideal)


def step_times_s(job: Pipeline, recorded: Sequence[Bool]) -> F64:
    """[scenario, step]: how long each step takes, s, where the operations that a scenario marks
    ([operation, data-parallel rank]) take what they took, and the others what is ideal.

    Data-parallel ranks of which a scenario marks nothing are alike: one stands for them."""
    steps = job.took.shape[2]
    replicas = [_replicas_of(mask) for mask in recorded]
    result = np.zeros((len(recorded), steps))
    for width in {len(chosen) for chosen in replicas}:
        alike = [i for i, chosen in enumerate(replicas) if len(chosen) == width]
        many = max(AT_ONCE // (len(job.took) * width), 1)
        for i in range(0, len(alike), many):
            scenarios = alike[i : i + many]
            which = np.stack([recorded[j][:, replicas[j]] for j in scenarios])
            took = job.took[:, [replicas[j] for j in scenarios]]
            at_once = max(many // len(scenarios), 1)
            result[scenarios] = _simulated_steps(job, which, took, at_once)
    return result


def _simulated_steps(job: Pipeline, recorded: Bool, took: F64, at_once: int) -> F64:
    """[scenario, step]: as `_simulated`, so many steps at a time, which bounds the memory."""
    _, scenarios, _, steps = took.shape
    result = np.zeros((scenarios, steps))
    for step in range(0, steps, at_once):
        part = slice(step, step + at_once)
        result[:, part] = _simulated(job, recorded, took[..., part])
    return result


def _replicas_of(mask: Bool) -> I64:
    """The replicas of which a scenario marks something, and one of the others for all of them."""
    marked = np.flatnonzero(mask.any(axis=0))
    others = np.setdiff1d(np.arange(mask.shape[1]), marked)
    return np.append(marked, others[:1])


def _simulated(job: Pipeline, recorded: Bool, took: F64) -> F64:
    """`recorded`: [scenario, operation, replica]; `took`: [operation, scenario, replica, step]."""
    end = np.zeros(took.shape)
    for meeting in job.meetings:
        start = end[list(meeting.waits_for)].max(axis=0, initial=0.0)
        if meeting.across:
            start = start.max(axis=1, keepdims=True)
        for member in meeting.members:
            took_s = np.where(recorded[:, member, :, None], took[member], job.ideal[member])
            end[member] = start + took_s
    return end.max(axis=(0, 2))
