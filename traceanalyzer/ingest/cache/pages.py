"""What commands printed before: the same command on the same files prints it again, and loads no
analysis for that. A page belongs to all that it depends on: the command with its options, the
recordings, what lies in their folders and may be read with them, the limits in force, and the
program as it is."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from traceanalyzer.base.files import files_read, note_read
from traceanalyzer.base.limits import limits
from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.cache.beside import (
    CAPTURES,
    COMPILED,
    may_be_beside,
    named_like_a_capture,
)
from traceanalyzer.ingest.cache.identity import as_it_is, content_digest, program_state
from traceanalyzer.ingest.cache.store import get_text, place, put_text

MOST_FILES = 10_000  # that are looked at, and in each folder; a run of so many ranks takes minutes
MOST_NAMES = 20_000


class CachedPage(NamedTuple):
    """What is going to be printed."""

    question: str  # what is asked, and the limits in force
    inputs: tuple[str, ...]
    key: str  # digest of all that it depends on
    files: tuple[Path, ...]  # the only ones that it may be made from


def answered_page(question: tuple[object, ...], inputs: Sequence[str]) -> CachedPage | None:
    """The page that answers a question, known by its `repr`, about files and folders; None where it
    is not kept: there is no cache, or names and times alone do not say what it depends on."""
    return page_about(repr((question, limits())), inputs) if reading().cache else None


def page_about(question: str, inputs: Sequence[str]) -> CachedPage | None:
    """As `answered_page`, of a page's `question`."""
    if place() is None:
        return None
    with suppress(OSError):
        files = _files_of(inputs)
        seen = [as_it_is(file) for file in files]
        if seen and None not in seen:
            pieces = list(chain.from_iterable(filter(None, seen)))
            facts = ("page", question, program_state("."), [str(file) for file in files])
            return CachedPage(question, tuple(inputs), content_digest(facts, pieces), files)
    return None


def kept_page(page: CachedPage) -> str | None:
    """The text of a page that was printed before."""
    text = get_text(page.key)
    return None if text is None else text.decode("utf-8", "replace")


def text_of_page(page: CachedPage) -> str | None:
    """The text of a page that was kept, for an answer that is made of it: the files of the page count
    as read."""
    text = kept_page(page)
    if text is not None:
        for file in page.files:
            note_read(file)
    return text


def keep_page(page: CachedPage, text: str) -> None:
    """Keep what was printed, if it was made from the files of the page, and they are as they
    were."""
    if files_read() <= set(page.files) and page_about(page.question, page.inputs) == page:
        with suppress(ValueError):  # text that no file can hold
            put_text(page.key, text.encode())


def _files_of(inputs: Sequence[str]) -> tuple[Path, ...]:
    """The files that may be read for these inputs, by name; none where that may be others, too.
    Raises OSError."""
    found: set[Path] = set()
    for path in map(Path, inputs):
        folder = path if path.is_dir() else path.parent
        names = list(islice(map(attrgetter("name"), os.scandir(folder)), MOST_NAMES))
        has_others = len(names) == MOST_NAMES or not {COMPILED, CAPTURES}.isdisjoint(names)
        if has_others or not path.exists():
            return ()
        if not path.is_dir():
            names = [path.name, *filter(_is_read_beside_others, names)]
        files = (folder / name for name in names)
        found.update(file.absolute() for file in files if file.is_file())
    return tuple(sorted(found)) if len(found) <= MOST_FILES else ()


def may_be_read(file: Path, inputs: Sequence[str]) -> bool:
    """Whether a file may be read for these inputs, by its place and its name."""
    for path in map(Path, inputs):
        folder = path if path.is_dir() else path.parent
        is_named_so = file.name == path.name or _is_read_beside_others(file.name)
        if file.parent.resolve() == folder.resolve() and (path.is_dir() or is_named_so):
            return True
    return False


def _is_read_beside_others(name: str) -> bool:
    return may_be_beside(name) or named_like_a_capture(name)
