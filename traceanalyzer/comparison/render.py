"""Comparisons drawn for the terminal and for Markdown, its changes for a spreadsheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.comparison.outline import ChangeRow, Section, change_rows, sections
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.markdown_text import grid_table, prose
from traceanalyzer.report.rows import rows_as_csv
from traceanalyzer.report.terminal_text import DEFAULT_WIDTH, INDENT, Page

if TYPE_CHECKING:
    from traceanalyzer.comparison.model import Comparison


def comparison_as_terminal(comparison: Comparison, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
    """The comparison as text `width` columns wide."""
    page = Page(width, colour)
    for section in sections(comparison):
        if section.folded:
            page.title(section.title)
        else:
            page.heading(section.title)
        for i, line in enumerate(section.lines):
            page.line(line, "bold" if section.title == "Comparison" and not i else "", INDENT if section.folded else 0)
        if section.rows:
            page.grid(make_grid(section.rows))
    return page.text().lstrip("\n")


def comparison_as_markdown(comparison: Comparison) -> str:
    """The comparison for an issue or a pull request."""
    return "\n".join(line for section in sections(comparison) for line in _block(section))


def comparison_as_csv(comparison: Comparison) -> str:
    """Every change, a row each."""
    return rows_as_csv(change_rows(comparison), ChangeRow)


def _block(section: Section) -> list[str]:
    title = f"<details><summary>{prose(section.title)}</summary>" if section.folded else f"## {section.title}"
    lines = [title, ""]
    if section.title == "Comparison":
        lines += [f"**{prose(section.lines[0])}**", "", *(f"- {prose(line)}" for line in section.lines[1:]), ""]
    else:
        lines += [text for line in section.lines for text in (prose(line), "")]
    if section.rows:
        grid = make_grid(section.rows)
        head, rows = grid_table(grid)
        lines += [*head, *rows, "", *(text for remark in grid.remarks for text in (prose(remark), ""))]
    return [*lines, "</details>", ""] if section.folded else lines
