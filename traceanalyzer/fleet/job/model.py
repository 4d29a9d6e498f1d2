"""What a job of many ranks comes to, and how sure a mean over its steps is."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from traceanalyzer.analysis.ranks.pipeline import slowdown as pipeline
from traceanalyzer.base import NS_PER_MS, dataclass, metric, span
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.remedies.straggler import OF_ONE
from traceanalyzer.fleet.digests.files import LeftOut
from traceanalyzer.trace import F64

Cause = Literal["slow_gpu", "more_work", "slow_host", "input", "slow_link", "heavy_stage"]
WORDS: Mapping[Cause | None, str] = {
    "slow_gpu": OF_ONE["slow_gpu"],
    "more_work": OF_ONE["more_work"],
    "slow_host": OF_ONE["slow_host"],
    "input": OF_ONE["input"],
    "slow_link": "its link is slow",
    "heavy_stage": "its stage is too heavy",
    None: "the digests do not tell why",
}
DRAWS = 400
INSIDE = (5.0, 95.0)  # percentiles: a 90 % range
FEW = 5  # of fewer steps the least and the most are the range
SEED = 39


@dataclass(frozen=True)
class Ranks:
    """Whose recordings there are."""

    expected: int
    read: int
    unreadable: list[LeftOut]
    missing: list[int]
    left_out: list[LeftOut]


@dataclass(frozen=True)
class JobCulprit:
    """A rank that the others wait for."""

    rank: int | None = metric("the rank")
    host: str | None = metric("its host; null where none was recorded")
    stage: int | None = metric("its stage of the pipeline; null where nothing tells")
    cause: Cause | None = metric(
        "slow_gpu (same kernels, longer), more_work, slow_host, input, slow_link or heavy_stage (longer than others "
        "in all replicas); null where the digests do not tell",
        text="own",
    )
    gain_ms: float = metric(
        "what the job gains a step without what the rank is late by; of several late "
        "together without all of it"
    )
    low_ms: float | None = metric("lower end of its 90 % range over the steps; null of one step")
    high_ms: float | None = metric("upper end of it")
    since: str | None = metric(
        "step from which on it is late; null: in all of them", text="sentence"
    )
    pattern: str = metric(
        "recurring (late in most steps), roaming (others are, too) or once", text="own"
    )
    steps_share: float = metric(
        "share of the steps in which it comes last by itself more than any other"
    )
    path: str = metric("its recording")


@dataclass(frozen=True)
class JobPart:
    """A part of the step that the answer speaks of."""

    part: str = metric("part of the step's budget, or a cause of its idle time", text="own")
    time_ms: float = metric("wall-clock time of the step that is its")
    share: float = metric("that of the step", "share")
    within: str = metric("the part that it is a part of; empty where it is none", text="own")


@dataclass(frozen=True)
class JobAdvice:
    """What to change in the program, as `analyze` says it."""

    id: str = metric("the change by name, for `explain`", text="own")
    gain: str = metric("the step today, after it, and the range of that", text="sentence")
    action: str = metric("what to do", text="sentence")

    @property
    def gain_is_known(self) -> bool:
        """Whether it is predicted what the change gains."""
        return "→" in self.gain


@dataclass(frozen=True)
class Analyzed:
    """What `analyze` says of the ranks."""

    summary: Summary
    costs: Mapping[int | None, float]
    """The ranks that hold up the others without the profiler, too, and what each costs, ms of that
    step."""
    how: str = "alone"  # whether they do so `alone`, `together` or `by turns`
    cause: Cause | None = None  # why, where their own work tells
    shared: bool = False  # whether each cost is that of all of them
    damaged: Sequence[str] = ()  # what is missing of recordings, in a sentence
    budget: Sequence[JobPart] = ()
    advice: Sequence[JobAdvice] = ()


@dataclass(frozen=True)
class JobChange:
    """What the job would gain."""

    what: str = metric("what is changed", text="sentence")
    gain_ms: float = metric("what a step gets shorter by")
    low_ms: float | None = metric("lower end of its 90 % range over the steps; null of one step")
    high_ms: float | None = metric("upper end of it")
    explains: float | None = metric(
        "share of what all ranks as the middle one would gain; null where that is nothing", "share"
    )


@dataclass(frozen=True)
class JobStep:
    """A step of the job."""

    step: str = metric("name of the step")
    steady: bool = metric("whether it belongs to the steady state")
    step_ms: float = metric("its time: median over the ranks")
    waiting_ms: float = metric("what ranks wait for others in it: median over the ranks")
    rank: int | None = metric("rank that comes last by most; null where none does")
    excess_ms: float = metric(
        "how much later than the last but one it comes by itself, over the step"
    )


@dataclass(frozen=True)
class Slowdown:
    """How far the job is from one in which all ranks are as fast as the middle one."""

    s: float | None = metric(
        "step time over what it would be with all ranks as the middle one of those alike"
    )
    s_worst_ranks: float | None = metric(
        "share of it that the worst 3 % of the ranks explain", "share"
    )


@dataclass(frozen=True, eq=False)
class Heat:
    """Time that ranks (rows, in the order of the topology) take longer than the middle one before
    their collectives, step by step (columns), ms."""

    excess_ms: F64
    names: list[str]  # of the rows
    steps: list[str]
    folded: (
        F64 | None
    )  # mean over the steps: a row a stage, a column a place in it; None without stages


@dataclass(frozen=True, eq=False)
class Job:
    """The answer."""

    ranks: Ranks
    summary: Summary
    culprits: list[JobCulprit]
    changes: list[JobChange]
    slowdown: Slowdown
    pipeline: (
        pipeline.PipelineSlowdown | None
    )  # of a pipeline what arXiv 2505.05713 asks, under its names
    worst: list[
        JobCulprit
        # the five ranks by what the job gains without them, whether or not that is enough to be named
    ]
    steps: list[JobStep]
    heat: Heat | None
    notes: list[str]
    recorded_ms: float | None = None
    """The recorded step that the changes are of, where that is another than the summary's."""
    budget: Sequence[JobPart] = ()
    recommendations: Sequence[JobAdvice] = ()
    """Where the step goes, and what to change in it; empty where the recordings are not here."""


def draws_of(steps: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Which steps each draw consists of."""
    size = max(steps, 1)
    return np.random.default_rng(SEED).integers(0, size, (DRAWS, size))


def range_ms(per_step: F64, mean_ms: float | None = None) -> tuple[float | None, float | None]:
    """The range of the mean of times of steps (ns), ms, around `mean_ms`; None of one step, which
    tells nothing."""
    if len(per_step) < 2:
        return None, None
    if len(per_step) < FEW:
        low = float(per_step.min())
        high = float(per_step.max())
    else:
        means = per_step[draws_of(len(per_step))].mean(axis=1)
        low, high = np.percentile(means, INSIDE).tolist()
    low = max(low, 0.0) / NS_PER_MS
    high = max(high, 0.0) / NS_PER_MS
    return (low, high) if mean_ms is None else (min(low, mean_ms), max(high, mean_ms))


def ends_of(row: JobCulprit | JobChange) -> str:
    """The range as text, in the unit that its gain is shown in; empty where there is none."""
    if row.low_ms is None or row.high_ms is None:
        return ""
    low = span(row.low_ms, row.gain_ms).split()[0]
    high = span(row.high_ms, row.gain_ms).split()[0]
    return f"{low} to {high}"
