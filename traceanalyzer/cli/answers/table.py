"""The table commands: one for each entry of `report/table_entries` that has a command."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from traceanalyzer.analysis.names.pytorch import PROFILER_STEP
from traceanalyzer.cli import options as shared
from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import TABLE_FORMATS, Output
from traceanalyzer.cli.options import Hidden, Number, command
from traceanalyzer.cli.scope import Scope, selection_options
from traceanalyzer.report.table_entries import (
    BY_NAME,
    largest_first,
    table_named,
)
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry, TableSummary

if TYPE_CHECKING:
    from traceanalyzer.report.kept_tables import KeptTable
    from traceanalyzer.report.printed import PrintedRows
    from traceanalyzer.trace import Run

SHOWN_ROWS = 20
"""Rows that people are shown at most unless they ask for more; a terminal those that fit 24 lines,
programs all."""
SUMS_ALONE = (
    "The recording is a table of sums by name: it does not tell. `show kernels` shows its kernels."
)
MEMORY = "memory"
OF_MEMORY = "op_memory"
"""What operators are sorted by that the table of their memory is then shown for, which is in that
order."""
STEPS = "steps"  # the table whose first row moments count from
START = "start_ns"
SHOWN_IN_TIME = 16  # of single events in time order: the longest, which a screen has room for
SHOWN_RANKS = 3  # ranks whose sums stand above all rows: those that idle most
BY_PLACE = "place"
"""What asks for the table that sums gaps up, in the place of gaps."""
SHOWN_TOTALS = 4  # rows that sum a table up, above it
ONLY = {
    "ops": (
        click.option(
            "--by-shape",
            is_flag=True,
            help="A row for each operator and input shapes, not each operator.",
        ),
    ),
    "gaps": (
        click.option(
            "--min-us",
            type=Number(min=0),
            default=0.0,
            metavar="N",
            help="Only gaps of at least N us.",
        ),
        click.option(
            "--by",
            type=click.Choice(("worth", "time", BY_PLACE)),
            default="worth",
            show_default=True,
            help="Order of the rows that people are shown; place: a row for each place instead of "
            "each gap.",
        ),
    ),
    "iterations": (
        click.option(
            "--acceptance",
            type=Number(min=0, max=1),
            metavar="SHARE",
            help="What speculative decoding brings with this share of guessed tokens right.",
        ),
        click.option(
            "--draft-tokens",
            type=click.IntRange(min=1, max=100),
            default=4,
            show_default=True,
            metavar="N",
            help="Guessed tokens a request of --acceptance.",
        ),
    ),
}
"""Options that one of them has alone."""


def table_command(name: str) -> click.Command:
    """The command that prints the table of that name."""

    def run(paths: tuple[str, ...], **options: Any) -> None:
        _print(name, paths, **options)

    decorated: Callable[..., None] = run
    for decorate in (
        shared.output_options(TABLE_FORMATS),
        shared.quiet_option(),
        shared.redact_options(),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Largest in this column first (names as in --format json).",
        ),
        click.option(
            "--columns", metavar="A,B,...", help="Only these columns (names as in --format json)."
        ),
        click.option(
            "--all", "everything", is_flag=True, help="All rows; a terminal shows those that fit."
        ),
        shared.top_option,
        selection_options,
        shared.recordings,
        replays_output,
        *ONLY.get(name, ()),
    ):
        decorated = decorate(decorated)
    return command(name)(decorated)


def _print(
    name: str,
    paths: Sequence[str],
    *,
    scope: Scope,
    top: int | None,
    everything: bool,
    columns: str | None,
    sort: str | None,
    hidden: Hidden,
    output: Output,
    by: str = "time",
    **wanted: Any,
) -> None:
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import cleaned, opened

    kept = _kept(paths, scope) if hidden is None else {}
    run = None if kept else opened(paths)
    table = table_named(_table_for(name, _holds_sums(run), sort, columns, by))
    shown_columns = _columns(table.row, columns)
    order = _order(table, sort)
    show = _Show.of(
        table, output.format, everything or top is not None, top=top, order=order, by=by
    )
    is_reordered = bool(order) or show.order == table.people_by != ""
    summed = show.totals if columns is None else []
    parts = [
        (table.asked_as, RowFilter(None if is_reordered else show.rows, **wanted)),
        *((total.name, RowFilter(**wanted)) for total in summed),
        *_beside_moments(table),
    ]
    answer = _left_by_report(kept, parts)
    if answer is None:
        run = run or opened(paths)
        with working("Analyzing"):
            answer = _worked_out(run, scope, parts)
    origin = _Origin.of(answer.totals.pop(), answer.rows) if _beside_moments(table) else _Origin()
    shown: list[Any] = [show.first(answer.rows), answer.totals, answer.summary]
    answer = _Answer(*cleaned(shown, hidden, run))
    printed = _printed(table, show, shown_columns, answer, origin, sums=_holds_sums(run))
    emit(_with_totals(printed, table, summed, answer.totals, all_places=everything), output)


def _holds_sums(run: "Run | None") -> bool:
    """Whether the recordings are tables of sums by name."""
    return run is not None and any(trace.profiler_rows for trace in run.traces)


def _printed(
    table: TableEntry,
    show: "_Show",
    columns: list[str],
    answer: "_Answer",
    origin: "_Origin",
    *,
    sums: bool,
) -> "PrintedRows":
    """The rows of a table as they are printed, without those that sum them up."""
    from traceanalyzer.report.printed import PrintedRows

    rows, cut = _fitting(table, answer.rows, show)
    summary = answer.summary
    return PrintedRows(
        table.asked_as,
        rows,
        table.row,
        none=SUMS_ALONE if sums else table.none,
        columns=columns,
        fits=show.fits,
        values=summary.values,
        remarks=(*summary.remarks, *filter(None, [table.remark, origin.remark])),
        origin_ns=origin.ns,
        cut=cut,
    )


def _fitting(table: TableEntry, rows: list[Any], show: "_Show") -> tuple[list[Any], str]:
    """The rows to print, and which of all they are (empty: all). A terminal that shows what fits leaves
    out the profiler's steps, which are no operators."""
    cut = _cut_rows(table) if len(rows) == show.rows else ""
    if table.name == "ops" and show.fits:
        return [row for row in rows if not PROFILER_STEP.match(row.name)], cut or "first"
    return rows, cut


class _Origin(NamedTuple):
    """What the moments of a table count from: the first step, wherever its rows are cut."""

    ns: int | None = None
    remark: str = ""

    @classmethod
    def of(cls, first_step: Sequence[Any], rows: Sequence[Any]) -> "_Origin":
        """That of rows of a recording with this step first; it may have none."""
        if first_step:
            step = first_step[0]
            return cls(step.start_ns, f"start counts from the start of step {step.step}.")
        if rows:
            ns = min(row.start_ns for row in rows)
            return cls(ns, "start counts from the earliest of all rows: there are no steps.")
        return cls()


def _beside_moments(table: TableEntry) -> list[tuple[str, RowFilter]]:
    """The first step, which says what the moments of a table count from; nothing where it has
    none."""
    has_moments = any(field.name == START for field in fields(table.row))
    return [(STEPS, RowFilter(earliest=True))] if has_moments else []


class _Answer(NamedTuple):
    """The rows of a table, those of the tables that sum it up, and what it has besides."""

    rows: list[Any]
    totals: list[list[Any]]
    summary: TableSummary


def _kept(paths: Sequence[str], scope: Scope) -> "Mapping[str, KeptTable]":
    """Rows of tables that a report on these recordings left."""
    from traceanalyzer.report.kept_tables import kept_tables, page_of_tables

    return kept_tables(page_of_tables(paths, *scope))


def _left_by_report(
    kept: "Mapping[str, KeptTable]", parts: Sequence[tuple[str, RowFilter]]
) -> _Answer | None:
    """The answer of rows that are kept; None where they do not tell."""
    if not kept:
        return None
    from traceanalyzer.report.kept_tables import rows_in, summary_in

    found = rows_in(kept, parts)
    if found is None:
        return None
    return _Answer(found[0], found[1:], summary_in(kept, parts[0][0]))


def _worked_out(run: "Run", scope: Scope, parts: Sequence[tuple[str, RowFilter]]) -> _Answer:
    """The answer that the recordings give."""
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.report.kept_answers import kept_rows

    asked = Query(run, *scope)
    rows, *totals = kept_rows(asked, *parts)
    name, shown = parts[0]
    return _Answer(rows, totals, table_named(name).summary(asked if rows else None, shown))


def _order(table: TableEntry, sort: str | None) -> str:
    """The column by which rows are largest first; empty where they stand as they come."""
    if sort == MEMORY and table.asked_as == table_named(OF_MEMORY).asked_as:
        return ""
    sorted_by = _columns(table.row, sort)
    return sorted_by[0] if sorted_by else ""


def _table_for(name: str, sums: bool, sort: str | None, columns: str | None, by: str) -> str:
    """The table that answers the command of this name: of a recording of sums by name there is
    no other, of operators what they allocate may be asked, and of gaps their places."""
    if by == BY_PLACE:
        return table_named(name).totals or name
    if sums and name in ("kernels", "ops"):
        return "profiled"
    if name == "ops" and _of_memory(sort, columns):
        return OF_MEMORY
    return name


def _cut_rows(table: TableEntry) -> str:
    """Which rows are shown where there are more."""
    return "longest" if table.events else "first"


def _with_totals(
    printed: "PrintedRows",
    table: TableEntry,
    summed: Sequence[TableEntry],
    totals: Sequence[Sequence[Any]],
    *,
    all_places: bool,
) -> "PrintedRows":
    """The rows with those of other tables above that sum them up, all of their rows or the first."""
    from traceanalyzer.report.printed import PrintedRows

    for total, places in zip(summed, totals, strict=True):
        heads = _by_cause(printed.rows, places)
        most = SHOWN_TOTALS - 1 if len(heads) > 1 else SHOWN_TOTALS
        shown = places if all_places else places[:most]
        above_title = total.title
        if len(shown) < len(places):
            above_title += f": first {len(shown)} of {len(places)}, --by place has all"
        above = PrintedRows(total.name, shown, total.row, title=above_title)
        title = table.title if places else ""
        printed = replace(printed, totals=above, heads=heads, title=title)
    return printed


class _Show(NamedTuple):
    """Which rows are printed, and whether those that a terminal has room for."""

    rows: int | None
    order: str  # the column by which they are largest first; empty: they stand as they come
    fits: bool = False
    totals: Sequence[TableEntry] = ()  # what sums them up, for people

    @classmethod
    def of(
        cls, table: TableEntry, form: str, chosen: bool, *, top: int | None, order: str, by: str
    ) -> "_Show":
        """`chosen`: the user says how many; single events come in the order of time, or `by` their
        worth."""
        if form not in ("terminal", "markdown"):
            return cls(top, order)
        if not order and by == "worth":
            order = table.events or ""
        order = order or table.people_by
        totals = [BY_NAME[table.totals]] if table.totals else []
        if chosen:
            return cls(top, order, totals=totals)
        on_screen = form == "terminal"
        in_time = bool(table.events and not order)
        rows = SHOWN_IN_TIME if on_screen and in_time else SHOWN_ROWS
        return cls(rows, order, on_screen and not in_time, totals)

    def first(self, rows: list[Any]) -> list[Any]:
        """Those rows, of all."""
        return (largest_first(rows, self.order) if self.order else rows)[: self.rows]


def _by_cause(gaps: Sequence[Any], places: Sequence[Any]) -> list[str]:
    """How many gaps there are on each rank, their sum, and what it is by cause."""
    by_rank = dict[int | None, list[Any]]()
    for place in places:
        by_rank.setdefault(place.rank, []).append(place)
    each = " a step" if any(gap.step is not None for gap in gaps) else ""
    found = [(_idle_ms(of_rank), rank, of_rank) for rank, of_rank in by_rank.items()]
    texts = [_rank_sentence(rank, of_rank, each) for _, rank, of_rank in found]
    more = len(found) - SHOWN_RANKS
    if more <= 0:
        return texts
    by_idle = [(-idle, text) for (idle, *_), text in zip(found, texts, strict=True)]
    most_idle = [text for _, text in sorted(by_idle)[:SHOWN_RANKS]]
    return [*most_idle, f"{more} more ranks idle less."]


def _idle_ms(places: Sequence[Any]) -> float:
    return float(sum(place.idle_ms for place in places))


def _rank_sentence(rank: int | None, places: Sequence[Any], each: str) -> str:
    """Gaps of a rank (`each` says of what), their sum and its causes, the largest first."""
    from traceanalyzer.report.format import figure

    idle = _idle_ms(places)
    shares = _causes_in_words(places, "idle_ms")
    gaps = sum(place.gaps for place in places)
    whose = "" if rank is None else f"Rank {rank}: "
    count = figure(gaps)
    noun = "gap" if count == "1" else "gaps"
    as_recorded = f"{whose}{count} {noun}{each}, {figure(idle, 'ms')} idle"
    if any(place.unprofiled_idle_ms is None for place in places):
        return f"{as_recorded}: {shares}."
    without_ms = float(sum(place.unprofiled_idle_ms for place in places))
    causes = _causes_in_words(places, "unprofiled_idle_ms")
    without = f"{figure(without_ms, 'ms')}{f': {causes}' if causes else ''}"
    return f"{as_recorded} as recorded: {shares}. Without the profiler {without}."


def _causes_in_words(places: Sequence[Any], column: str) -> str:
    """The causes of idle time with their shares of it, the largest first."""
    from traceanalyzer.report.format import figure

    causes = defaultdict[str, float](float)
    for place in places:
        causes[place.cause] += getattr(place, column)
    idle = sum(causes.values())
    largest_first = sorted(causes.items(), key=lambda cause: -cause[1])
    shares = [f"{cause} {figure(ms / idle, 'share')}" for cause, ms in largest_first if ms > 0]
    return ", ".join(shares)


def _of_memory(sort: str | None, columns: str | None) -> bool:
    """Whether operators are asked for by what they allocate: `memory`, or a column that only that
    table has."""
    of_memory = {f.name for f in fields(table_named(OF_MEMORY).row)}
    of_ops = {f.name for f in fields(table_named("ops").row)}
    asked = {part.strip() for part in f"{sort or ''},{columns or ''}".split(",")}
    return sort == MEMORY or bool(asked & (of_memory - of_ops))


def _columns(row: type[Any], text: str | None) -> list[str]:
    """The names of columns that an option gives, if any. Raises UsageError, naming what there
    is."""
    if text is None:
        return []
    from traceanalyzer.report.json import RENAMED

    known = {RENAMED.get(f.name, f.name): f.name for f in fields(row)}
    asked = [part.strip() for part in text.split(",")]
    for column in asked:
        if column not in known:
            raise click.UsageError(f"there is no column {column!r}; columns: {', '.join(known)}")
    return [known[one] for one in asked]
