"""Days of steps as a document."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, definitions
from traceanalyzer.fleet.days.days import Days, Goodput, days_of
from traceanalyzer.fleet.days.store import OWN, Asked, append, runs
from traceanalyzer.report.document import Bullets, Document, Fact, Facts, Section, Table, Verdict
from traceanalyzer.report.format import figure, label
from traceanalyzer.report.printed import Printed

TITLE = "Steps"
SHOWN = 8
NOBODY = dict.fromkeys(("rank", "host", "cause", "gain_ms", "low_ms", "high_ms"))


def recognise(path: Path) -> bool:
    """Whether the folder holds runs of steps."""
    return path.is_dir() and bool(runs(path))


def page(paths: Sequence[Path], progress: Callable[[int, int], None] | None = None) -> Printed:
    """The answer about the run of a store that was written to last. Raises TraceAnalyzerError."""
    if len(paths) > 1:
        raise TraceAnalyzerError(f"{paths[1]}: give one folder of runs; --timing DIR adds logs to it")
    return days_page(paths[0], (), None)


def days_page(store: Path, logs: Sequence[Path], run: str | None) -> Printed:
    """The answer about a run in a store, after these logs were added to it. Raises TraceAnalyzerError."""
    if logs:
        append(logs, store, run or "run")
    known = runs(store)
    chosen = run or ("run" if logs else next(reversed(known), None))
    if chosen not in known or chosen is None:
        raise UnreadableInputError(
            f"{store}: no run {run or ''} (run=ID/day=D/*.parquet); there is {', '.join(known) or 'none'}"
        )
    asked = Asked(store, chosen)
    found, ranks = days_of(asked), int(asked.ask("SELECT count(DISTINCT rank) FROM log")[0][0])
    values = {
        "ranks": {"expected": ranks, "read": ranks, "unreadable": [], "missing": []},
        "summary": {"headline": headline(found), "step_ms": found.step_ms, "basis": "recorded"},
        "culprits": [
            {**NOBODY, "rank": one.rank, "cause": OWN[one.of], "gain_ms": one.excess_ms} for one in found.slow_ranks
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
        return f"Steps get {way} all the time: {abs(found.drift.total_share):.0%} over {found.steps:,} steps."
    if len(found.levels) < 2:
        return f"No change: {found.steps:,} steps of {figure(found.step_ms, 'ms')}."
    before, after = max(pairwise(found.levels), key=lambda pair: abs(pair[1].change_share or 0.0))
    change, since = after.step_ms / before.step_ms - 1, f" ({after.since})" if after.since else ""
    way = "longer" if change > 0 else "less long"
    return (
        f"Steps take {abs(change):.0%} {way} since step {after.first_step:,}{since}: "
        f"{figure(after.step_ms, 'ms')}, before {figure(before.step_ms, 'ms')}."
    )


def _sections(found: Days, ranks: int, known: Sequence[str]) -> list[Section]:
    about = f"Run {found.run}, {ranks:,} ranks" + (f"; of {len(known)} runs (--run ID)" if len(known) > 1 else "")
    tables = (("Levels", found.levels), ("Ranks behind their peers", found.slow_ranks), ("Stops", found.stops))
    shown = [(one, getattr(found.goodput, one.name)) for one in definitions(Goodput)] if found.goodput else []
    facts = [Fact(label(one.name, one.unit), figure(value, one.unit), one.definition) for one, value in shown]
    return [
        Section(TITLE, [Verdict(headline(found), [about])], untitled=True),
        *(Section(title, [Table(rows, limit=SHOWN, defined=True)]) for title, rows in tables if rows),
        *([Section("Goodput", [Facts(facts)])] if facts else []),
        *([Section("Notes", [Bullets(found.notes)])] if found.notes else []),
    ]
