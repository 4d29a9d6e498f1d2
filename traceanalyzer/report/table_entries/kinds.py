"""What an entry of the list of tables has, and what is asked of it."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceanalyzer.base import dataclass

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.diagnosis.selection import MeasuredRanks


@dataclass(frozen=True)
class RowFilter:
    """Which rows of a table are asked for."""

    top: int | None = None  # the first rows, of single events the longest; None: all
    min_us: float = 0.0  # gaps of at least this length
    by_shape: bool = False  # operators by name and input shapes, instead of by name
    # the share of guessed tokens that is right, which is asked about
    acceptance: float | None = None
    draft_tokens: int = 4  # guessed tokens a request of that question
    earliest: bool = False  # the row that starts first alone, of single events


@dataclass(frozen=True)
class TableSummary:
    """What a table's command has besides its rows: figures for programs, sentences for people."""

    values: dict[str, Any]
    remarks: tuple[str, ...] = ()


def no_summary(*_: object) -> TableSummary:
    """What most tables' commands have besides their rows."""
    return TableSummary({})


@dataclass(frozen=True)
class TableEntry:
    """A table of measurements."""

    name: str  # its key in the report's `tables` and in documents
    title: str
    row_class: str  # the dataclass of its rows, below the package
    # of one rank; more than asked for do no harm
    rows: "Callable[[MeasuredRanks, Measurements, RowFilter], Sequence[Any]]"
    none: str  # what takes the place of rows where there are none
    command: str | None = None  # the command that prints all of it; `cli/help` has its help
    long: bool = False  # whether a report has its first rows only
    comes_whole: bool = (
        False  # whether it is so short that all of its rows are asked for: a cut is known then
    )
    of_the_run: bool = False  # whether its rows speak of all ranks, whichever rank is asked
    # whether the command shows all ranks unless one is asked for; else the critical rank's
    of_every_rank: bool = False
    totals: str | None = None  # the table that sums it up, which people are shown below its rows
    summary: "Callable[[Query | None, RowFilter], TableSummary]" = no_summary
    """What its command has besides the rows; None: there are no rows."""
    events: str | None = None
    """The column by which its rows, single events in time order, are longest; None: rows are in
    order of worth."""

    only_with_rows: bool = False  # whether a report without rows of it leaves it out
    is_origin: bool = False  # whether the moments of other tables count from its earliest row
    people_by: str = ""
    """The column by which its command shows people the largest rows first; empty: in their own order."""
    remark: str = ""  # what has to be known to read its rows, a sentence

    @property
    def row(self) -> type[Any]:
        """The dataclass of its rows: its columns, also where there are no rows."""
        module, _, name = self.row_class.rpartition(".")
        return getattr(import_module(f"traceanalyzer.{module}"), name)

    @property
    def asked_as(self) -> str:
        """The word by which users ask for it: its command's name, else its own."""
        return self.command or self.name
