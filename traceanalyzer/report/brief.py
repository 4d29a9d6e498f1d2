"""The first screen of a command that has more to say with `--full`: the answer, three remedies,
what to run next."""

import re
import shlex
from collections.abc import Sequence

from traceanalyzer.base import ELLIPSIS, regex
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Item,
    Items,
    Paragraph,
    Part,
    Section,
    Verdict,
)
from traceanalyzer.report.format import plain

SHOWN_CHANGES = 3
SHOWN_NOTES = 2
LONGEST = 180  # characters on the screen; other forms have all of it
LONGEST_OF_MORE = 150
LONGEST_HEADLINE = 320
FOLDERS = regex(r"^\S*/(?=\S+:\d+: )")  # of the place that a change begins with
LONGEST_PATH = 160
STDIN = "-"
"""Standard input has been read, and cannot be typed again."""
CHANGES = "What to change"
NEXT = "Next:"
PROGRAM = "traceanalyzer"
LONGEST_NAME = 70  # of a change where it is only named
LONGEST_CHANGE = LONGEST + 60  # what a change gains stands before it
LONGEST_FIRST = 2 * LONGEST  # the first change says how


def first_screen(
    answer: str,
    lines: Sequence[str],
    advice: Sequence[str],
    notes: Sequence[str],
    commands: Sequence[str],
    findings: Sequence[str] = (),
) -> Document:
    """The screen; `commands` are what may be typed next behind `traceanalyzer`."""
    some = [brief(note, LONGEST) for note in notes[:SHOWN_NOTES]]
    parts: list[Part | None] = [Verdict(brief(answer, LONGEST_HEADLINE), lines)]
    found = [Item(text) for text in findings]
    parts += ["", Paragraph("What costs time", "bold"), Items(found)] if found else []
    parts += ["", *what_to_change(advice)] if advice else []
    parts += ["", Bullets(some, "!", "yellow")] if some else []
    parts += ["", *(Paragraph(line, "dim", is_command=True) for line in next_lines(commands))]
    return Document("", [Section("", parts)])


def what_to_change(advice: Sequence[str]) -> list[Part]:
    """The first changes below a heading, and of how many; nothing without any."""
    if not advice:
        return []
    longest = [LONGEST_FIRST, *[LONGEST_CHANGE] * (SHOWN_CHANGES - 1)]
    shown = [Item(brief(text, most)) for text, most in zip(advice, longest, strict=False)]
    counted = f" ({len(shown)} of {len(advice)})" if len(shown) < len(advice) else ""
    return [Paragraph(f"{CHANGES}{counted}", "bold"), Items(shown)]


def next_lines(commands: Sequence[str]) -> list[str]:
    """What may be typed next behind `traceanalyzer`, a line each."""
    heads = [NEXT, *[" " * len(NEXT)] * (len(commands) - 1)]
    return [f"{head} {PROGRAM} {one}" for head, one in zip(heads, commands, strict=True)]


def shown_path(path: str, instead: str) -> str:
    """A path to type, or a word in its place where there is none, or it is no line to read."""
    path = plain(path)
    can_be_typed = 0 < len(path) <= LONGEST_PATH and path != STDIN
    return shlex.quote(path) if can_be_typed else instead


def brief(text: str, longest: int = LONGEST) -> str:
    """The whole sentences, else the whole clauses of the text that there is room for. What ends
    within a clause says so: "call .item()" may go on "every 100 iterations"."""
    text = plain(text)
    if len(text) <= longest:
        return text
    for end in (". ", "; "):
        at = _last_outside_brackets(text, end, longest)
        if at > 0:
            return f"{text[:at]}."
    at = max(_last_outside_brackets(text, mark, longest) for mark in (", ", ": "))
    cut = text[: longest - 1]
    kept = text[:at] if at > 0 else cut.rpartition(" ")[0] or cut
    return f"{kept.rstrip(',;:')}{ELLIPSIS}"


def change_told(action: str, position: int, room: int) -> str:
    """What to do and how, in a clause or two: all that is needed of the first change, of others as
    much as there is `room` for."""
    longest = LONGEST if position == 1 else room
    text = brief(action, longest)
    is_cut = len(text) < longest / 2 or text.endswith(ELLIPSIS)
    return brief(action) if is_cut else text


def in_few_words(action: str) -> str:
    """What to do, without how: "Remove the sync" of "Remove the sync: keep values on the GPU". A
    place in the code, which is one word, is no clause of its own, and has the file's name alone."""
    text = FOLDERS.sub("", plain(action))
    marks = (": ", "; ", ". ", " (")
    ends = [at for mark in marks for at in _all_outside_brackets(text, mark)]
    at = next((at for at in sorted(ends) if " " in text[:at]), len(text))
    return brief(text[:at].rstrip("."), LONGEST_NAME)


def _all_outside_brackets(text: str, mark: str) -> list[int]:
    """Where this mark stands, but in brackets."""
    places = (found.start() for found in re.finditer(re.escape(mark), text))
    return [at for at in places if text.count("(", 0, at) == text.count(")", 0, at)]


def _last_outside_brackets(text: str, end: str, longest: int) -> int:
    """Where this mark ends a part of the text for the last time; -1 where it does not."""
    at = text.rfind(end, 0, longest)
    while at > 0 and text.count("(", 0, at) != text.count(")", 0, at):
        at = text.rfind(end, 0, at)
    return at
