"""What a command prints, as one value that every output draws: `Document`.

How to print something new: build its document, and give it to `cli.output.emit` as
`printed.Printed`, with the values that `--format json` has. Nothing else is needed.

    sections = [
        Section("Verdict", [Verdict("Rank 3 never launched all_reduce 17.", ["confidence: high"])]),
        Section("Ranks", ["In order of their last event.", Table(rows)]),   # rows of one dataclass
        Section("Advice", [Items([Item("Check the host of rank 3", details=["its CPU stopped, too"])])]),
    ]
    emit(Printed(Document("Who stopped first", sections), {"verdict": ..., "ranks": rows}), output)

Parts stand in the order given; a renderer leaves out what its medium cannot show (a `Drawing` in a
terminal). Names and units of columns come from the `metric(...)` of the rows. What is costly to
make is a function: `Drawing(make=...)` is called for a page alone. The renderers are
`terminal/render.py`, `markdown/render.py` and `html/render.py`."""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from traceanalyzer.base import dataclass
from traceanalyzer.version import __version__

Row: TypeAlias = Any  # an instance of a dataclass whose fields are figures


class Weight(enum.IntEnum):
    """What a section is worth where there is no room for all: those of the least weight go first.
    The answer stays."""

    GROUP = 1
    TABLE = 2
    CHART = 3
    FIGURES = 4
    HEALTH = 5
    METRICS = 6
    ADVICE = 7
    ANSWER = 8


@dataclass(frozen=True)
class Fact:
    """A named figure as text, with what it means."""

    label: str
    value: str
    definition: str = ""


@dataclass(frozen=True)
class Item:
    """A numbered paragraph. `lines` (text and style) stand below it, `details` are a list below
    these."""

    title: str
    lines: Sequence[tuple[str, str]] = ()
    details: Sequence[str] = ()
    # figure, value and place; Markdown has them as a table
    evidence: Sequence[tuple[str, str, str]] | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer in a sentence, and what it rests on."""

    text: str
    about: Sequence[str] = ()
    style: str = "bold"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. `style` is one of rich's: `bold`, `dim`, `yellow`. A command is copied whole: no
    line break goes into it."""

    text: str
    style: str = ""
    is_command: bool = False


@dataclass(frozen=True)
class Facts:
    """Single figures below each other."""

    facts: Sequence[Fact]
    is_table: bool = False  # whether Markdown has a table of them

    @classmethod
    def of(cls, *pairs: tuple[str, str]) -> "Facts":
        """Of labels and values."""
        return cls([Fact(*pair) for pair in pairs])


@dataclass(frozen=True)
class Items:
    """Numbered paragraphs."""

    items: Sequence[Item]
    noun: str = "items"


@dataclass(frozen=True)
class Bullets:
    """Paragraphs behind a mark."""

    texts: Sequence[str]
    mark: str = "-"
    style: str = ""
    noun: str = "notes"


@dataclass(frozen=True)
class Table:
    """Rows of one dataclass."""

    rows: Sequence[Row]
    title: str = ""  # of a page's table; empty: the section's
    limit: int | None = None  # rows that a terminal shows; None: all
    command: str | None = None  # the command that prints all of them
    chosen: Sequence[str] | None = None  # fields to show, in order; None: all
    origin_ns: int | None = None  # what moments count from; None: the first of them
    every_column_in: str = "csv"  # the format that has the columns which a terminal has no room for
    defined: bool = False  # whether Markdown has the definitions of the columns below it
    folded: bool = False  # whether a page shows it on demand
    remarks: Sequence[str] = ()  # sentences below it
    chart: Sequence[str] = ()  # Markdown of a chart of it
    link: Callable[[Row], Any] | None = None  # from a row to the place on a page that it is about


@dataclass(frozen=True)
class TextTable:
    """Texts in rows and columns; `numeric` says which columns hold figures."""

    headers: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str]]
    title: str = ""
    noun: str = "rows"
    is_whole: bool = False  # whether its rows stay together where there is no room for all


@dataclass(frozen=True)
class FoldedParts:
    """Parts that a page shows on demand."""

    title: str
    parts: "Sequence[Part | None]"


@dataclass(frozen=True)
class Drawing:
    """What some media alone can show: HTML, made where a page is drawn (None: nothing), and lines
    of Markdown."""

    make: Callable[[], Any] | None = None
    markdown: Sequence[str] = ()


Part: TypeAlias = (
    str | Verdict | Paragraph | Facts | Items | Bullets | Table | TextTable | FoldedParts | Drawing
)


@dataclass(frozen=True)
class Section:
    """A title and what stands below it, from top to bottom. A text is a paragraph (an empty
    one a blank line of a terminal), and what is None is left out."""

    title: str
    parts: Sequence[Part | None] = ()
    is_minor: bool = False  # whether it belongs to the section before
    folded: bool = False  # whether it is for who wants to know more
    # whether its title is only named (in navigation, or where the section was left out)
    untitled: bool = False
    weight: Weight = Weight.ANSWER
    id: str = ""  # its address on a page; empty: a number

    @property
    def belongs_to_before(self) -> bool:
        """Whether it stands under the title of a section before it."""
        return self.is_minor or self.folded or self.untitled


def part_of_report(title: str, sections: Iterable[Section]) -> list[Section]:
    """A heading, and these sections below it."""
    return [Section(title), *(replace(section, is_minor=True) for section in sections)]


@dataclass(frozen=True)
class Document:
    """A title and sections."""

    title: str
    sections: Sequence[Section]
    scripts: Sequence[str] = ()  # files of `html/assets` that its page needs
    made_by: str = f"traceanalyzer {__version__}"  # program and version


def evidence_line(evidence: tuple[str, str, str]) -> str:
    """A figure of a finding on a line."""
    name, value, where = evidence
    return f"{name}: {value.removesuffix('.')}, {where}" if where else f"{name}: {value}"


def with_content(sections: Sequence[Section], draws: Callable[[Drawing], bool]) -> list[Section]:
    """The sections that have something below their titles: parts, or minor sections with parts.
    `draws` says whether a medium shows a drawing."""
    kept = list[Section]()
    for section in reversed(sections):
        has_minor = bool(kept) and kept[-1].belongs_to_before and not section.belongs_to_before
        if has_minor or any(_has_content(part, draws) for part in section.parts):
            kept.append(section)
    return kept[::-1]


def _has_content(part: Part | None, draws: Callable[[Drawing], bool]) -> bool:
    match part:
        case Drawing():
            return draws(part)
        case FoldedParts():
            return any(_has_content(inner, draws) for inner in part.parts)
        case Paragraph():
            return bool(part.text)
        case Facts():
            return bool(part.facts)
        case Items():
            return bool(part.items)
        case Bullets():
            return bool(part.texts)
        case Table() | TextTable():
            return bool(part.rows)
        case _:
            return bool(part)
