"""A command repeated word by word: what it printed is printed again before its words are parsed. To load
what parses them takes as long as all else that a kept answer needs; click is not loaded here."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from traceanalyzer.cli.io.stdout import is_terminal, print_text, terminal_width, with_colour
from traceanalyzer.ingest.cache.identity import content_digest, program_state
from traceanalyzer.ingest.cache.pages import CachedPage, kept_page, page_about
from traceanalyzer.ingest.cache.store import get_text, place, put_text


def printed_again(words: Sequence[str]) -> bool:
    """Print what the command of these words printed, where its files are as they were; whether that was
    done. Raises OSError."""
    text = _text_of(words)
    if text is None:
        return False
    print_text(text)
    return True


def keep_words(words: Sequence[str], page: CachedPage) -> None:
    """Keep which page answers the command of these words, printed on standard output."""
    with suppress(OSError, ValueError):  # no current folder, text that no file can hold
        put_text(_key(words), json.dumps([page.question, page.inputs]).encode())


def _text_of(words: Sequence[str]) -> str | None:
    """What was printed; None where it is not known, or may be something else now."""
    if not words or place() is None:
        return None
    with suppress(OSError, ValueError):
        known = get_text(_key(words))
        if known is not None:
            page = page_about(*json.loads(known))
            return None if page is None else kept_page(page)
    return None


def _key(words: Sequence[str]) -> str:
    """Digest of all that says which page is meant. Raises OSError."""
    look = (terminal_width(), with_colour(None), is_terminal(sys.stdout))
    return content_digest(("words", list(words), os.getcwd(), look, program_state(".")), [])
