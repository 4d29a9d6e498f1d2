"""Tables that a browser sorts and searches: every header a button with its definition, every cell a
figure for people and, where the two differ, one to sort by."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from traceanalyzer.report.document import Fact
from traceanalyzer.report.format import figure, is_figure, plain, shorten
from traceanalyzer.report.grid import TIMESTAMPS, Grid, ShownColumn, make_grid
from traceanalyzer.report.html.markup import Markup, join, tag

Link = Callable[
    [Any], Markup | None
]  # from a row to the link to its place on the timeline, None where it has none

FOLDED_FROM = 4
"""Rows from which what all have in common is a sentence: of fewer it is a column, or a table would
be a list of numbers."""
SEARCH_FROM = 8  # rows from which a table can be searched
PRINTED_COLUMNS = 8  # as the style sheet has it: more cannot be read on paper
MAX_CELL = 200  # characters of a cell's text: names of kernels reach 10,000
SHORT_CELL = len("2026-01-31 18:00")  # characters to which a text stays on one line
LONG_CELL = 24  # characters from which a column of texts gets room
FIGURE_CHARACTERS = 32  # longer than a figure with its threshold: a text
MAX_FULL_NAME = 600  # characters of a name in full, shown for the cell under the pointer


def html_table(
    title: str,
    rows: Sequence[Any],
    *,
    limit: int,
    origin_ns: int | None = None,
    link: Link | None = None,
    link_head: str = "Timeline",
    more: str = "",
) -> Markup:
    """The table of some rows (instances of one dataclass; at least one), of which `limit` are
    shown; `more` says where the others are. Moments count from `origin_ns`. The column of links, where
    there are any, has `link_head` as its head."""
    shown = rows[:limit]
    left = max(len(rows) - limit, 0)
    grid = make_grid(shown, origin_ns, folded_from=FOLDED_FROM)
    below = [tag("p", remark, class_="remark") for remark in grid.remarks]
    below += (
        [tag("p", f"{figure(left)} more rows left out{more}.", class_="remark")] if left else []
    )
    if len(grid.columns) > PRINTED_COLUMNS:
        below.append(
            tag("p", f"Printed are the first {PRINTED_COLUMNS} columns.", class_="remark paper")
        )
    search = None
    if len(shown) >= SEARCH_FROM:
        field = tag(
            "label",
            "Search ",
            tag("input", type="search", class_="search", aria_label=f"Search in {title}"),
        )
        found = tag("span", f"{figure(len(shown))} rows", class_="found", role="status")
        search = tag("p", field, found, class_="tools")
    inner = _scrolling(
        title,
        _sortable(title, shown, grid, [link(row) for row in shown] if link else [], link_head),
    )
    return tag("div", search, inner, *below, class_="tabular")


def _sortable(
    title: str, rows: Sequence[Any], grid: Grid, links: Sequence[Markup | None], link_head: str
) -> Markup:
    """The table itself, with a column of links where there are any."""
    own_fields = dataclasses.fields(rows[0])
    about = {f.name: f.metadata.get("definition", "") for f in own_fields}
    columns = [(column, _kind(column)) for column in grid.columns]
    linked = any(links)
    body = []
    for i, row in enumerate(rows):
        cells = (_cell(column, kind, i, row) for column, kind in columns)
        body.append(tag("tr", *cells, tag("td", links[i]) if linked else None))
    heads = [_head(column, about[column.name]) for column in grid.columns]
    head = tag("tr", *heads, tag("th", link_head, scope="col") if linked else None)
    return tag("table", tag("caption", title), tag("thead", head), tag("tbody", *body))


def plain_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str | None]], numeric: Sequence[bool]
) -> Markup:
    """A table of texts that is read, not sorted; `numeric` says which columns are aligned as
    figures."""
    classes = ["number" if is_number else None for is_number in numeric]
    body = []
    for row in rows:
        # A text among figures is broken into lines like any other, where a figure is not.
        cells = (
            tag(
                "td",
                cell or "",
                class_="long" if kind and len(cell or "") > FIGURE_CHARACTERS else kind,
            )
            for cell, kind in zip(row, classes, strict=True)
        )
        body.append(tag("tr", *cells))
    head = [
        tag("th", name, scope="col", class_=kind) for name, kind in zip(heads, classes, strict=True)
    ]
    inner = tag(
        "table",
        tag("caption", title),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
    )
    return tag("div", _scrolling(title, inner), class_="tabular")


def _scrolling(title: str, inner: Markup) -> Markup:
    """A place that can be scrolled sideways; scripts give it the keyboard's focus where it has more
    than is seen."""
    return tag("div", inner, class_="scroll", role="group", aria_label=title)


def _head(column: ShownColumn, definition: str) -> Markup:
    button = tag("button", column.header, type="button", class_="sort", data_def=definition or None)
    return tag(
        "th", button, scope="col", class_=None if column.is_text else "number", aria_sort="none"
    )


def _cell(column: ShownColumn, kind: str | None, index: int, row: Any) -> Markup:
    value = getattr(row, column.name)
    full = getattr(row, "full_name", None) if column.name == "name" else None
    return tag(
        "td",
        shorten(column.cells[index], MAX_CELL),
        class_=kind,
        data_v=(f"{value}" if column.name in TIMESTAMPS else f"{value:.6g}")
        if is_figure(value)
        else None,
        title=shorten(full, MAX_FULL_NAME) if full and full != value else None,
    )


def _kind(column: ShownColumn) -> str | None:
    if not column.is_text:
        return "number"
    longest = max(map(len, column.cells))
    if longest > LONG_CELL:
        return "long"
    return "short" if longest <= SHORT_CELL else None


def definition_list(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Names with their definitions."""
    return tag(
        "dl",
        *(join(tag("dt", name), tag("dd", meaning)) for name, meaning in pairs),
    )


def facts(figures: Sequence[Fact]) -> Markup:
    """Single figures; the definition is shown for the name that has the focus."""
    shown = (
        tag(
            "div",
            tag("dt", term(f.label, f.definition)),
            tag("dd", f.value),
        )
        for f in figures
    )
    return tag("dl", *shown, class_="facts")


def term(name: str, definition: str) -> Markup:
    """A name whose definition is at hand."""
    if not definition or not plain(name):
        return tag("span", name)
    return tag("button", name, type="button", class_="term", data_def=definition)
