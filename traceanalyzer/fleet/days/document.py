"""Days of steps as a document."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.figures import definitions
from traceanalyzer.fleet.days.days import Days, Goodput, days_of
from traceanalyzer.fleet.days.store import OWN, Asked, append, runs
from traceanalyzer.report.document import Bullets, Document, Fact, Facts, Section, Table, Verdict
from traceanalyzer.report.format import figure
from traceanalyzer.report.printed import Printed

TITLE = "Steps"
SHOWN = 8


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
            {
                "rank": one.rank,
                "host": None,
                "cause": OWN[one.of],
                "gain_ms": one.excess_ms,
                "low_ms": None,
                "high_ms": None,
            }
            for one in found.slow_ranks
        ],
        **vars(found),
    }
    return Printed(Document(headline(found), _sections(found, ranks, known)), values)


def headline(found: Days) -> str:
    """The answer in a sentence."""
    return f"{_what(found)}{_who(found)}{_goodput(found)}"


def _what(found: Days) -> str:
    step = figure(found.step_ms, "ms")
    if found.drift is not None:
        way = "longer" if found.drift.total_share > 0 else "shorter"
        return f"Steps get {way} all the time: {abs(found.drift.total_share):.0%} over {found.steps:,} steps."
    changed = [level for level in found.levels if level.change_share is not None]
    if not changed:
        return f"No change: {found.steps:,} steps of {step}."
    worst = max(changed, key=lambda level: abs(level.change_share or 0.0))
    before = worst.step_ms / (1 + (worst.change_share or 0.0))
    way = "longer" if before < worst.step_ms else "less long"
    since = f" ({worst.since})" if worst.since else ""
    return (
        f"Steps take {abs(worst.change_share or 0.0):.0%} {way} since step {worst.first_step:,}{since}: "
        f"{figure(worst.step_ms, 'ms')}, before {figure(before, 'ms')}."
    )


def _who(found: Days) -> str:
    if not found.slow_ranks:
        return ""
    worst = max(found.slow_ranks, key=lambda one: one.excess_ms)
    return (
        f" Rank {worst.rank} takes {figure(worst.excess_ms, 'ms')} longer than its peers ({worst.of}) from step "
        f"{worst.since_step:,} on, for {worst.minutes:,.0f} min."
    )


def _goodput(found: Days) -> str:
    return f" Goodput {found.goodput.share:.0%}." if found.goodput else ""


def _sections(found: Days, ranks: int, known: Sequence[str]) -> list[Section]:
    about = f"Run {found.run}, {ranks:,} ranks" + (f"; of {len(known)} runs (--run ID)" if len(known) > 1 else "")
    tables = (("Levels", found.levels), ("Ranks behind their peers", found.slow_ranks), ("Stops", found.stops))
    return [
        Section(TITLE, [Verdict(headline(found), [about])], untitled=True),
        *(Section(title, [Table(rows, limit=SHOWN, defined=True)]) for title, rows in tables if rows),
        *([Section("Goodput", [Facts(list(_facts(found.goodput)))])] if found.goodput else []),
        *([Section("Notes", [Bullets(found.notes)])] if found.notes else []),
    ]


def _facts(goodput: Goodput) -> Iterator[Fact]:
    for one in definitions(Goodput):
        yield Fact(
            one.name.rpartition("_")[0] or one.name, figure(getattr(goodput, one.name), one.unit), one.definition
        )
