"""Text from a recording made safe for GitHub Markdown: names are hostile until shown otherwise."""

import re
from collections.abc import Sequence

from traceanalyzer.base import regex
from traceanalyzer.report.format import plain, shorten
from traceanalyzer.report.grid import Grid

CELL_LIMIT = 160
"""Characters of a name in a table: template arguments of C++ kernels run to thousands."""
PROSE_LIMIT = 1000
SPECIAL = regex(r"([\\`*_{}\[\]<>|~$&!])")
TRIGGERS = regex(r"([@#]|:(?=//)|\bwww(?=\.)|\bGH(?=-\d)|:(?=\w+:))")
"""What GitHub turns into mentions, references, links and emoji even where Markdown's escapes are
used."""
LINE_START = regex(r"^([-+]|=+|\d+[.)])(?=\s|$)")  # what starts a list or underlines a heading
Lines = list[str]

BREAK = "\u200b"  # a zero-width space after a trigger disarms it and is not seen
SAFE_CELL = regex(r"^(?!.*:\w+:)(?:<(?=\d))?(?:[\w ,.;:()/+%='-](?<!_))*")


def prose(text: str) -> str:
    """Text within a sentence: shown as it is, on one line."""
    if not text.strip():
        return BREAK
    escaped = SPECIAL.sub(r"\\\1", shorten(plain(text), PROSE_LIMIT).strip())
    return LINE_START.sub(rf"\1{BREAK}", TRIGGERS.sub(rf"\1{BREAK}", escaped))


def cell(text: str) -> str:
    """Text in a table cell: names with special characters become code."""
    text = shorten(plain(text), CELL_LIMIT).strip()
    if SAFE_CELL.fullmatch(text) and not TRIGGERS.search(text):
        return text
    # A backslash before an escaped pipe would escape the escape.
    return code(text.replace("\\|", f"\\{BREAK}|")).replace("|", "\\|")


def code(text: str) -> str:
    """A code span that holds the text whatever backticks are in it."""
    longest_run = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest_run + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def markdown_table(
    headers: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]
) -> tuple[Lines, Lines]:
    """Lines of a table: head and rows. Cells are raw text."""
    head = [_line(headers), _line(["---:" if right else "---" for right in numeric])]
    return head, [_line([cell(c) for c in row]) for row in rows]


def grid_table(grid: Grid) -> tuple[Lines, Lines]:
    """Lines of a grid: head and rows."""
    rows = list(zip(*(c.cells for c in grid.columns), strict=True))
    return markdown_table(
        [c.header for c in grid.columns],
        [not c.is_text for c in grid.columns],
        rows,
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
