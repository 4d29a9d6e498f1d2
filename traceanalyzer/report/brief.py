"""The first screen of a command that has more to say with `--full`: the answer, three remedies, what to run next."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.report.document import Bullets, Document, Item, Items, Line, Part, Section, Verdict
from traceanalyzer.report.format import plain

SHOWN_CHANGES, SHOWN_NOTES = 3, 2
LONGEST_PATH = 26
"""Characters, a third of a terminal's width."""


@dataclass(frozen=True)
class Screen:
    """What stands on it; `next` is what may be typed behind `traceanalyzer`."""

    answer: str
    lines: Sequence[str]
    advice: Sequence[str]
    notes: Sequence[str]
    next: Sequence[str]

    @property
    def document(self) -> Document:
        """The screen to draw."""
        from traceanalyzer.report.terminal.screen import LONGEST, LONGEST_HEADLINE, brief

        shown = [Item(brief(text)) for text in self.advice[:SHOWN_CHANGES]]
        of = f" ({len(shown)} of {len(self.advice)})" if len(shown) < len(self.advice) else ""
        notes = [brief(note, LONGEST) for note in self.notes[:SHOWN_NOTES]]
        parts: list[Part | None] = [Verdict(brief(self.answer, LONGEST_HEADLINE), self.lines)]
        parts += ["", Line(f"What to change{of}", "bold"), Items(shown)] if shown else []
        parts += ["", Bullets(notes, "!", "yellow")] if notes else []
        parts += ["", Line(f"Next: traceanalyzer {' | '.join(self.next)}", "dim")]
        return Document("", [Section("", parts)])


def shown_path(path: str, instead: str) -> str:
    """A path to type, or a word in its place where there is no room for it."""
    path = plain(path)
    return path if len(path) <= LONGEST_PATH and " " not in path else instead
