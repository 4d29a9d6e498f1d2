"""A document as GitHub Markdown: long tables folded, never longer than it may be. Where there is no
room, whole rows go, then whole sections, the least important first; each is mentioned."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, zip_longest
from typing import Any

from traceanalyzer.report import document as doc
from traceanalyzer.report.format import figure
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.markdown.escape import Lines, cell, grid_table, markdown_table, prose

MARKER_LENGTH = 60  # room for the line that says how many rows were left out
LEAST_ROWS = 5  # rows that a table keeps as long as whole sections can go instead
LEAST_ITEMS = 10  # numbered paragraphs that stay as long as whole tables can go instead


@dataclass
class TextBlock:
    """A stretch of the document. `rows` may be dropped from the bottom, or all of it; other lines
    stay together."""

    before: list[str]
    rows: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    noun: str = "rows"
    title: str = ""
    belongs_to_before: bool = False
    has_content: bool = True  # below its title
    weight: doc.Weight = doc.Weight.ANSWER
    least_rows: int = LEAST_ROWS
    left_out: int = 0

    def lines(self) -> list[str]:
        """All of them."""
        return [*self.before, *self.rows, *self.after]

    def text(self) -> str:
        """Its lines, with a word about the rows left out."""
        marker = (
            ["", f"*{figure(self.left_out)} more {self.noun} left out.*"] if self.left_out else []
        )
        return "\n".join([*self.before, *self.rows, *marker, *self.after, ""])


def fitted_blocks(blocks: Sequence[TextBlock], limit: int) -> str:
    """The document in at most `limit` characters, as far as the blocks that never go allow it."""
    _trim(blocks, limit, lambda block: block.least_rows)
    kept = list(range(len(blocks)))
    for index in sorted(kept, key=lambda index: (blocks[index].weight, -index)):
        if blocks[index].weight >= doc.Weight.METRICS:
            _trim(
                [blocks[i] for i in kept],
                limit - len(_note(blocks, kept, limit)),
                lambda _: 1,
            )
        if len(_text(blocks, kept, limit)) <= limit or blocks[index].weight == doc.Weight.ANSWER:
            break
        kept.remove(index)
    return _text(blocks, kept, limit)


def _trim(blocks: Sequence[TextBlock], limit: int, least: Callable[[TextBlock], int]) -> None:
    """Drop rows, always from the bottom of the block whose spare rows are longest together, until
    all fits."""
    shortened = [block.rows[least(block) :] for block in blocks]
    spare = [sum(len(row) + 1 for row in rows) for rows in shortened]
    total = sum(len(block.text()) + 1 + MARKER_LENGTH for block in blocks)
    while total > limit and max(spare, default=0) > 0:
        longest = spare.index(max(spare))
        length = len(blocks[longest].rows.pop()) + 1
        blocks[longest].left_out += 1
        spare[longest] -= length
        total -= length


def _text(blocks: Sequence[TextBlock], kept: Sequence[int], limit: int) -> str:
    """What is kept; a title goes with the last of what stood below it."""
    texts = []
    for index, below in zip_longest(kept, kept[1:]):
        is_followed = below is not None and blocks[below].belongs_to_before
        if blocks[index].has_content or is_followed:
            texts.append(blocks[index].text())
    return "\n".join(texts) + _note(blocks, kept, limit)


def _note(blocks: Sequence[TextBlock], kept: Sequence[int], limit: int) -> str:
    """The sections that are missing, in the order in which they would have come; where all below a
    title is missing, the title alone."""
    titles = dict[str, None]()
    for first, part in _parts(blocks):
        gone = [index for index in part if index not in kept]
        is_all = gone == part and not blocks[first].has_content
        named = [first] if is_all else gone
        titles |= dict.fromkeys(blocks[index].title for index in named if blocks[index].title)
    return (
        f"\n*Left out to fit {figure(limit)} characters: {', '.join(titles)}.*\n" if titles else ""
    )


def _parts(blocks: Sequence[TextBlock]) -> Iterator[tuple[int, list[int]]]:
    """The indices of blocks that begin with a title of their own, each with those below it, or
    itself where it has content."""
    starts = [i for i, block in enumerate(blocks) if not (i and block.belongs_to_before)]
    for start, end in zip(starts, [*starts[1:], len(blocks)], strict=True):
        yield start, list(range(start if blocks[start].has_content else start + 1, end))


def document_markdown(document: doc.Document, max_chars: int | None = None) -> str:
    """The document; of more than `max_chars` characters rows of the longest tables go first, then
    whole sections from the least important on, and it says so."""
    sections = doc.with_content(document.sections, draws=lambda drawing: bool(drawing.markdown))
    blocks = [_block(section) for section in sections]
    return (
        "\n".join(block.text() for block in blocks)
        if max_chars is None
        else fitted_blocks(blocks, max_chars)
    )


def _block(section: doc.Section) -> TextBlock:
    """A section; rows of its last part with rows can be left out one by one."""
    every = (_writers()[type(part)](part) for part in filter(None, section.parts))
    drawn = list(filter(TextBlock.lines, every)) or [TextBlock([])]
    filled = [i for i, block in enumerate(drawn) if block.rows]
    last = max(filled, default=len(drawn) - 1)
    before = [*chain.from_iterable((*block.lines(), "") for block in drawn[:last])]
    after = chain.from_iterable(("", *block.lines()) for block in drawn[last + 1 :])
    body = drawn[last]
    head, foot = _frame(section, len(body.rows))
    gap = [""] if head and (before or body.before or body.rows) else []
    return TextBlock(
        [*head, *gap, *before, *body.before],
        body.rows,
        [*body.after, *after, *foot],
        body.noun,
        section.title,
        section.belongs_to_before,
        bool(section.parts),
        section.weight,
        body.least_rows,
    )


@cache
def _writers() -> dict[type[Any], Callable[[Any], TextBlock]]:
    """How each kind of part is written."""
    return {
        str: lambda part: TextBlock([prose(part)]),
        doc.Paragraph: lambda part: TextBlock([prose(part.text)]),
        doc.Verdict: _verdict,
        doc.Facts: _facts,
        doc.Items: _items,
        doc.Bullets: lambda part: TextBlock(
            [], [f"- {prose(text)}" for text in part.texts], noun=part.noun
        ),
        doc.Table: _table,
        doc.TextTable: _texts,
        doc.FoldedParts: lambda part: _block(doc.Section(part.title, part.parts, folded=True)),
        doc.Drawing: lambda part: TextBlock(list(part.markdown)),
    }


def _frame(section: doc.Section, rows: int) -> tuple[Lines, Lines]:
    """What stands before and after the parts of a section."""
    if not section.title or section.untitled:
        return [], []
    if not section.folded:
        return [f"{'###' if section.is_minor else '##'} {prose(section.title)}"], []
    count = f" ({figure(rows)} rows)" if rows > 1 else ""
    return [f"<details><summary><b>{prose(section.title)}</b>{count}</summary>"], ["", "</details>"]


def _verdict(part: doc.Verdict) -> TextBlock:
    about = ["", *(f"- {prose(text)}" for text in part.about)] if part.about else []
    return TextBlock([f"**{prose(part.text)}**", *about])


def _facts(part: doc.Facts) -> TextBlock:
    if part.is_table:
        pairs = [(fact.label, fact.value) for fact in part.facts]
        return _texts(doc.TextTable(["Metric", "Value"], [False, True], pairs, is_whole=True))
    return TextBlock([f"- **{cell(fact.label)}**: {prose(fact.value)}" for fact in part.facts])


def _items(part: doc.Items) -> TextBlock:
    rows = [_item(number, item) for number, item in enumerate(part.items, 1)]
    return TextBlock([], rows, noun=part.noun, least_rows=LEAST_ITEMS)


def _texts(part: doc.TextTable) -> TextBlock:
    head, rows = markdown_table(part.headers, part.numeric, part.rows)
    return TextBlock(
        head, rows, noun=part.noun, least_rows=len(rows) if part.is_whole else LEAST_ROWS
    )


def _item(number: int, item: doc.Item) -> str:
    if item.evidence is None:
        sentences = " ".join(_ended(prose(text)) for text, _ in item.lines)
        below = [
            *([f"   {sentences}"] if sentences else []),
            *(f"   - {prose(detail)}" for detail in item.details),
        ]
        return "\n".join([f"{number}. **{prose(item.title)}**", *below])
    lines = [f"### {number}. {prose(item.title)}", "", *(prose(text) for text, _ in item.lines)]
    if item.evidence:
        head, rows = markdown_table(
            ("Evidence", "Value", "Where"), (False, True, False), item.evidence
        )
        lines += ["", *head, *rows]
    return "\n".join([*lines, ""])


def _ended(text: str) -> str:
    return text if text.endswith(":") else f"{text}."


def _table(part: doc.Table) -> TextBlock:
    if not part.rows:
        return TextBlock([])
    grid = make_grid(part.rows, part.origin_ns, part.chosen)
    head, rows = grid_table(grid)
    remarks = [*grid.remarks, *part.remarks]
    after = [line for remark in remarks for line in ("", prose(remark))]
    if part.defined:
        defined = (f"- **{cell(name)}**: {prose(text)}" for name, text in grid.definitions)
        after += ["", "<details><summary>Definitions</summary>", "", *defined, "", "</details>"]
    return TextBlock(
        [*part.chart, *([""] if part.chart else []), *head],
        rows,
        after,
    )
