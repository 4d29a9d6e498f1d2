"""What is answered before the words of a command are parsed: the same words again, and a table or
predictions without options, of which a report left the rows. What parses words takes as long to load as
all else that such an answer needs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.base.reading import reading_as
from traceanalyzer.cli.io.same_words import printed_again
from traceanalyzer.cli.io.stdout import is_terminal, print_text, terminal_width, with_colour

if TYPE_CHECKING:
    from traceanalyzer.report.printed import Result

SHOW = "show"
WHATIF = "whatif"
FORMAT = "--format"
FORMATS = ("terminal", "markdown", "json", "csv")


def printed_at_once(words: Sequence[str]) -> bool:
    """Print the answer; whether that was done. Raises OSError; TraceAnalyzerError where there is no
    standard output."""
    return printed_again(words) or _prints_left(words)


class _Asked(NamedTuple):
    """A command without options."""

    name: str
    paths: Sequence[str]
    format: str


def _prints_left(words: Sequence[str]) -> bool:
    asked = _asked(words)
    if asked is None:
        return False
    with reading_as(cache=True):
        result = _predictions(asked) if asked.name == WHATIF else _table(asked)
    if result is None:
        return False
    if asked.format == "terminal":
        print_text(result.terminal(terminal_width(), with_colour(None)))
    else:
        print_text(getattr(result, asked.format)())
    return True


def _asked(words: Sequence[str]) -> _Asked | None:
    """A table or predictions with their recordings, and no option but a format; None of other words,
    and where an earlier name of a command is to be told of."""
    from traceanalyzer.cli.commands import COMMANDS
    from traceanalyzer.report.table_entries import BY_COMMAND

    is_shown = words[0] == SHOW and len(words) > 1
    name, *paths = words[1:] if is_shown else words
    form = "terminal"
    if len(paths) > 1 and paths[-2] == FORMAT:
        *paths, _, form = paths
    is_old = not is_shown and name not in COMMANDS
    is_left = name in BY_COMMAND or (name == WHATIF and not is_shown)
    has_options = any(path.startswith("-") for path in paths)
    if not is_left or not paths or has_options or form not in FORMATS:
        return None
    return None if is_old and is_terminal(sys.stderr) else _Asked(name, paths, form)


def _table(asked: _Asked) -> "Result | None":
    from traceanalyzer.cli.answers.asked_table import (
        BY_TIME,
        BY_WORTH,
        TableQuestion,
        left_by_report,
    )

    order = BY_WORTH if asked.name == "gaps" else BY_TIME
    question = TableQuestion(asked.name, asked.paths, format=asked.format, by=order)
    return left_by_report(question)


def _predictions(asked: _Asked) -> "Result | None":
    from traceanalyzer.report.predictions.left import left_predictions, page_of_predictions

    left = left_predictions(page_of_predictions(asked.paths, None, None))
    if left is None:
        return None
    from traceanalyzer.report.scenarios import ScenariosPage

    return ScenariosPage(left)
