"""Who holds up a pipeline, and what its steps would gain: ranks beyond those of their stage, stages
beyond the mean.

A rank's computations are compared with those of its stage in other replicas, so that a stage with
more layers makes none of its ranks slow, and with the lateness of its host. Stages are compared by
their middle replica, so that a slow rank makes no stage heavy, and by what their devices compute: a
late host makes no stage heavy either."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter

import numpy as np

from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.analysis.ranks.late import EXPLAINED, MIN_GAIN_SHARE, MIN_TIMES, LateRank
from traceanalyzer.analysis.ranks.pipeline.operations import BACKWARD, FORWARD
from traceanalyzer.analysis.ranks.pipeline.recorded import operations_of
from traceanalyzer.analysis.ranks.pipeline.slowdown import (
    Pipeline,
    PipelineSlowdown,
    pipeline,
    slowdown,
    step_times_s,
)
from traceanalyzer.base import MS_PER_S, TraceAnalyzerError, dataclass, digits
from traceanalyzer.trace import F64, I64, Bool

FAITHFUL = 0.05
"""Steps worked out from the operations differ by less from the recorded ones, or nothing is
promised."""
ROUGH = 0.1
"""Steps that are further off, but less than this, name a stage whose evening out gains `SURE` times
the difference."""
SURE = 4.0
TRIED = 5
"""Ranks, by what they take longer than others of their stage, without which the steps are worked
out."""


@dataclass(frozen=True, eq=False)
class PipelineJob:
    """A pipeline that was recorded, by its ranks' positions among the recordings."""

    pipeline: Pipeline
    position: I64  # [replica, stage]
    steps: tuple[str, ...]  # names of its steps

    @cached_property
    def stage(self) -> Mapping[int, int]:
        """The stage of each rank, by position."""
        return {int(rank): place[1] for place, rank in np.ndenumerate(self.position)}

    @cached_property
    def slowdown(self) -> PipelineSlowdown:
        """S and its kin."""
        return slowdown(self.pipeline)[0]

    @cached_property
    def base_ms(self) -> F64:
        """Each step's time, worked out from what its operations took."""
        return self._times_ms(self.pipeline.took)

    def _times_ms(self, took: F64) -> F64:
        everything = np.ones(took.shape[:2], bool)
        return step_times_s(replace(self.pipeline, took=took), [everything])[0] * MS_PER_S

    @property
    def is_faithful(self) -> bool:
        """Whether the steps come out as long as they were."""
        recorded_s = float(self.pipeline.ops.recorded_s.sum())
        return self._apart_s <= FAITHFUL * recorded_s

    @property
    def _apart_s(self) -> float:
        """What the steps that were worked out differ from the recorded ones."""
        return abs(float(self.base_ms.sum()) / MS_PER_S - float(self.pipeline.ops.recorded_s.sum()))

    @property
    def _is_surely_heavy(self) -> bool:
        """Whether the heaviest stage is so although the steps are only roughly those recorded."""
        recorded_s = float(self.pipeline.ops.recorded_s.sum())
        gain_s = float(self.evened_ms.sum()) / MS_PER_S
        return self._apart_s <= min(ROUGH * recorded_s, gain_s / SURE)

    @cached_property
    def usual(self) -> F64:
        """[operation]: mean time for which the device computes a stage's computations, on its
        middle replica; s."""
        return self._usual(
            self.pipeline.took if self.pipeline.ops.busy is None else self.pipeline.ops.busy
        )

    @cached_property
    def _usually_takes(self) -> F64:
        """As `usual`, with what the host is late."""
        return self._usual(self.pipeline.took)

    def _usual(self, times: F64) -> F64:
        ops = self.pipeline.ops
        found = times.mean(axis=(1, 2))
        for stage in range(ops.stages):
            for kind in (FORWARD, BACKWARD):
                chosen = ops.of(kind) & (ops.stage == stage)
                means = np.sort(times[chosen].mean(axis=(0, 2)))
                found[chosen] = means[(len(means) - 1) // 2]
        return found

    @cached_property
    def excess_ms(self) -> F64:
        """[replica, stage, step]: what a rank computes longer than usual in its stage; 0 in a job
        of one replica."""
        ops = self.pipeline.ops
        more = self.pipeline.took - self._usually_takes[:, None, None]
        compute = ops.of(FORWARD, BACKWARD)
        of_stages = [compute & (ops.stage == stage) for stage in range(ops.stages)]
        sums = [more[rows].sum(axis=0) for rows in of_stages]
        longer = np.maximum(np.stack(sums, axis=1), 0) * MS_PER_S
        return longer if len(self.position) > 1 else np.zeros_like(longer)

    def without_ms(self, ranks: Sequence[int]) -> F64:
        """What each step gains where these ranks (by position) compute no longer than their stage
        usually does."""
        ops = self.pipeline.ops
        took = self.pipeline.took.copy()
        for dp, stage in np.argwhere(np.isin(self.position, ranks)).tolist():
            for kind in (FORWARD, BACKWARD):
                rows = ops.of(kind) & (ops.stage == stage)
                own = np.maximum(took[rows, dp].mean(axis=0), 1e-12)
                took[rows, dp] *= np.minimum(self._usually_takes[rows][0] / own, 1.0)
        return self.base_ms - self._times_ms(took)

    @cached_property
    def evened_ms(self) -> F64:
        """What each step gains where all stages compute for as long as they do on average, their
        hosts with them."""
        usual = self.usual
        unchanged = np.ones(len(usual))
        share = np.divide(self._mean(usual), usual, out=unchanged, where=usual > 0)
        return self.base_ms - self._times_ms(self.pipeline.took * share[:, None, None])

    @cached_property
    def alike_ms(self) -> F64:
        """What each step gains where also all ranks do."""
        compute = self.pipeline.ops.of(FORWARD, BACKWARD)
        mean = self._mean(self._usually_takes)
        return self.base_ms - self._times_ms(
            np.where(compute[:, None, None], mean[:, None, None], self.pipeline.took)
        )

    def _mean(self, usual: F64) -> F64:
        """[operation]: the usual time of computations, as a mean of the stages."""
        mean = usual.copy()
        for computations in map(self.pipeline.ops.of, (FORWARD, BACKWARD)):
            mean[computations] = usual[computations].mean()
        return mean

    @cached_property
    def heaviest(self) -> int:
        """The stage that computes for longest."""
        ops = self.pipeline.ops
        compute: Bool = ops.of(FORWARD, BACKWARD)
        times = np.bincount(ops.stage[compute], self.usual[compute])
        return int(times.argmax())

    @cached_property
    def gains_ms(self) -> dict[int, float]:
        """By position what a step gains without what a rank takes longer, of those that take most
        longer."""
        excess = self.excess_ms.mean(axis=2)
        tried = self.position.ravel()[
            np.argsort(-excess.ravel(), kind="stable")[: TRIED * (len(excess) > 1)]
        ]
        return {rank: float(self.without_ms([rank]).mean()) for rank in tried.tolist()}

    @cached_property
    def late(self) -> tuple[LateRank, ...]:
        """Who holds up the job: ranks alone or together, or all of a heavy stage; none unless it is
        faithful."""
        least = MIN_GAIN_SHARE * float(self.base_ms.mean())
        if not self.is_faithful:
            return self._heavy_stage(least) if self._is_surely_heavy else ()
        gains = {
            one: gain
            for one, gain in self.gains_ms.items()
            if gain >= least and _repeats(self.without_ms([one]))
        }
        best = max(gains.values(), default=0.0)
        together = False
        several, together_ms = self._together
        evened = float(self.evened_ms.mean())
        if together_ms >= least and together_ms > sum(gains.values()):
            gains = dict.fromkeys(several, together_ms)
            best = together_ms
            together = True
        if evened >= least and evened > best:
            return self._heavy_stage(least)
        falling = sorted(gains.items(), key=itemgetter(1), reverse=True)
        return tuple(LateRank(rank, gain, together) for rank, gain in falling)

    def _heavy_stage(self, least_ms: float) -> tuple[LateRank, ...]:
        """The ranks of the heaviest stage, where evening it out gains as much."""
        gain_ms = float(self.evened_ms.mean())
        if gain_ms < least_ms:
            return ()
        stage = self.heaviest
        ranks = self.position[:, stage].tolist()
        return tuple(LateRank(rank, gain_ms, together=True, stage=stage) for rank in ranks)

    @cached_property
    def _together(self) -> tuple[list[int], float]:
        """Ranks of several that take most longer, less than half of all, and what a step gains
        without them all."""
        excess = self.excess_ms.mean(axis=2)
        several: list[int] = self.position[excess >= EXPLAINED * excess.max()].tolist()
        if not 2 <= len(several) < excess.size / 2 or not excess.max():
            return [], 0.0
        gain = self.without_ms(several)
        return several, float(gain.mean()) if _repeats(gain) else 0.0


def _repeats(gains: F64) -> bool:
    """Whether it is not one step that gains it, of several."""
    if len(gains) < 2:
        return True
    return bool(gains.sum() ** 2 >= MIN_TIMES * (gains**2).sum())


def pipeline_job(
    digests: Sequence[RankDigest], offset: I64 | None
) -> tuple[PipelineJob | None, str]:
    """The pipeline that ranks make; None, with a note where its slowdown is unknown. `offset` is
    that of their clocks."""
    try:
        ops = operations_of(digests, offset)
        if ops is None:
            return None, ""
        position_of = {one.rank: i for i, one in enumerate(digests)}
        position = np.array([[position_of[rank] for rank in row] for row in ops.worker.tolist()])
        names = digests[position[0, 0]].steps.names
        job = PipelineJob(pipeline(ops), position, tuple(names[step] for step in ops.step.tolist()))
    except TraceAnalyzerError as error:
        return None, f"The pipeline is not worked out: {error}."
    if job.is_faithful or job.late:
        return job, ""
    took = f"{digits(job.base_ms.mean())} ms, recorded are {digits(job.slowdown.recorded_ms)}"
    return (
        job,
        f"Steps worked out from the pipeline's operations take {took}: nobody is named by them.",
    )
