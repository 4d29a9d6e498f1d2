"""A comparison as a document: for the terminal, for Markdown, its changes for a spreadsheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.comparison.outline import ChangeRow, Section, change_rows, sections
from traceanalyzer.comparison.pages import picture, render_html
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.document import Document, Rows
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.escape import grid_table, prose
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.terminal.drawing import DEFAULT_WIDTH, INDENT, Page
from traceanalyzer.report.terminal.screen import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.timeline.lanes import Timeline


@dataclass(frozen=True)
class ComparisonPage(Document):
    """A comparison."""

    comparison: Comparison
    steps: Sequence[Timeline | None] = ()
    """A step of either side event by event, for the page; None where a side was no recording."""
    full: bool = False
    """Whether a terminal shows more than the answer."""

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """The answer, and on demand all of it."""
        page = Page(width, colour)
        every = sections(self.comparison)
        for section in every:
            if not self.full and not section.first:
                continue
            if section.folded or (not self.full and section.title != "Comparison"):
                page.title(section.title)
            elif self.full:
                page.heading(section.title)
            for i, line in enumerate(section.lines):
                first = section.title == "Comparison" and not i
                page.line(line, "bold" if first else "", INDENT if section.folded else 0)
            if section.rows:
                page.grid(make_grid(section.rows if self.full else self._longest(section.rows)))
        if not self.full:
            _rest(page, every)
        return page.text().lstrip("\n")

    def _longest(self, rows: list[Any]) -> list[Any]:
        """The first rows of a table with its last two, the rest and the total."""
        return rows if len(rows) <= SHOWN_ROWS else [*rows[: SHOWN_ROWS - 2], *rows[-2:]]

    def markdown(self, max_chars: int | None = None) -> str:
        """For an issue or a pull request; with `max_chars` without the sections for which there is no room."""
        blocks = [(section.title, "\n".join(_block(section))) for section in sections(self.comparison)]
        for title in ("", *LEAST_FIRST):
            if max_chars is None or sum(len(text) + 1 for _, text in blocks) <= max_chars:
                break
            blocks = [block for block in blocks if block[0] in KEPT] if not title else blocks
            blocks = [block for block in blocks if block[0] != title]
        return "\n".join(text for _, text in blocks)

    def json(self) -> str:
        """All of it."""
        return dump(self.comparison)

    def csv(self) -> str:
        """Every change, a row each."""
        return Rows("changes", change_rows(self.comparison), ChangeRow).csv()

    def html(self) -> str:
        """A page: the waterfall from A to B, the sections, a step of both on one time axis."""
        return render_html(self.comparison, self.steps)

    def svg(self) -> str:
        """The waterfall."""
        return picture(self.comparison)


def _rest(page: Page, every: list[Section]) -> None:
    """Notes, which may spoil the answer, and what there is beside it."""
    for note in next((section.lines for section in every if section.title == "Notes"), [])[:SHOWN_NOTES]:
        page.item("!", brief(note), "yellow")
    made_of = ["what the changes are made of"] if any(section.folded for section in every) else []
    others = [s.title[0].lower() + s.title[1:] for s in every if not (s.first or s.folded)]
    if made_of or others:
        page.line("")
        page.line(f"With --full: {', '.join([*made_of, *others])}. -o change.html draws it.", "dim")


SHOWN_ROWS, SHOWN_NOTES = 9, 2
"""Changes and notes on the first screen."""
LEAST_FIRST = (
    "Notes",
    "GPU memory at the peak, by line",
    "Other figures",
    "Conditions that differ",
    "The step's budget",
)
"""Sections that go where there is no room, after those that explain single changes."""
KEPT = ("Comparison", "Not like for like", "Where the difference comes from", *LEAST_FIRST)
LEAST_REPORT = 4_000
"""Characters without which a report below a comparison says too little."""


def with_comparison(comparison: Comparison, report: Report, max_chars: int) -> str:
    """What changed, and below it the report of B folded, as Markdown of at most `max_chars` characters where the
    comparison's answer allows it."""
    changed = ComparisonPage(comparison).markdown(max_chars)
    room = max_chars - len(changed) - len(FOLDED.format(""))
    return changed if room < LEAST_REPORT else changed + FOLDED.format(render_markdown(report, room))


FOLDED = "\n<details><summary>Where the time goes now</summary>\n\n{}\n</details>\n"


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
