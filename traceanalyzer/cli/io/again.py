"""A command repeated on unchanged files: what it printed is kept, and printed again before anything
else is loaded."""

import re
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from traceanalyzer.cli.commands import OLD
from traceanalyzer.cli.io.formats import arguments_of, format_of, is_quiet

if TYPE_CHECKING:
    from traceanalyzer.ingest.cache.pages import CachedPage

Function = TypeVar("Function", bound="Callable[..., Any]")


def replays_output(command: Function) -> Function:
    """Print what the command printed before, where it is asked the same about the same files; else
    keep what it prints. Its result has to be all that it does, but for `-o FILE`."""

    @wraps(command)
    def answered(*args: Any, **options: Any) -> Any:
        from traceanalyzer.cli.io.output import KEEP, checked, write
        from traceanalyzer.ingest.cache.pages import answered_page, text_of_page

        context = click.get_current_context()
        inputs = arguments_of(context)
        question = _question(context)
        page = None if question is None else answered_page(question, inputs)
        if page is None:
            return command(*args, **options)
        text = text_of_page(page)
        if text is None:
            context.meta[KEEP] = partial(_keep, page, context)
            return command(*args, **options)
        checked(
            options["format_"],
            options["file"],
            (format_of(options["format_"], options["file"]),),
            inputs,
        )
        write(text, options["file"])
        _keep_words(page, context)
        return None

    return cast("Function", answered)


def _keep(page: "CachedPage", context: click.Context, text: str) -> None:
    """Keep what a command printed."""
    from traceanalyzer.ingest.cache.pages import keep_page

    keep_page(page, text)
    _keep_words(page, context)


def _keep_words(page: "CachedPage", context: click.Context, *more: str) -> None:
    """Have the words of the command, and `more`, found again, where they were given to a process of
    their own and asked for nothing but to print. An old name of a command is told of each time."""
    words = context.find_root().obj
    if words and context.params["file"] is None and words[0] not in OLD:
        from traceanalyzer.cli.io.same_words import keep_words

        keep_words([*words, *more], page)


def leave_json(text: str) -> None:
    """Keep what the running command prints as JSON, for when it is asked for that."""
    from traceanalyzer.cli.io.stdout import is_terminal
    from traceanalyzer.ingest.cache.pages import answered_page, keep_page

    context = click.get_current_context()
    options = {**context.params, "file": None, "format_": "json"}
    question = _question_with(options, context, shown=False)
    page = None if question is None else answered_page(question, arguments_of(context))
    if page is not None:
        keep_page(page, text)
        if context.params["format_"] is None and not is_terminal(sys.stdout):
            _keep_words(page, context, "--format", "json")


def _question(context: click.Context) -> tuple[object, ...] | None:
    """All that what is printed depends on beside the files; None where more is done than to
    print."""
    from traceanalyzer.cli.io.stdout import is_terminal

    shown = context.params["file"] is None and is_terminal(sys.stdout)
    return _question_with(context.params, context, shown=shown)


def _question_with(
    options: dict[str, Any], context: click.Context, *, shown: bool
) -> tuple[object, ...] | None:
    """As `_question`, with these options. `shown`: whether a terminal shows what is printed."""
    from traceanalyzer.cli.io.stdout import terminal_width, with_colour
    from traceanalyzer.ingest.cache.pages import may_be_read

    options = dict(options)
    file = options.pop("file")
    form = format_of(options.pop("format_"), file)
    look = (terminal_width(), with_colour(file)) if form == "terminal" else None
    asked = (
        context.command.name,
        sorted(options.items()),
        form,
        look,
        shown,
        # A file has all of a report, the screen the answer; in JSON both have all of it.
        file is not None and form != "json",
        # What was read may not be replaced; elsewhere the name of the result changes nothing.
        file.resolve() if file and may_be_read(file, arguments_of(context)) else None,
        is_quiet(),
    )
    return asked if all(map(_is_plain, options.values())) else None


def _is_plain(value: object) -> bool:
    """Whether its `repr` says all of it. Values made from files of the user's, and paths of files
    to write, are not."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, (*value, *value.values())))
    return isinstance(value, str | int | float | re.Pattern | None) and not isinstance(value, Path)
