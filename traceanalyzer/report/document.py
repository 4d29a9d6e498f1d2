"""What a command prints: a value that can be written in several formats. `cli/output.py` asks it for the one wanted."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
from dataclasses import field
from typing import TYPE_CHECKING, Any

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.escape import cell, grid_table, prose
from traceanalyzer.report.values import RENAMED, plain_columns

if TYPE_CHECKING:
    from collections.abc import Sequence


class Document:
    """A result. A format that it does not have is not among its command's `--format`."""

    def terminal(self, width: int, colour: bool) -> str:
        """For people, `width` columns wide."""
        raise NotImplementedError

    def markdown(self) -> str:
        """For an issue."""
        raise NotImplementedError

    def json(self) -> str:
        """For programs."""
        raise NotImplementedError

    def csv(self) -> str:
        """For a spreadsheet."""
        raise NotImplementedError

    def html(self) -> str:
        """A page for a browser."""
        raise NotImplementedError

    def svg(self) -> str:
        """One picture, for where no page can be shown."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rows(Document):
    """Rows of one dataclass; `name` is their key in JSON. People are shown `shown`, where that is not all of them."""

    name: str
    rows: Sequence[Any]
    row_type: type[Any]
    none: str = "No rows."
    shown: Sequence[Any] | None = None
    remarks: Sequence[str] = field(default_factory=tuple)
    """Sentences below the table, for people."""
    columns: Sequence[str] | None = None
    """The columns that people are shown, in order; None: as many as there is room for."""
    totals: Rows | None = None
    """What sums it up, which people are shown below; its title is `title`."""
    title: str = ""

    def terminal(self, width: int, colour: bool) -> str:
        """The table, without definitions: `explain` has them."""
        from traceanalyzer.report.terminal.drawing import INDENT, Page  # rich takes as long as a small recording

        page = Page(width, colour)
        if not self.rows:
            page.line(self.none)
            return page.text()
        page.grid(make_grid(self._people, chosen=self.columns))
        for remark in self.remarks:
            page.line(remark, "dim", INDENT)
        if self.totals and self.totals.rows:
            page.line("")
            page.line(self.totals.title, "bold")
            return page.text() + self.totals.terminal(width, colour)
        return page.text()

    def markdown(self) -> str:
        """The table with its definitions folded below."""
        if not self.rows:
            return f"{prose(self.none)}\n"
        grid = make_grid(self._people, chosen=self.columns)
        head, lines = grid_table(grid)
        remarks = [line for remark in (*grid.remarks, *self.remarks) for line in ("", prose(remark))]
        defined = [f"- **{cell(name)}**: {prose(text)}" for name, text in grid.definitions]
        folded = ["", "<details><summary>Definitions</summary>", "", *defined, "", "</details>", ""]
        text = "\n".join([*head, *lines, *remarks, *folded])
        if self.totals and self.totals.rows:
            return f"{text}\n**{prose(self.totals.title)}**\n\n{self.totals.markdown()}"
        return text

    def json(self) -> str:
        """`{name: [row, ...]}` with every field of every row."""
        return dump({self.name: self.rows})

    def csv(self) -> str:
        """A header with the names of the fields, then every row; an empty cell is a value that was not recorded."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([RENAMED.get(f.name, f.name) for f in dataclasses.fields(self.row_type)])
        safe = functools.cache(defused)  # texts come again and again
        columns = plain_columns(self.rows)
        safely = [[safe(value) if type(value) is str else value for value in column] for column in columns]
        writer.writerows(zip(*safely, strict=True))
        return file.getvalue()

    @property
    def _people(self) -> Sequence[Any]:
        return self.rows if self.shown is None else self.shown


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that spreadsheets take for a formula, and run
(https://owasp.org/www-community/attacks/CSV_Injection)."""


def defused(value: str) -> str:
    """A text that would begin a formula with an apostrophe before it, which spreadsheets do not show."""
    begins = value.lstrip(" \n").startswith(FORMULA)
    # The csv module leaves a carriage return without quotation marks, which no reader takes.
    return ("'" if begins else "") + value.replace("\r", "\n")
