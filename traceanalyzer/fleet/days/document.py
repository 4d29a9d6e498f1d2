"""What days of steps hold, and as a document: levels and drift, ranks behind their peers, stops,
goodput."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.base import (
    MS_PER_S,
    TraceAnalyzerError,
    UnreadableInputError,
    dataclass,
    definitions,
    metric,
)
from traceanalyzer.fleet.days.changes import Drift, changes
from traceanalyzer.fleet.days.store import OWN, Asked, Steps, append, moment_of, runs
from traceanalyzer.report.document import Bullets, Document, Fact, Facts, Section, Table, Verdict
from traceanalyzer.report.format import figure, label
from traceanalyzer.report.printed import Printed
from traceanalyzer.trace import Bool

WARM_UP = 3  # steps after each start that belong to no level
PAUSE_S = 60.0  # a job stands still where so much passes without a step, and so many times a step
PAUSE_STEPS = 10
WINDOW_MS = 60_000.0  # ranks are compared a minute at a time
EXCESS_SHARE = 0.02  # of the step: a rank that waits so much longer than its peers is behind
SLOW_MINUTES = 5  # one that is behind for less has a hiccup
TITLE = "Steps"
SHOWN = 8
NOBODY = dict.fromkeys(("rank", "host", "cause", "gain_ms", "low_ms", "high_ms"))


@dataclass(frozen=True)
class Level:
    """Steps that take the same time."""

    first_step: int = metric("first step of the level")
    last_step: int = metric("last one")
    since: str | None = metric("when its first step ended; null without times", text="own")
    step_ms: float = metric("median step time")
    change_share: float | None = metric("change against the level before it")


@dataclass(frozen=True)
class Stop:
    """The job went back, or stood still."""

    kind: str = metric(
        "restart: the step number went back; pause: no step ended for long", text="own"
    )
    when: str | None = metric("when the last step before it ended; null without times", text="own")
    last_step: int = metric("last step before it")
    next_step: int = metric("first step after it")
    stopped_s: float | None = metric("time between them beyond a step's; null without times", "s")
    repeated_steps: int = metric("steps that ran again after it")


@dataclass(frozen=True)
class SlowRank:
    """A rank that spent longer than its peers on what is its own, minute after minute."""

    rank: int = metric("rank")
    of: str = metric("what it spends longer on: data_ms, compute_ms, as logged", text="own")
    since_step: int = metric("step from which on it is behind")
    since: str | None = metric("when that was; null without times", text="own")
    minutes: float = metric("how long it was behind")
    excess_ms: float = metric("time a step beyond the median of all ranks")


@dataclass(frozen=True)
class Goodput:
    """What became of the time from the first step to the last."""

    share: float = metric("share of the time in steps that were not repeated")
    wall_s: float = metric("from the start of the first step to the end of the last", "s")
    useful_s: float = metric("in steps that were not repeated", "s")
    repeated_s: float = metric("in steps that a restart repeated", "s")
    stopped_s: float = metric("in restarts and pauses", "s")
    other_s: float = metric("between steps", "s")


@dataclass(frozen=True)
class Days:
    """A run over days."""

    run: str
    steps: int
    step_ms: float
    levels: tuple[Level, ...]
    drift: Drift | None
    slow_ranks: tuple[SlowRank, ...]
    stops: tuple[Stop, ...]
    goodput: Goodput | None
    notes: tuple[str, ...]


def days_of(asked: Asked) -> Days:
    """A run's days. Raises UnreadableInputError where it has no steps."""
    steps = asked.steps()
    usual = float(np.median(steps.ms))
    stride = max(float(np.median(np.diff(steps.step))), 1.0) if len(steps.step) > 1 else 1.0
    width = max(round(WINDOW_MS / usual), int(stride))
    behind = {own: asked.behind(own, width, EXCESS_SHARE * usual) for own in asked.own}
    behind = {own: asked.behind(own, width, EXCESS_SHARE * usual) for own in asked.own}
    stops, redone = _stops(steps, usual, stride)
    slow = tuple(_slow_ranks(behind, width * usual / WINDOW_MS))
    goodput = _goodput(steps, stops, redone, stride)
    notes = tuple(_notes(steps, asked.own))
    return Days(
        asked.run, len(steps.step), usual, *_levels(steps), slow, tuple(stops), goodput, notes
    )


def _notes(steps: Steps, own: Sequence[str]) -> Iterator[str]:
    if not own:
        yield (
            "Step times alone say since when, not who: all ranks of a synchronous job take equally long. Log what each "
            "rank waits for its data (data_ms) to know."
        )
    if not np.isfinite(steps.ended).any():
        yield (
            "The logs have no times: stops and goodput are not known. Log when each step ended (t)."
        )


def _levels(steps: Steps) -> tuple[tuple[Level, ...], Drift | None]:
    starts = np.flatnonzero(np.diff(steps.attempt, prepend=-1))
    since = np.arange(len(steps.step)) - np.repeat(starts, np.diff(starts, append=len(steps.step)))
    rows = np.flatnonzero(since >= WARM_UP) if (since >= WARM_UP).any() else np.arange(len(since))
    cuts, drift = changes(steps.ms[rows])
    found: list[Level] = []
    for part in np.split(rows, cuts):
        ms = float(np.median(steps.ms[part]))
        change = ms / found[-1].step_ms - 1 if found else None
        first, last = steps.step[part[[0, -1]]].tolist()
        found.append(Level(first, last, moment_of(steps.ended[part[0]]), ms, change))
    return tuple(found), drift


def _stops(steps: Steps, usual: float, stride: float) -> tuple[list[Stop], Bool]:
    """Restarts and pauses, and which steps ran again. A counter that begins again without a pause
    counts epochs."""
    found = []
    redone = np.zeros(len(steps.step), bool)
    gaps = np.diff(steps.ended) - steps.ms[1:] * stride / MS_PER_S
    back = np.diff(steps.attempt) > 0
    long = gaps > max(PAUSE_S, PAUSE_STEPS * usual * stride / MS_PER_S)
    resumed = back & (steps.step[1:] > steps.step[0])
    for i in np.flatnonzero(resumed | long).tolist():
        last, following = steps.step[[i, i + 1]].tolist()
        again = (steps.attempt == steps.attempt[i]) & (steps.step >= following) & back[i]
        redone |= again
        gap = max(float(gaps[i]), 0.0) if np.isfinite(gaps[i]) else None
        kind = "restart" if back[i] else "pause"
        found.append(Stop(kind, moment_of(steps.ended[i]), last, following, gap, int(again.sum())))
    return found, redone


def _slow_ranks(
    behind: Mapping[str, list[tuple[Any, ...]]], minutes_of_window: float
) -> Iterator[SlowRank]:
    """Windows that follow each other, where they last long enough."""
    for own, windows in behind.items():
        for (rank, *_), group in groupby(
            enumerate(windows), key=lambda one: (*one[1][:2], one[1][2] - one[0])
        ):
            run = [window for _, window in group]
            minutes = len(run) * minutes_of_window
            if len(run) > 1 and minutes >= SLOW_MINUTES:
                *_, step, since, _ = run[0]
                excess = float(np.median([one[-1] for one in run]))
                yield SlowRank(rank, own, step, moment_of(since), minutes, excess)


def _goodput(steps: Steps, stops: list[Stop], redone: Bool, stride: float) -> Goodput | None:
    if not np.isfinite(steps.ended[[0, -1]]).all():
        return None
    took = steps.ms * stride / MS_PER_S
    wall = float(steps.ended[-1] - steps.ended[0] + took[0])
    repeated = float(took[redone].sum())
    stopped = sum(one.stopped_s or 0.0 for one in stops)
    useful = min(float(took.sum()) - repeated, wall)
    return Goodput(
        useful / wall, wall, useful, repeated, stopped, max(wall - useful - repeated - stopped, 0.0)
    )


def recognise(path: Path) -> bool:
    """Whether the folder holds runs of steps."""
    return path.is_dir() and bool(runs(path))


def page(paths: Sequence[Path], progress: Callable[[int, int], None] | None = None) -> Printed:
    """The answer about the run of a store that was written to last. Raises TraceAnalyzerError."""
    if len(paths) > 1:
        raise TraceAnalyzerError(
            f"{paths[1]}: give one folder of runs; --timing DIR adds logs to it"
        )
    return days_page(paths[0], (), None)


def days_page(store: Path, logs: Sequence[Path], run: str | None) -> Printed:
    """The answer about a run in a store, after these logs were added to it. Raises
    TraceAnalyzerError."""
    if logs:
        append(logs, store, run or "run")
    known = runs(store)
    chosen = run or ("run" if logs else next(reversed(known), None))
    if chosen not in known or chosen is None:
        raise UnreadableInputError(
            f"{store}: no run {run or ''} (run=ID/day=D/*.parquet); there is "
            f"{', '.join(known) or 'none'}"
        )
    asked = Asked(store, chosen)
    found = days_of(asked)
    ranks = int(asked.ask("SELECT count(DISTINCT rank) FROM log")[0][0])
    values = {
        "ranks": {"expected": ranks, "read": ranks, "unreadable": [], "missing": []},
        "summary": {"headline": headline(found), "step_ms": found.step_ms, "basis": "recorded"},
        "culprits": [
            {**NOBODY, "rank": one.rank, "cause": OWN[one.of], "gain_ms": one.excess_ms}
            for one in found.slow_ranks
        ],
        **vars(found),
    }
    return Printed(Document(headline(found), _sections(found, ranks, known)), values)


def headline(found: Days) -> str:
    """The answer in a sentence or two."""
    text = _what(found)
    if found.slow_ranks:
        worst = max(found.slow_ranks, key=lambda one: one.excess_ms)
        text += (
            f" Rank {worst.rank} takes {figure(worst.excess_ms, 'ms')} longer than its peers ({worst.of}) from step "
            f"{worst.since_step:,} on, for {worst.minutes:,.0f} min."
        )
    return text + (f" Goodput {found.goodput.share:.0%}." if found.goodput else "")


def _what(found: Days) -> str:
    if found.drift is not None:
        way = "longer" if found.drift.total_share > 0 else "shorter"
        return (
            f"Steps get {way} all the time: {abs(found.drift.total_share):.0%} over "
            f"{found.steps:,} steps."
        )
    if len(found.levels) < 2:
        return f"No change: {found.steps:,} steps of {figure(found.step_ms, 'ms')}."
    before, after = max(pairwise(found.levels), key=lambda pair: abs(pair[1].change_share or 0.0))
    change = after.step_ms / before.step_ms - 1
    since = f" ({after.since})" if after.since else ""
    way = "longer" if change > 0 else "less long"
    return (
        f"Steps take {abs(change):.0%} {way} since step {after.first_step:,}{since}: "
        f"{figure(after.step_ms, 'ms')}, before {figure(before.step_ms, 'ms')}."
    )


def _sections(found: Days, ranks: int, known: Sequence[str]) -> list[Section]:
    about = f"Run {found.run}, {ranks:,} ranks" + (
        f"; of {len(known)} runs (--run ID)" if len(known) > 1 else ""
    )
    tables = (
        ("Levels", found.levels),
        ("Ranks behind their peers", found.slow_ranks),
        ("Stops", found.stops),
    )
    shown = (
        [(one, getattr(found.goodput, one.name)) for one in definitions(Goodput)]
        if found.goodput
        else []
    )
    facts = [
        Fact(label(one.name, one.unit), figure(value, one.unit), one.definition)
        for one, value in shown
    ]
    return [
        Section(TITLE, [Verdict(headline(found), [about])], untitled=True),
        *(
            Section(title, [Table(rows, limit=SHOWN, defined=True)])
            for title, rows in tables
            if rows
        ),
        *([Section("Goodput", [Facts(facts)])] if facts else []),
        *([Section("Notes", [Bullets(found.notes)])] if found.notes else []),
    ]
