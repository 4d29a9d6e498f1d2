"""Any table of measurements on its own, as the table commands print it."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import TYPE_CHECKING, Any

from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown_text import cell, grid_table, prose
from traceanalyzer.report.terminal_text import Page
from traceanalyzer.report.values import RENAMED, as_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.replay.whatif import Prediction


def rows_as_json(name: str, rows: Sequence[Any]) -> str:
    """`{name: [row, ...]}` with every field of a row."""
    return dump({name: rows})


def rows_as_csv(rows: Sequence[Any], row_type: type[Any]) -> str:
    """A header with the names of the fields, then the rows; an empty cell is a value that was not recorded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([RENAMED.get(f.name, f.name) for f in dataclasses.fields(row_type)])
    writer.writerows(as_plain(row).values() for row in rows)
    return file.getvalue()


def rows_as_markdown(rows: Sequence[Any]) -> str:
    """A table with its definitions below."""
    if not rows:
        return EMPTY
    grid = make_grid(rows)
    head, lines = grid_table(grid)
    remarks = [line for remark in grid.remarks for line in ("", prose(remark))]
    defined = [f"- **{cell(name)}**: {prose(text)}" for name, text in grid.definitions]
    return "\n".join([*head, *lines, *remarks, "", *defined, ""])


def rows_as_terminal(rows: Sequence[Any], width: int, colour: bool) -> str:
    """A table with its definitions below, `width` columns wide."""
    if not rows:
        return EMPTY
    page = Page(width, colour)
    grid = make_grid(rows)
    page.grid(grid)
    page.line("")
    page.facts(grid.definitions, "dim")
    return page.text()


def scenarios_as_terminal(scenarios: Sequence[Prediction], width: int, colour: bool) -> str:
    """Predicted step times, then in full what each assumes (combinations assume what their parts do), and why there is
    none of the others."""
    told = [s for s in scenarios if s.step_ms is not None]
    ranged = any(s.low_ms != s.step_ms or s.high_ms != s.step_ms for s in told)
    hidden = {"basis"} | (set() if ranged else {"low", "high"})
    page = Page(width, colour)
    grid = make_grid(told)
    page.grid(dataclasses.replace(grid, columns=[c for c in grid.columns if c.label not in hidden]))
    page.line("")
    page.facts([(name, text) for name, text in grid.definitions if name not in hidden], "dim")
    ids = {s.id for s in scenarios}
    single = [s for s in told if "+" not in s.id or not ids.issuperset(s.id.split("+"))]
    groups = (("What each assumes", single), ("Not predicted", [s for s in scenarios if s.step_ms is None]))
    for title, members in groups:
        if members:
            page.title(title)
            page.facts([(s.id, s.basis) for s in members])
    return page.text()


EMPTY = "No rows: the recording holds none.\n"
