"""How recordings are read: whether models of them are kept, and by how many processes.

A library neither writes files nor starts processes unless it is asked to; commands ask."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from traceanalyzer.base.frozen import dataclass


@dataclass(frozen=True)
class ReadingOptions:
    """The way of reading in force."""

    # whether the models of large recordings are kept in the user's cache folder, and used
    cache: bool = False
    # processes that read at the same time, this one included: files, or the parts of a large one
    jobs: int = 1
    iteration: int | None = None
    """Of a folder that has a folder for each recorded iteration, which one is read; None: the
    newest."""


_current: ContextVar[ReadingOptions] = ContextVar("reading", default=ReadingOptions())  # noqa: B039 a frozen value


def reading() -> ReadingOptions:
    """The way of reading in force."""
    return _current.get()


def read_with(**changes: Any) -> None:
    """Change how recordings are read from here on. Raises TypeError for an unknown setting."""
    _current.set(dataclasses.replace(reading(), **changes))


@contextmanager
def reading_as(**changes: Any) -> Iterator[None]:
    """Change how recordings are read within the block. Raises TypeError for an unknown setting."""
    token = _current.set(dataclasses.replace(reading(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
