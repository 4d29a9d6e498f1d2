"""A document in a terminal."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from traceanalyzer.report import document as doc
from traceanalyzer.report.format import DEFAULT_WIDTH
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.names.kernel_labels import label_width
from traceanalyzer.report.terminal.drawing import INDENT, TerminalPage


def document_terminal(
    document: doc.Document,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    labels: Mapping[str, str] | None = None,
) -> str:
    """The document as text `width` columns wide; sections without content are left out. Evidence on
    a kernel calls it by its label, as tables do."""
    page = TerminalPage(width, colour, labels)
    for section in doc.with_content(document.sections, draws=lambda _: False):
        if section.title and not section.untitled:
            (page.title if section.is_minor or section.folded else page.heading)(section.title)
        for part in section.parts:
            draw(page, part, INDENT if section.folded else 0)
    return page.text().lstrip("\n")


def draw(page: TerminalPage, part: doc.Part | None, indent: int = 0) -> None:
    """A part of a document; drawings are for other media."""
    if part is not None:
        _drawers()[type(part)](page, part, indent)


@cache
def _drawers() -> dict[type[Any], Callable[[TerminalPage, Any, int], None]]:
    """How each kind of part is drawn."""
    return {
        str: lambda page, part, indent: page.line(part, indent=indent),
        doc.Paragraph: _paragraph,
        doc.Verdict: _verdict,
        doc.Facts: _facts,
        doc.Items: _items,
        doc.Bullets: _bullets,
        doc.Table: _table,
        doc.TextTable: lambda page, part, _: page.texts(part.headers, part.numeric, part.rows),
        doc.FoldedParts: _fold,
        doc.Drawing: lambda *_: None,
    }


def _paragraph(page: TerminalPage, part: doc.Paragraph, indent: int) -> None:
    if part.is_command:
        page.uncut(part.text, part.style)
    else:
        page.line(part.text, part.style, indent)


def _verdict(page: TerminalPage, part: doc.Verdict, indent: int) -> None:
    page.line(part.text, part.style, indent)
    for text in part.about:
        page.line(text, indent=indent)


def _bullets(page: TerminalPage, part: doc.Bullets, _: int) -> None:
    for text in part.texts:
        page.item(part.mark, text, part.style)


def _fold(page: TerminalPage, part: doc.FoldedParts, indent: int) -> None:
    page.title(part.title)
    for inner in part.parts:
        draw(page, inner, indent)


def _items(page: TerminalPage, part: doc.Items, _: int) -> None:
    for number, item in enumerate(part.items, 1):
        page.item(f"{number}.", item.title, "bold")
        for text, style in item.lines:
            page.line(text, style, INDENT + 1)
        evidence = [
            (name, value, page.labelled(where)) for name, value, where in item.evidence or ()
        ]
        for detail in (*map(doc.evidence_line, evidence), *item.details):
            page.item("-", detail, indent=INDENT + 1)
        if item.lines:
            page.line("")


def _table(page: TerminalPage, table: doc.Table, _: int) -> None:
    if not table.rows:
        return
    width_of_labels = label_width(page.width)
    grid = make_grid(table.rows, table.origin_ns, table.chosen, width_of_labels=width_of_labels)
    every_column = f"--format {table.every_column_in}"
    if table.command:
        every_column = f"traceanalyzer show {table.command} --format csv"
    page.grid(grid if table.limit is None else grid.head(table.limit), every_column)
    if table.limit is not None and len(table.rows) > table.limit:
        where = (
            f"traceanalyzer show {table.command} prints all"
            if table.command
            else "--format json has all"
        )
        page.line(f"First {table.limit} of {len(table.rows):,} rows; {where}.", "dim", INDENT)
    for remark in table.remarks:
        page.line(remark, "dim", INDENT)


def _facts(page: TerminalPage, part: doc.Facts, _: int) -> None:
    page.facts([(fact.label, fact.value) for fact in part.facts])
