"""What days of steps hold, and as a document: levels and drift, ranks behind their peers, stops,
goodput."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from traceanalyzer.base import (
    MS_PER_S,
    TraceAnalyzerError,
    UnreadableInputError,
    counted,
    dataclass,
    definitions,
    metric,
)
from traceanalyzer.history.days.changes import Drift, changes
from traceanalyzer.history.days.store import (
    OWN,
    Behind,
    StoredStepLog,
    StoredSteps,
    append,
    moment_text,
    runs_in_store,
)
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


def days_of(log: StoredStepLog) -> Days:
    """A run's days. Raises UnreadableInputError where it has no steps."""
    steps = log.steps()
    usual_ms = float(np.median(steps.ms))
    stride = 1.0
    if len(steps.step) > 1:
        stride = max(float(np.median(np.diff(steps.step))), 1.0)
    width = max(round(WINDOW_MS / usual_ms), int(stride))
    behind = {own: log.behind(own, width, EXCESS_SHARE * usual_ms) for own in log.own}
    levels, drift = _levels(steps)
    stops, redone = _stops(steps, usual_ms, stride)
    return Days(
        run=log.run,
        steps=len(steps.step),
        step_ms=usual_ms,
        levels=levels,
        drift=drift,
        slow_ranks=tuple(_slow_ranks(behind, width * usual_ms / WINDOW_MS)),
        stops=tuple(stops),
        goodput=_goodput(steps, stops, redone, stride),
        notes=tuple(_notes(steps, log.own)),
    )


def _notes(steps: StoredSteps, own: Sequence[str]) -> Iterator[str]:
    if not own:
        yield (
            "Step times alone say since when, not who: all ranks of a synchronous job take equally long. Log what each "
            "rank waits for its data (data_ms) to know."
        )
    if not np.isfinite(steps.ended).any():
        yield (
            "The logs have no times: stops and goodput are not known. Log when each step ended (t)."
        )


def _levels(steps: StoredSteps) -> tuple[tuple[Level, ...], Drift | None]:
    starts = np.flatnonzero(np.diff(steps.attempt, prepend=-1))
    lengths = np.diff(starts, append=len(steps.step))
    since_start = np.arange(len(steps.step)) - np.repeat(starts, lengths)
    rows = np.flatnonzero(since_start >= WARM_UP)
    if not len(rows):
        rows = np.arange(len(steps.step))
    cuts, drift = changes(steps.ms[rows])
    found: list[Level] = []
    for part in np.split(rows, cuts):
        ms = float(np.median(steps.ms[part]))
        change = ms / found[-1].step_ms - 1 if found else None
        first, last = steps.step[part[[0, -1]]].tolist()
        found.append(Level(first, last, moment_text(steps.ended[part[0]]), ms, change))
    return tuple(found), drift


def _stops(steps: StoredSteps, usual: float, stride: float) -> tuple[list[Stop], Bool]:
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
        found.append(
            Stop(
                kind="restart" if back[i] else "pause",
                when=moment_text(steps.ended[i]),
                last_step=last,
                next_step=following,
                stopped_s=max(float(gaps[i]), 0.0) if np.isfinite(gaps[i]) else None,
                repeated_steps=int(again.sum()),
            )
        )
    return found, redone


def _slow_ranks(behind: Mapping[str, list[Behind]], minutes_of_window: float) -> Iterator[SlowRank]:
    """Windows that follow each other, where they last long enough."""
    for own, windows in behind.items():
        for run in _in_a_row(windows):
            minutes = len(run) * minutes_of_window
            if len(run) > 1 and minutes >= SLOW_MINUTES:
                yield SlowRank(
                    rank=run[0].rank,
                    of=own,
                    since_step=run[0].first_step,
                    since=moment_text(run[0].since),
                    minutes=minutes,
                    excess_ms=float(np.median([window.excess_ms for window in run])),
                )


def _in_a_row(windows: Sequence[Behind]) -> Iterator[list[Behind]]:
    """Windows of one rank and attempt that follow each other."""

    def series(at: tuple[int, Behind]) -> tuple[int, int, int]:
        position, window = at
        return window.rank, window.attempt, window.window - position

    for _, group in groupby(enumerate(windows), key=series):
        yield [window for _, window in group]


def _goodput(steps: StoredSteps, stops: list[Stop], redone: Bool, stride: float) -> Goodput | None:
    if not np.isfinite(steps.ended[[0, -1]]).all():
        return None
    took_s = steps.ms * stride / MS_PER_S
    wall_s = float(steps.ended[-1] - steps.ended[0] + took_s[0])
    repeated_s = float(took_s[redone].sum())
    stopped_s = sum(stop.stopped_s or 0.0 for stop in stops)
    useful_s = min(float(took_s.sum()) - repeated_s, wall_s)
    return Goodput(
        share=useful_s / wall_s,
        wall_s=wall_s,
        useful_s=useful_s,
        repeated_s=repeated_s,
        stopped_s=stopped_s,
        other_s=max(wall_s - useful_s - repeated_s - stopped_s, 0.0),
    )


def recognise(path: Path) -> bool:
    """Whether the folder holds runs of steps."""
    return path.is_dir() and bool(runs_in_store(path))


def page(
    paths: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
) -> Printed:
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
    known = runs_in_store(store)
    latest = known[-1] if known else None
    chosen = run or ("run" if logs else latest)
    if chosen not in known or chosen is None:
        raise UnreadableInputError(
            f"{store}: no run {run or ''} (run=ID/day=D/*.parquet); there is "
            f"{', '.join(known) or 'none'}"
        )
    log = StoredStepLog(store, chosen)
    days = days_of(log)
    ranks = int(log.ask("SELECT count(DISTINCT rank) FROM log")[0][0])
    values = {
        "ranks": {"expected": ranks, "read": ranks, "unreadable": [], "missing": []},
        "summary": {
            "headline": change_headline(days),
            "step_ms": days.step_ms,
            "basis": "recorded",
        },
        "culprits": [
            {**NOBODY, "rank": slow.rank, "cause": OWN[slow.of], "gain_ms": slow.excess_ms}
            for slow in days.slow_ranks
        ],
        **vars(days),
    }
    return Printed(Document(change_headline(days), _sections(days, ranks, known)), values)


def change_headline(found: Days) -> str:
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
    changes = pairwise(found.levels)
    before, after = max(changes, key=lambda pair: abs(pair[1].change_share or 0.0))
    change = after.step_ms / before.step_ms - 1
    since = f" ({after.since})" if after.since else ""
    way = "longer" if change > 0 else "less long"
    return (
        f"Steps take {abs(change):.0%} {way} since step {after.first_step:,}{since}: "
        f"{figure(after.step_ms, 'ms')}, before {figure(before.step_ms, 'ms')}."
    )


def _sections(found: Days, ranks: int, known: Sequence[str]) -> list[Section]:
    about = f"Run {found.run}, {counted(ranks, 'rank')}"
    if len(known) > 1:
        about += f"; of {len(known)} runs (--run ID)"
    sections = [Section(TITLE, [Verdict(change_headline(found), [about])], untitled=True)]
    tables = (
        ("Levels", found.levels),
        ("Ranks behind their peers", found.slow_ranks),
        ("Stops", found.stops),
    )
    for title, rows in tables:
        if rows:
            sections.append(Section(title, [Table(rows, limit=SHOWN, defined=True)]))
    if found.goodput is not None:
        sections.append(Section("Goodput", [_goodput_facts(found.goodput)]))
    if found.notes:
        sections.append(Section("Notes", [Bullets(found.notes)]))
    return sections


def _goodput_facts(goodput: Goodput) -> Facts:
    facts = []
    for defined in definitions(Goodput):
        value = figure(getattr(goodput, defined.name), defined.unit)
        facts.append(Fact(label(defined.name, defined.unit), value, defined.definition))
    return Facts(facts)
