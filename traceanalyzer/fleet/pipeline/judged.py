"""What slows a pipelined job down, as findings with evidence, and what to change."""

from collections.abc import Iterator, Sequence

from traceanalyzer.analysis.ranks.pipeline.operations import COMPUTE
from traceanalyzer.analysis.ranks.pipeline.slowdown import PipelineSlowdown, WorkerRow
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.effort import usual_effort
from traceanalyzer.diagnosis.finding import (
    BottleneckClass,
    Evidence,
    Finding,
    Recommendation,
    severity_of,
)
from traceanalyzer.report.format import figure, number

LEAST_SLOWDOWN = 1.02  # below, no step is worth a search for who is to blame
EXPLAINS = 0.5
"""Share of the slowdown from which on workers or a stage are named: the paper's threshold."""
CORRELATED = 0.9
"""From here on forward and backward time vary by the same cause, the length of the sequences: the
paper's threshold."""
SHOWN = 5
STRAGGLER = "straggler"
REPLAYED = "replayed from the log: {}, all else as logged"
EVEN_STAGES = "the computations of a type are spread evenly over the stages"
Gain = tuple[float, float, float]
"""What a step gains: the mean, and what nine of ten steps lie in, ms."""


@dataclass(frozen=True)
class PipelineCause:
    """What slows the job down. `words` is the sentence of the headline that names it; `ranks` are to
    blame, if any are."""

    words: str
    finding: Finding
    advice: Recommendation | None
    ranks: Sequence[int] = ()

    @property
    def is_large(self) -> bool:
        """Whether a step gains enough without it to be named beside a larger one."""
        return self.finding.severity in ("medium", "high")


def causes_of(slow: PipelineSlowdown, workers: Sequence[WorkerRow]) -> list[PipelineCause]:
    """What explains a slowdown worth a search, the largest gain first; nothing where there is
    none."""
    if slow.s < LEAST_SLOWDOWN:
        return []
    gaining = [cause for cause in _causes(slow, workers) if cause.finding.headroom_ms]
    causes = gaining or [_one_type(slow)]
    return sorted(causes, key=lambda cause: -(cause.finding.headroom_ms or 0.0))


def _causes(slow: PipelineSlowdown, workers: Sequence[WorkerRow]) -> Iterator[PipelineCause]:
    worst = [worker for worker in workers if worker.rank in slow.s_worst_ranks]
    last_stage = max(worker.stage for worker in workers)
    has_others = len(workers) > len(worst)
    are_slow = has_others and _explains(slow.m_w)
    whole_stage = _stage_made_of(worst, workers) if are_slow else None
    if whole_stage is not None:
        yield _heavy_stage(slow, whole_stage, last_stage)
    elif are_slow:
        yield _slow_workers(slow, worst)
    # Where the workers that are named are of the last stage, they are why it is slow.
    is_told = are_slow and any(worker.stage == last_stage for worker in worst)
    if last_stage > 0 and _explains(slow.m_s) and not is_told:
        yield _heavy_stage(slow, last_stage, last_stage)
    correlation = slow.forward_backward_correlation
    if correlation is not None and correlation >= CORRELATED:
        yield _uneven_microbatches(slow, correlation)


def _explains(share_of_slowdown: float | None) -> bool:
    return share_of_slowdown is not None and share_of_slowdown >= EXPLAINS


def _stage_made_of(worst: Sequence[WorkerRow], workers: Sequence[WorkerRow]) -> int | None:
    """The stage that these workers are all of; None where they are not one whole stage."""
    stages = {worker.stage for worker in worst}
    if len(stages) != 1:
        return None
    stage = stages.pop()
    return stage if sum(worker.stage == stage for worker in workers) == len(worst) else None


def _slow_workers(slow: PipelineSlowdown, worst: Sequence[WorkerRow]) -> PipelineCause:
    ranks = ", ".join(str(worker.rank) for worker in worst[:SHOWN])
    more = f" and {len(worst) - SHOWN} more" if len(worst) > SHOWN else ""
    who = f"{'ranks' if len(worst) > 1 else 'rank'} {ranks}{more}"
    gain = slow.without_worst_ms
    evidence = [
        _share_of_slowdown(slow.m_w, f"{who}, the slowest 3% of the ranks (M_W)"),
        *(
            Evidence("slowdown with it alone as logged (S_w)", worker.s_w, "x", _place(worker))
            for worker in worst[:SHOWN]
        ),
        *_types_that_slow(slow),
    ]
    finding = _finding(
        STRAGGLER, f"The job waits for {who}", slow, gain, evidence, of_class="compute"
    )
    look = f"Look at the GPU and host of {who}: clocks, throttling, other processes."
    advice = _advice(slow, finding, look, gain, "these ranks take what the others take")
    words = f"{who.capitalize()} {'are' if len(worst) > 1 else 'is'} slow: {_of_step(gain, slow)}"
    return PipelineCause(words, finding, advice, tuple(worker.rank for worker in worst))


def _place(worker: WorkerRow) -> str:
    return f"rank {worker.rank}, stage {worker.stage}, data-parallel rank {worker.dp_rank}"


def _heavy_stage(slow: PipelineSlowdown, stage: int, last_stage: int) -> PipelineCause:
    gain = slow.even_stages_ms
    is_last = stage == last_stage
    which = "the last stage" if is_last else f"stage {stage}"
    evidence = [
        _share_of_slowdown(slow.m_s if is_last else slow.m_w, which),
        *(
            Evidence("slowdown with it alone as logged", ratio, "x", f"stage {name}")
            for name, ratio in list(slow.s_stage.items())[:SHOWN]
        ),
        *_types_that_slow(slow),
    ]
    title = f"{which.capitalize()} has more work than the others"
    finding = _finding("heavy-stage", title, slow, gain, evidence, of_class="compute")
    why = ": it has the loss and the output layer as well" if is_last else ""
    move = f"Move layers from {which} to the others{why}."
    advice = _advice(slow, finding, move, gain, EVEN_STAGES)
    return PipelineCause(
        f"{which.capitalize()} is too heavy: {_of_step(gain, slow)}", finding, advice
    )


def _uneven_microbatches(slow: PipelineSlowdown, correlation: float) -> PipelineCause:
    gain = slow.even_microbatches_ms
    evidence = [
        Evidence(
            "correlation of forward and backward time",
            correlation,
            "",
            "over the microbatches of a worker, median of the workers",
            CORRELATED,
        )
    ]
    title = "Microbatches differ in work, as sequences of different length do"
    finding = _finding("uneven-microbatches", title, slow, gain, evidence, of_class="compute")
    pack = (
        "Pack or sort sequences so that every microbatch has equal work (the sum of squared "
        "lengths)."
    )
    assumed = "every microbatch of a step has equal work, and a worker computes as fast as it did"
    advice = _advice(slow, finding, pack, gain, assumed)
    words = f"Microbatches are of unequal work: {_of_step(gain, slow)}"
    return PipelineCause(words, finding, advice)


def _one_type(slow: PipelineSlowdown) -> PipelineCause:
    """Where no worker and no stage stands out: the operations that do."""
    kind, ratio = next(iter(slow.s_t.items()))
    title = f"No rank and no stage stands out; {kind} varies most"
    of_class: BottleneckClass = "compute" if kind in COMPUTE else "communication"
    finding = Finding(
        "slow-operations", of_class, title, "info", None, list(_types_that_slow(slow))
    )
    words = f"No rank and no stage stands out; {kind} alone makes it {number(ratio)}x"
    return PipelineCause(words, finding, None)


def _types_that_slow(slow: PipelineSlowdown) -> Iterator[Evidence]:
    for kind, ratio in slow.s_t.items():
        if ratio >= LEAST_SLOWDOWN:
            yield Evidence("slowdown with them alone as logged (S_t)", ratio, "x", kind)


def _share_of_slowdown(share: float | None, where: str) -> Evidence:
    """Others that are lighter than the mean make it exceed the whole: then it is all of it."""
    at_most = None if share is None else min(share, 1.0)
    return Evidence("share of the slowdown", at_most, "share", where, EXPLAINS)


def _finding(
    finding_id: str,
    title: str,
    slow: PipelineSlowdown,
    gain: Gain,
    evidence: list[Evidence],
    *,
    of_class: BottleneckClass,
) -> Finding:
    gain_ms = max(gain[0], 0.0)
    severity = severity_of(gain_ms / slow.recorded_ms if slow.recorded_ms else None)
    return Finding(finding_id, of_class, title, severity, gain_ms, evidence)


def _advice(
    slow: PipelineSlowdown, finding: Finding, action: str, gain: Gain, assumed: str
) -> Recommendation:
    mean, low, high = gain
    after_ms = slow.recorded_ms - mean
    remedy = "fix_straggler" if finding.id == STRAGGLER else None
    return Recommendation(
        finding.id,
        finding.cls,
        action,
        after_ms,
        slow.recorded_ms / after_ms if after_ms > 0 else None,
        REPLAYED.format(assumed),
        remedy=remedy,
        low_ms=slow.recorded_ms - high,
        high_ms=slow.recorded_ms - low,
        may_not_help=low <= 0,
        effort=usual_effort(remedy, action),
    )


def _of_step(gain: Gain, slow: PipelineSlowdown) -> str:
    return f"{figure(gain[0], 'ms')} of each {figure(slow.recorded_ms, 'ms')} step"
