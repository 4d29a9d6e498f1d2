"""A table that is asked for: its rows as they are printed, of what a report left, else worked out. It is
loaded without click, and without what reads and measures."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from traceanalyzer.analysis.names.pytorch import PROFILER_STEP
from traceanalyzer.report.table_entries import (
    BY_NAME,
    largest_first,
    table_named,
)
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry, TableSummary

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.diagnosis.part_of_run import Selection
    from traceanalyzer.report.printed import PrintedRows
    from traceanalyzer.report.table_entries.left_rows import LeftTables
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
BY_WORTH = "worth"
BY_TIME = "time"
BY_PLACE = "place"
"""Orders of gaps; the last asks for the table that sums them up, in the place of gaps."""
SHARE = "share_of_step"
OF_THE_RECORDED = "share of step is of the recorded step, which the profiler makes longer."
SHOWN_TOTALS = 4  # rows that sum a table up, above it


class NoColumnError(ValueError):
    """An option names a column that there is not."""


class TableQuestion(NamedTuple):
    """What is asked."""

    name: str  # of the command
    paths: Sequence[str]
    selection: "Selection | None" = None
    knowledge: "Knowledge | None" = None
    format: str = "terminal"
    top: int | None = None
    everything: bool = False
    columns: str | None = None
    sort: str | None = None
    hidden: "Sequence[re.Pattern[str]] | None" = None
    by: str = BY_TIME
    wanted: RowFilter = RowFilter()


def table_asked_for(question: TableQuestion) -> "PrintedRows":
    """The table as it is printed. Raises NoColumnError, TraceAnalyzerError."""
    return left_by_report(question) or _worked_out(question)


def left_by_report(question: TableQuestion) -> "PrintedRows | None":
    """The table of rows that a report on these recordings left; None where they do not tell. Raises
    NoColumnError."""
    from traceanalyzer.report.table_entries.left_rows import left_tables, page_of_tables

    if question.hidden is not None:
        return None
    page = page_of_tables(question.paths, question.selection, question.knowledge)
    left = left_tables(page)
    if left is None:
        return None
    plan = _Plan.of(question, left, sums=False)
    answer = _left_by_report(left, plan.parts)
    return None if answer is None else _printed(plan, answer, None)


def _worked_out(question: TableQuestion) -> "PrintedRows":
    """The table of what the recordings tell. Raises NoColumnError, TraceAnalyzerError."""
    from traceanalyzer.cli.io.process import load_numpy

    load_numpy()
    from traceanalyzer.cli.io.reports import opened

    run = opened(question.paths)
    plan = _Plan.of(question, None, sums=_holds_sums(run))
    return _printed(plan, _measured(run, question, plan.parts), run)


class _Plan(NamedTuple):
    """What is to be found, and how it is shown."""

    question: TableQuestion
    table: TableEntry
    row: type[Any]  # the class of its rows
    columns: list[str]
    show: "_Show"
    summed: Sequence[tuple[TableEntry, type[Any]]]  # what sums it up, and the class of its rows
    parts: list[tuple[str, RowFilter]]
    sums: bool  # whether the recordings are tables of sums by name

    @classmethod
    def of(cls, question: TableQuestion, left: "LeftTables | None", *, sums: bool) -> "_Plan":
        """`left`: where rows come from that are not worked out. Raises NoColumnError."""
        name = _table_for(question.name, sums, question.sort, question.columns, question.by)
        table = table_named(name)
        row = _row_of(table, left)
        columns = _columns(row, question.columns)
        order = _order(table, row, question.sort)
        show = _Show.of(table, question, order)
        is_reordered = bool(order) or show.order == table.people_by != ""
        asks_for_all = is_reordered or table.comes_whole
        summed = show.totals if question.columns is None else []
        wanted = question.wanted
        parts = [
            (table.asked_as, replace(wanted, top=None if asks_for_all else show.rows)),
            *((total.name, wanted) for total in summed),
            *_beside_moments(row),
        ]
        rows_of_totals = [(total, _row_of(total, left)) for total in summed]
        return cls(question, table, row, columns, show, rows_of_totals, parts, sums)


def _row_of(table: TableEntry, left: "LeftTables | None") -> type[Any]:
    """The class of the rows of a table, or that of those which are left of it: it has the same
    fields, and is there sooner."""
    rows = None if left is None else left.get(table.name)
    return table.row if rows is None else rows.row


def _printed(plan: _Plan, answer: "_Answer", run: "Run | None") -> "PrintedRows":
    """The table with what sums it up."""
    totals = list(answer.totals)
    origin = _Origin()
    if _beside_moments(plan.row):
        origin = _Origin.of(totals.pop(), answer.rows)
    found = len(answer.rows)
    shown = _Answer(plan.show.first(answer.rows), totals, answer.summary)
    shown = _cleaned(shown, plan.question.hidden, run)
    return _with_totals(_rows_alone(plan, shown, origin, found), plan, shown.totals)


def _holds_sums(run: "Run | None") -> bool:
    """Whether the recordings are tables of sums by name."""
    return run is not None and any(trace.profiler_rows for trace in run.traces)


def _rows_alone(plan: _Plan, answer: "_Answer", origin: "_Origin", found: int) -> "PrintedRows":
    """The rows of a table as they are printed, without those that sum them up; they are of so many that were found."""
    from traceanalyzer.report.printed import PrintedRows

    table = plan.table
    rows, cut = _fitting(table, answer.rows, plan.show, found)
    summary = answer.summary
    has_shares = any(field.name == SHARE for field in fields(plan.row))
    shares = OF_THE_RECORDED if has_shares else ""
    return PrintedRows(
        table.asked_as,
        rows,
        plan.row,
        none=SUMS_ALONE if plan.sums else table.none,
        columns=plan.columns,
        fits=plan.show.fits,
        values=summary.values,
        remarks=(*summary.remarks, *filter(None, [table.remark, origin.remark, shares])),
        origin_ns=origin.ns,
        cut=cut,
    )


def _fitting(
    table: TableEntry, rows: list[Any], show: "_Show", found: int
) -> tuple[list[Any], str]:
    """The rows to print, and which of all they are (empty: all). A terminal that shows what fits leaves
    out the profiler's steps, which are no operators."""
    may_be_cut = len(rows) == show.rows and (not table.comes_whole or found > len(rows))
    cut = _cut_rows(table) if may_be_cut else ""
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


def _beside_moments(row: type[Any]) -> list[tuple[str, RowFilter]]:
    """The first step, which says what the moments in these rows count from; nothing where they have
    none."""
    has_moments = any(field.name == START for field in fields(row))
    return [(STEPS, RowFilter(earliest=True))] if has_moments else []


class _Answer(NamedTuple):
    """The rows of a table, those of the tables that sum it up, and what it has besides."""

    rows: list[Any]
    totals: list[list[Any]]
    summary: TableSummary


def _cleaned(
    answer: _Answer, hidden: "Sequence[re.Pattern[str]] | None", run: "Run | None"
) -> _Answer:
    """The answer as it may be published, where that was asked for."""
    if hidden is None:
        return answer
    from traceanalyzer.cli.io.reports import cleaned

    shown: list[Any] = [answer.rows, answer.totals, answer.summary]
    return _Answer(*cleaned(shown, hidden, run))


def _left_by_report(left: "LeftTables", parts: Sequence[tuple[str, RowFilter]]) -> _Answer | None:
    """The answer of rows that are left; None where they do not tell."""
    from traceanalyzer.report.table_entries.left_rows import rows_in, summary_in

    found = rows_in(left, parts)
    if found is None:
        return None
    return _Answer(found[0], found[1:], summary_in(left, parts[0][0]))


def _measured(
    run: "Run", question: TableQuestion, parts: Sequence[tuple[str, RowFilter]]
) -> _Answer:
    """The answer that the recordings give."""
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.report.kept_answers import kept_rows

    with working("Analyzing"):
        asked = Query(run, question.selection, question.knowledge)
        rows, *totals = kept_rows(asked, *parts)
        name, shown = parts[0]
        return _Answer(rows, totals, table_named(name).summary(asked if rows else None, shown))


def _order(table: TableEntry, row: type[Any], sort: str | None) -> str:
    """The column by which rows are largest first; empty where they stand as they come."""
    if sort == MEMORY and table.asked_as == table_named(OF_MEMORY).asked_as:
        return ""
    sorted_by = _columns(row, sort)
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
    printed: "PrintedRows", plan: _Plan, totals: Sequence[Sequence[Any]]
) -> "PrintedRows":
    """The rows with those of other tables above that sum them up, all of their rows or the first."""
    from traceanalyzer.report.printed import PrintedRows

    for (total, row), places in zip(plan.summed, totals, strict=True):
        heads = _by_cause(printed.rows, places)
        most = SHOWN_TOTALS - 1 if len(heads) > 1 else SHOWN_TOTALS
        shown = places if plan.question.everything else places[:most]
        above_title = total.title
        if len(shown) < len(places):
            above_title += f": first {len(shown)} of {len(places)}, --by place has all"
        above = PrintedRows(total.name, shown, row, title=above_title)
        title = plan.table.title if places else ""
        printed = replace(printed, totals=above, heads=heads, title=title)
    return printed


class _Show(NamedTuple):
    """Which rows are printed, and whether those that a terminal has room for."""

    rows: int | None
    order: str  # the column by which they are largest first; empty: they stand as they come
    fits: bool = False
    totals: Sequence[TableEntry] = ()  # what sums them up, for people

    @classmethod
    def of(cls, table: TableEntry, question: TableQuestion, order: str) -> "_Show":
        """Single events come in the order of time, or by their worth."""
        top = question.top
        if question.format not in ("terminal", "markdown"):
            return cls(top, order)
        if not order and question.by == BY_WORTH:
            order = table.events or ""
        order = order or table.people_by
        totals = [BY_NAME[table.totals]] if table.totals else []
        if question.everything or top is not None:
            return cls(top, order, totals=totals)
        on_screen = question.format == "terminal"
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
    if sort is None and columns is None:
        return False
    of_memory = {f.name for f in fields(table_named(OF_MEMORY).row)}
    of_ops = {f.name for f in fields(table_named("ops").row)}
    asked = {part.strip() for part in f"{sort or ''},{columns or ''}".split(",")}
    return sort == MEMORY or bool(asked & (of_memory - of_ops))


def _columns(row: type[Any], text: str | None) -> list[str]:
    """The names of columns that an option gives, if any. Raises NoColumnError, naming what there
    is."""
    if text is None:
        return []
    from traceanalyzer.report.json import RENAMED

    known = {RENAMED.get(f.name, f.name): f.name for f in fields(row)}
    asked = [part.strip() for part in text.split(",")]
    for column in asked:
        if column not in known:
            raise NoColumnError(f"there is no column {column!r}; columns: {', '.join(known)}")
    return [known[one] for one in asked]
