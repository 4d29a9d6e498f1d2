"""What one run of the program came to."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass

RESULTS = "result.rank*.json"
SLOW_FACTOR = 2.0  # a step is slow that takes so many times the median
PARTS = 8  # of a series, whose means say how far its mean is known
T_90 = 1.9  # half width of the 90 % interval of a mean of so many values, in standard errors
RECURS = 2  # slow steps that are no accident: a new epoch, an evaluation, a checkpoint


@dataclass(frozen=True)
class RankResult:
    """What one process of the run computed."""

    losses: list[float] = field(default_factory=list)  # one a step
    norms: list[float] = field(default_factory=list)
    outputs: list[list[float]] = field(default_factory=list)
    # by step how far sums over each weight have moved since the beginning
    weights: dict[str, list[float]] = field(default_factory=dict)
    buffers: dict[str, list[float]] = field(default_factory=dict)  # the same of running statistics
    gradients: list[list[float]] = field(default_factory=list)  # norms, by call of an optimizer
    rates: list[list[float]] = field(default_factory=list)  # learning rates and the like, by call


@dataclass(frozen=True)
class TrialRun:
    """One run: its switches, its step, its results; or why it has none."""

    switches: tuple[str, ...]
    seed: int
    failed: str | None = None
    nudge: float = 0.0  # by what share of themselves its weights were moved before it
    redrawn: bool = False  # its model drew other random numbers
    as_eager: bool = False  # its compiled code drew those of uncompiled code
    step_ms: float = math.nan
    low_ms: float = math.nan
    high_ms: float = math.nan
    steps: int = 0  # timed
    peak_bytes: int = 0
    seconds: float = 0.0  # all of the run
    ranks: list[RankResult] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    unit: str = ""

    @property
    def ok(self) -> bool:
        """Whether it has a step time."""
        return self.failed is None


def run_of(folder: Path, asked: TrialRun, failed: str | None, seconds: float) -> TrialRun:
    """The run that was asked for, whose results lie in the folder; `failed` says how the process ended, if badly. One
    that told all before has not failed: a launcher may mind that its workers end early."""
    results = _results(folder)
    first = results[0] if results else None
    if results and all(one["whole"] for one in results):
        failed = None
    if failed is None and (first is None or not first["timed"]):
        failed = _why_not_timed(first)
    if failed is not None or first is None:
        facts = first["facts"] if first else {}
        return dataclasses.replace(asked, failed=failed, seconds=seconds, facts=facts)
    timed = first["timed"]
    step_ms, low_ms, high_ms = _step_with_interval(timed)
    return dataclasses.replace(
        asked,
        step_ms=step_ms,
        low_ms=low_ms,
        high_ms=high_ms,
        steps=timed["timed_steps"],
        peak_bytes=max(one["peak_bytes"] for one in results),
        seconds=seconds,
        ranks=[_rank(one) for one in results],
        facts=first["facts"],
        unit=first["unit"],
    )


def _step_with_interval(timed: Mapping[str, Any]) -> tuple[float, float, float]:
    """The step of what `StepClock.measured` says, and its interval, ms: the median's, or the mean's
    where slow steps recur. No more than one of them is an accident."""
    series = timed["series_ms"][-timed["steps"] :]
    median_ms = timed["step_time_ms"]
    slow = [ms for ms in series if ms > SLOW_FACTOR * median_ms]
    if len(slow) < RECURS:
        return median_ms, timed["low_ms"], timed["high_ms"]
    mean_ms = statistics.fmean(series)
    half_ms = _mean_half_width(series)
    return mean_ms, mean_ms - half_ms, mean_ms + half_ms


def _mean_half_width(series: Sequence[float]) -> float:
    """Half width of the mean's interval, from the means of its parts: steps that follow each other
    are not independent, as those that wait for every fourth batch."""
    size = max(len(series) // PARTS, 1)
    used = len(series) - len(series) % size
    means = [statistics.fmean(series[first : first + size]) for first in range(0, used, size)]
    return T_90 * statistics.stdev(means) / math.sqrt(len(means))


def _results(folder: Path) -> list[dict[str, Any]]:
    """What the ranks told, in their order; of several processes of a rank the one with most
    steps."""
    found: dict[int, dict[str, Any]] = {}
    for file in sorted(folder.glob(RESULTS)):
        told = _loaded(file)
        if told and told["steps"] >= found.get(told["rank"], {"steps": 0})["steps"]:
            found[told["rank"]] = told
    stepped = [told for _, told in sorted(found.items()) if told["steps"]]
    return stepped or list(found.values())


def _rank(found: Mapping[str, Any]) -> RankResult:
    names = {each.name for each in fields(RankResult)}
    return RankResult(**{name: found[name] for name in names & found.keys()})


def _loaded(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def _why_not_timed(first: Mapping[str, Any] | None) -> str:
    if first is None:
        return "no process of it imported torch, or none lived to tell"
    if first["trouble"]:
        return f"its steps could not be followed: {first['trouble'][0]}"
    if first["steps"] == 0:
        return "no step was found; name the function that is one: --step-on REGEX"
    return f"it ended after {first['steps']} steps, too few to time"
