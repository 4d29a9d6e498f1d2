"""Drawing for terminals: plain text in, nothing of it ever read as markup or as an escape sequence. rich
draws what is more than lines and a table of figures; to load it takes as long as to print kept rows."""

import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING

from rich.cells import cell_len

from traceanalyzer.analysis.names.kernel_names import briefest_name
from traceanalyzer.base import plural
from traceanalyzer.report.format import DEFAULT_WIDTH, plain, shorten
from traceanalyzer.report.grid import Grid, ShownColumn
from traceanalyzer.report.names.told_apart import told_apart

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SEPARATOR = 2
INDENT = 2
NAME_WIDTH = 28  # least width of a table's first text column, which says what a row is about
TEXT_WIDTH = 14
LONGEST_CELL = 300  # characters of a text in a table of texts
LINES_OF_TEXT = 2  # lines that a name may take in a table before its middle is left out
MEANINGS = {
    "BREACHED": "bold red",
    "holds": "green",
    "slower": "red",
    "faster": "green",
}  # by what is in the cell
ANSI_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
"""Of the words of a style (ECMA-48, 8.3.117)."""
TURNED_ROWS = 2
TURNED_FIELDS = 18
"""So many rows fit side by side in 80 columns when a table is turned, names included, and so many
fields a screen."""


class TerminalPage:
    """Text drawn from top to bottom at a fixed width."""

    def __init__(
        self,
        width: int = DEFAULT_WIDTH,
        colour: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`labels`: what kernels are called."""
        self.width = width
        self._labels = labels or {}
        self._file = io.StringIO()
        self._colour = colour

    @cached_property
    def _console(self) -> "Console":
        from rich.console import Console

        return Console(
            file=self._file,
            width=self.width,
            force_terminal=self._colour,
            color_system="standard" if self._colour else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def labelled(self, name: str) -> str:
        """A kernel's label, with what stands in brackets behind it; any other text as it is."""
        if name in self._labels:
            return self._labels[name]
        kernel, bracket, remark = name.partition(" (")
        return f"{self._labels.get(kernel, kernel)}{bracket}{remark}"

    def text(self) -> str:
        """What was drawn, without trailing blanks."""
        return "\n".join(map(str.rstrip, self._file.getvalue().split("\n")))

    def heading(self, title: str) -> None:
        """A section begins."""
        self.title(title)
        self.line("─" * len(title), "dim")

    def title(self, title: str) -> None:
        """A table or a group begins."""
        self._file.write("\n")
        self.line(title, "bold")

    def line(self, text: str, style: str = "", indent: int = 0) -> None:
        """A paragraph."""
        text = plain(text)
        width = self.width - indent
        if _breaks_at_blanks(text, width):
            *lines, last = _lines(text, width)
            # as rich has them: the blank that a line breaks at stays in it where there is room
            filled = [f"{line} "[:width] for line in lines]
            for line in (*filled, last):
                self._file.write(f"{' ' * indent}{self._styled(line, style)}\n")
            return
        from rich.padding import Padding
        from rich.text import Text

        self.draw(Padding(Text(text, style), (0, 0, 0, indent)))

    def uncut(self, text: str, style: str = "") -> None:
        """A line that is copied whole: a terminal folds it, no line break goes into it."""
        self._file.write(f"{self._styled(plain(text), style)}\n")

    def item(self, mark: str, text: str, style: str = "", indent: int = 0) -> None:
        """A paragraph that hangs behind its mark."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1, 0, 0))
        table.add_row(Text(mark, style), Text(plain(text), style))
        self.draw(Padding(table, (0, 0, 0, indent)))

    def facts(self, facts: Sequence[tuple[str, str]], style: str = "") -> None:
        """Names with what they are, in two columns."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, SEPARATOR))
        table.add_column(max_width=max(self.width // 3, TEXT_WIDTH))
        # A path or a command is copied whole: it goes on in the next line.
        table.add_column(ratio=1, overflow="fold")
        for name, value in facts:
            table.add_row(Text(plain(name), style or "cyan"), Text(plain(value), style))
        self.draw(Padding(table, (0, 0, 0, INDENT)))

    def grid(self, grid: Grid, every_column: str = "--format csv") -> None:
        """A table with its remarks; a table of few rows that is too wide is turned, one field a
        line. `every_column` is what has all columns of it."""
        columns = [self._with_labels(column) for column in grid.columns]
        grid = dataclasses.replace(grid, columns=columns)
        chosen, left_out = _fitting(grid.columns, self.width - INDENT)
        remarks = grid.remarks
        if left_out and grid.rows <= TURNED_ROWS:
            worthy = sorted(grid.columns, key=lambda column: column.worth)[:TURNED_FIELDS]
            left_out = [column for column in grid.columns if column not in worthy]
            self._turned([c for c in grid.columns if c in worthy])
        else:
            self._file.writelines(
                f"{' ' * INDENT}{line}\n" for line in self._table(chosen, self.width - INDENT)
            )
        if left_out:
            more = f"{len(left_out)} more {plural('column', len(left_out))}"
            kept = remarks[:1] if grid.constant else []
            remarks = [*kept, f"{more}: {every_column} has all."]
        for remark in remarks:
            self.line(remark, "dim", INDENT)

    def _with_labels(self, column: ShownColumn) -> ShownColumn:
        """A column of texts with kernels called as everywhere in the report."""
        if not column.is_text or column.labels:
            return column
        return dataclasses.replace(column, cells=list(map(self.labelled, column.cells)))

    def texts(
        self, headers: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]
    ) -> None:
        """A table of texts, which are shown in full on as many lines as they need."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, SEPARATOR, 0, 0), pad_edge=False, header_style="bold")
        for header, right in zip(headers, numeric, strict=True):
            table.add_column(Text(header), justify="right" if right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(shorten(plain(cell), LONGEST_CELL)) for cell in row))
        self.draw(table)

    def _table(self, columns: list[ShownColumn], width: int) -> Iterator[str]:
        """Its lines, those of a row at once. A table may have tens of thousands of rows, of which
        rich draws four in a millisecond: what they say comes again and again, and is laid out
        once."""
        widths = _widths(columns, width)
        blanks = [" " * wide for wide in widths]
        yield from _side_by_side(self._headers(columns, widths), blanks)
        if not columns:
            return
        texts = _rows_of(
            [
                _shown_apart(one, wide)
                for one, wide in zip(columns, widths, strict=True)
                if one.is_text
            ]
        )
        figures = _rows_of([one for one in columns if not one.is_text])
        template = cache(partial(self._template, columns, widths, blanks))
        for cells, row in zip(texts, figures, strict=False):
            yield template(cells) % row

    def _headers(self, columns: list[ShownColumn], widths: list[int]) -> list[list[str]]:
        """The lines of each column's header, the last ones in one line."""
        headers = []
        for column, wide in zip(columns, widths, strict=True):
            fitted = [_fitted(line, wide) for line in _lines(plain(column.header), wide)]
            headers.append(
                [self._padded(line, wide, "bold", left=column.is_text) for line in fitted]
            )
        height = max(map(len, headers), default=0)
        sized = zip(headers, widths, strict=True)
        return [[" " * wide] * (height - len(lines)) + lines for lines, wide in sized]

    def _template(
        self,
        columns: list[ShownColumn],
        widths: list[int],
        blanks: list[str],
        texts: tuple[str, ...],
    ) -> str:
        """A row with its texts, and places for its figures that `%` fills in."""
        rest = iter(texts)
        cells = []
        for column, wide in zip(columns, widths, strict=True):
            cells.append(self._text_lines(next(rest), wide) if column.is_text else [f"%{wide}s"])
        return f"\n{' ' * INDENT}".join(_side_by_side(cells, blanks))

    def _text_lines(self, cell: str, width: int) -> list[str]:
        """Lines of a text as wide as the column, with nothing in them that `%` would fill in."""
        style = MEANINGS.get(cell, "")
        lines = wrapped(plain(cell), width).split("\n")
        return [self._padded(line, width, style, left=True).replace("%", "%%") for line in lines]

    def _padded(self, text: str, width: int, style: str, *, left: bool) -> str:
        blank = " " * (width - cell_len(text))
        drawn = self._styled(text, style)
        return drawn + blank if left else blank + drawn

    def _styled(self, text: str, style: str) -> str:
        if not (self._colour and style and text):
            return text
        codes = ";".join(ANSI_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"

    def _turned(self, columns: Sequence[ShownColumn]) -> None:
        """Columns as lines, a row beside the other."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, SEPARATOR, 0, 0))
        for _ in range(TURNED_ROWS + 1):
            table.add_column(overflow="fold")
        for column in columns:
            cells = (Text(plain(cell), MEANINGS.get(cell, "")) for cell in column.cells)
            table.add_row(Text(plain(column.header), "cyan"), *cells)
        self.draw(Padding(table, (0, 0, 0, INDENT)))

    def draw(self, what: "RenderableType") -> None:
        """Anything rich can draw."""
        self._console.print(what)


def _fitting(columns: list[ShownColumn], width: int) -> tuple[list[ShownColumn], list[ShownColumn]]:
    """The columns there is room for and the others: the row's name first, then by what they are
    worth."""
    named = _naming(columns)
    order = sorted(
        range(len(columns)),
        key=lambda i: (i != named, columns[i].worth, i),
    )
    fitting = set()
    used = -SEPARATOR
    for i in order:
        needed = _least_width(columns[i], first=i == named) + SEPARATOR
        if used + needed <= width:
            used += needed
            fitting.add(i)
    return [columns[i] for i in sorted(fitting)], [
        c for i, c in enumerate(columns) if i not in fitting
    ]


def _naming(columns: list[ShownColumn]) -> int:
    """The column that says what a row is: its name, else its first text; -1 without any."""
    texts = [i for i, column in enumerate(columns) if column.is_text]
    named = [i for i in texts if columns[i].name == "name"]
    return next(iter(named or texts), -1)


def _rows_of(columns: list[ShownColumn]) -> Iterable[tuple[str, ...]]:
    """Their cells row by row; of no columns, as many rows as there may be."""
    return zip(*(column.cells for column in columns), strict=True) if columns else repeat(())


def _side_by_side(cells: Sequence[list[str]], blanks: list[str]) -> Iterator[str]:
    """The lines of a row, of cells that have some each; `blanks`: what stands below one that has
    fewer."""
    height = max(map(len, cells), default=0)
    if height > min(map(len, cells), default=0):
        padded = zip(cells, blanks, strict=True)
        cells = [cell + [blank] * (height - len(cell)) for cell, blank in padded]
    return map((" " * SEPARATOR).join, zip(*cells, strict=True))


def _widths(columns: list[ShownColumn], width: int) -> list[int]:
    """Widths of the columns: text shares what the figures leave."""
    named = _naming(columns)
    widths = [_least_width(c, first=i == named) for i, c in enumerate(columns)]
    spare = width - sum(widths) - SEPARATOR * (len(widths) - 1)
    for i, column in enumerate(columns):
        grown = min(max(spare, 0), _full_width(column) - widths[i]) if column.is_text else 0
        widths[i] += grown
        spare -= grown
    return widths


def _least_width(column: ShownColumn, first: bool) -> int:
    if not column.is_text:
        return max(_longest_word(column.header), *map(len, column.cells))
    if column.labels:
        return max(_longest_word(column.header), *map(cell_len, _labelled(column)))
    longest_word = min(max(map(_longest_word, set(column.cells)), default=0), NAME_WIDTH)
    return min(_full_width(column), NAME_WIDTH if first else max(TEXT_WIDTH, longest_word))


def _shown_apart(column: ShownColumn, width: int) -> ShownColumn:
    """The column with cells that do not read alike where they differ. A kernel has one label in all
    tables, also where one has more room."""
    if column.labels:
        return dataclasses.replace(column, cells=_labelled(column))
    if _full_width(column) <= width:
        return column
    cells = [cell if cell_len(cell) <= width else briefest_name(cell) for cell in column.cells]
    shown = told_apart(cells, width, lambda cell: wrapped(plain(cell), width))
    return dataclasses.replace(column, cells=[shown[cell] for cell in cells])


def _labelled(column: ShownColumn) -> list[str]:
    return [column.labels[cell] for cell in column.cells]


def wrapped(text: str, width: int) -> str:
    """The text on at most `LINES_OF_TEXT` lines, broken at blanks alone: what is too long loses its
    middle."""
    lines = _lines(text, width)
    if len(lines) > LINES_OF_TEXT:
        lines[LINES_OF_TEXT - 1 :] = [" ".join(lines[LINES_OF_TEXT - 1 :])]
    return "\n".join(_fitted(line, width) for line in lines)


def _lines(text: str, width: int) -> list[str]:
    """The text broken at blanks into lines of `width` columns; longer words stay whole."""
    lines = [""]
    for word in text.split(" "):
        if not lines[-1] or cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}" if lines[-1] else word
        else:
            lines.append(word)
    return lines


def _breaks_at_blanks(text: str, width: int) -> bool:
    """Whether `_lines` breaks a paragraph as rich does: no word is longer than a line, no blanks stand
    together, and each character takes a column."""
    words = text.split(" ")
    is_regular = not text or all(words)
    return is_regular and len(max(words, key=len)) <= width and cell_len(text) == len(text)


def _fitted(line: str, width: int) -> str:
    """At most `width` columns of it; characters of two columns make it shorter still."""
    limit = width
    shown = shorten(line, limit)
    while cell_len(shown) > width and limit > 1:
        limit -= 1
        shown = shorten(line, limit)
    return shown


def _full_width(column: ShownColumn) -> int:
    cells = set(_labelled(column) if column.labels else column.cells)
    return max(_longest_word(column.header), *map(cell_len, cells))


def _longest_word(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=0)
