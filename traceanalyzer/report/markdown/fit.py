"""Making a Markdown report fit: whole rows go, then whole sections, the least important first; each is mentioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from traceanalyzer.report.format import figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARKER_LENGTH = 60
"""Room for the line that says how many rows were left out."""
LEAST_ROWS = 5
"""Rows that a table keeps as long as whole sections can go instead."""


class Weight(IntEnum):
    """What a block is worth: blocks of the least weight go first, of those the last one. The answer never goes."""

    GROUP = 1
    TABLE = 2
    CHART = 3
    HEALTH = 4
    FIGURES = 5
    ADVICE = 6
    ANSWER = 7


@dataclass
class Block:
    """A stretch of the document. `rows` may be dropped from the bottom, or all of it; other lines stay together."""

    before: list[str]
    rows: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    noun: str = "rows"
    title: str = ""
    weight: Weight = Weight.ANSWER
    least_rows: int = LEAST_ROWS
    left_out: int = 0

    def text(self) -> str:
        """Its lines, with a word about the rows left out."""
        marker = ["", f"*{figure(self.left_out)} more {self.noun} left out.*"] if self.left_out else []
        return "\n".join([*self.before, *self.rows, *marker, *self.after, ""])


def fitted(blocks: Sequence[Block], limit: int) -> str:
    """The document in at most `limit` characters, as far as the blocks that never go allow it."""
    _trim(blocks, limit, lambda block: block.least_rows)
    kept = list(range(len(blocks)))
    for index in sorted(kept, key=lambda index: (blocks[index].weight, -index)):
        if blocks[index].weight == Weight.ADVICE:
            _trim([blocks[i] for i in kept], limit - len(_note(blocks, kept, limit)), lambda _: 1)
        if len(_text(blocks, kept, limit)) <= limit or blocks[index].weight == Weight.ANSWER:
            break
        kept.remove(index)
    return _text(blocks, kept, limit)


def _trim(blocks: Sequence[Block], limit: int, least: Callable[[Block], int]) -> None:
    """Drop rows, always from the bottom of the block whose spare rows are longest together, until all fits."""
    spare = [sum(len(row) + 1 for row in block.rows[least(block) :]) for block in blocks]
    total = sum(len(block.text()) + 1 + MARKER_LENGTH for block in blocks)
    while total > limit and max(spare, default=0) > 0:
        longest = spare.index(max(spare))
        length = len(blocks[longest].rows.pop()) + 1
        blocks[longest].left_out += 1
        spare[longest] -= length
        total -= length


def _text(blocks: Sequence[Block], kept: Sequence[int], limit: int) -> str:
    return "\n".join(blocks[index].text() for index in kept) + _note(blocks, kept, limit)


def _note(blocks: Sequence[Block], kept: Sequence[int], limit: int) -> str:
    """The sections that are missing, in the order in which they would have come."""
    titles = dict.fromkeys(block.title for index, block in enumerate(blocks) if index not in kept and block.title)
    return f"\n*Left out to fit {figure(limit)} characters: {', '.join(titles)}.*\n" if titles else ""
