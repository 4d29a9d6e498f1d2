"""What a command prints: a value that can be written in several formats. `cli/output.py` asks it
for the one wanted."""

import csv
import dataclasses
import functools
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.report.document import Document, Paragraph, Part, Row, Section, Table
from traceanalyzer.report.format import DEFAULT_WIDTH, plain

WIDTH = 100  # columns in a notebook
SCREEN_LINES = 24
"""Of a terminal; so few rows are shown in any case, where nothing above sums them up."""
LEAST_ROWS = 3
FULL_ROWS = 100
"""Of a table of a job of many ranks, where all of a result was asked for."""
# What a text begins with that spreadsheets run as a formula
# (https://owasp.org/www-community/attacks/CSV_Injection).
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Result:
    """A result: as `printed` is, but for what it draws otherwise. A format that it does not have is
    not among its command's `--format`."""

    @property
    def printed(self) -> "Result":
        """What is written where it has nothing of its own."""
        raise NotImplementedError

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """For people, `width` columns wide."""
        return self.printed.terminal(width, colour)

    def markdown(self) -> str:
        """For an issue."""
        return self.printed.markdown()

    def json(self) -> str:
        """For programs."""
        return self.printed.json()

    def json_pieces(self) -> Iterator[str]:
        """As `json`, some of it at a time."""
        if type(self).json is Result.json:
            yield from self.printed.json_pieces()
        else:
            yield self.json()

    def csv(self) -> str:
        """For a spreadsheet."""
        return self.printed.csv()

    def html(self) -> str:
        """A page for a browser."""
        return self.printed.html()

    def svg(self) -> str:
        """One picture, for where no page can be shown."""
        return self.printed.svg()


@dataclass(frozen=True)
class Printed(Result):
    """A document: `values` is what programs get as JSON, `rows` as CSV, `picture` draws it as one
    SVG. A terminal gets the `screen`, a browser the `page`, where there is one."""

    document: Document
    values: Any = None
    rows: "PrintedRows | None" = None
    picture: Callable[[], str] | None = None
    screen: Document | None = None
    page: Document | None = None

    def __repr__(self) -> str:
        return self.terminal(WIDTH)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """All of it, or its screen."""
        from traceanalyzer.report.terminal.render import (
            document_terminal,
        )  # rich takes as long as a small recording

        return document_terminal(self.screen or self.document, width, colour)

    def in_full(self) -> "Printed":
        """With all of it for a terminal, and `FULL_ROWS` of each table."""
        sections = [
            dataclasses.replace(section, parts=[_with_more_rows(part) for part in section.parts])
            for section in self.document.sections
        ]
        document = dataclasses.replace(self.document, sections=sections)
        return dataclasses.replace(self, document=document, screen=None)

    def markdown(self, max_chars: int | None = None) -> str:
        """All of it, or what is worth most of it."""
        from traceanalyzer.report.markdown.render import document_markdown

        return document_markdown(self.document, max_chars)

    def json(self) -> str:
        """Its values."""
        from traceanalyzer.report.json import dump

        return dump(self.values)

    def json_pieces(self) -> Iterator[str]:
        """Its values."""
        from traceanalyzer.report.json import dump_pieces

        return dump_pieces(self.values)

    def csv(self) -> str:
        """Its rows."""
        return "" if self.rows is None else self.rows.csv()

    def html(self) -> str:
        """One file that opens anywhere and asks for nothing."""
        from traceanalyzer.report.html.render import document_html

        return document_html(self.page or self.document)

    def svg(self) -> str:
        """Its picture."""
        return "" if self.picture is None else self.picture()


@dataclass(frozen=True)
class PrintedRows(Result):
    """Rows of one dataclass; `name` is their key in JSON. People are shown `shown`, where that is
    not all of them."""

    name: str
    rows: Sequence[Row]
    row_type: type[Any]
    none: str = "No rows."
    shown: Sequence[Row] | None = None
    remarks: Sequence[str] = field(default_factory=tuple)  # sentences below the table, for people
    heads: Sequence[str] = field(default_factory=tuple)  # sentences above it, for people
    # that people are shown, in order; None: as many as there is room for
    columns: Sequence[str] | None = None
    # what sums it up, which people are shown below; its title is `title`
    totals: "PrintedRows | None" = None
    title: str = ""
    values: dict[str, Any] = field(default_factory=dict)  # what JSON has before the rows
    origin_ns: int | None = None  # what moments count from; None: the first of them
    cut: str = ""  # what these rows are of more: `first`, `longest`; empty: all of them
    fits: bool = False  # whether a terminal shows only the rows that fit its height

    @property
    def document(self) -> Document:
        """What sums the table up, and the table with its remarks."""
        people = self.rows if self.shown is None else self.shown
        cut = (f"The {self.cut} {len(people)}; --all has the rest.",) if self.cut else ()
        table = Table(
            people,
            chosen=self.columns,
            remarks=(*cut, *self.remarks),
            origin_ns=self.origin_ns,
            defined=True,
        )
        if not self.rows:
            return Document(
                self.title, [Section(self.title, [Paragraph(self.none)], is_minor=True)]
            )
        first = [Section("", [Paragraph(text) for text in self.heads])] if self.heads else []
        above = self.totals.document.sections if self.totals and self.totals.rows else []
        return Document(
            self.title,
            [*first, *above, Section(self.title, [table], is_minor=True)],
        )

    @property
    def printed(self) -> Printed:
        """The table with its definitions folded below."""
        return Printed(self.document)

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """The table, without definitions: `explain` has them."""
        text = self.printed.terminal(width, colour)
        over = text.count("\n") - SCREEN_LINES
        least = 1 if self.totals else LEAST_ROWS
        if not self.fits or over <= 0 or len(self.rows) <= least:
            return text
        rows = self.rows[: max(least, len(self.rows) - (over + 1) // 2)]
        return dataclasses.replace(self, rows=rows, cut=self.cut or "first").terminal(width, colour)

    def json(self) -> str:
        """`{name: [row, ...]}` with every field of every row."""
        from traceanalyzer.report.json import dump

        return dump({**self.values, self.name: self.rows})

    def csv(self) -> str:
        """A header with the names of the fields, then every row; an empty cell is a value that was
        not recorded."""
        from traceanalyzer.report.json import RENAMED, plain_columns

        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        names = [f.name for f in dataclasses.fields(self.row_type)]
        writer.writerow([RENAMED.get(name, name) for name in names])
        safe = functools.cache(defused)  # texts come again and again
        columns = (
            [safe(value) if type(value) is str else value for value in column]
            for column in plain_columns(self.rows)
        )
        writer.writerows(zip(*columns, strict=True))
        return file.getvalue()


def _with_more_rows(part: Part | None) -> Part | None:
    if isinstance(part, Table) and part.limit is not None:
        return dataclasses.replace(part, limit=max(part.limit, FULL_ROWS))
    return part


def defused(value: str) -> str:
    """The text without control characters but tabs and ends of lines; one that would begin a
    formula with an apostrophe before it, which spreadsheets do not show."""
    begins = value.lstrip(" \n").startswith(FORMULA)
    if not value.isprintable():
        # The csv module leaves a carriage return without quotation marks, which no reader takes.
        value = re.sub(r"[^\n\t -~]+", lambda found: plain(found[0]), value.replace("\r", "\n"))
    return "'" * begins + value
