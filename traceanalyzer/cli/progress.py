"""A progress bar for files that take long, on standard error and only for people."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from traceanalyzer.cli.output import is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 1.0
"""What is read within a second needs no bar."""
UPDATE_S = 0.1


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to be called with the work done and all of it. Without a terminal it does nothing."""
    bar = _Bar(what)
    try:
        yield bar.update if is_terminal(sys.stderr) else _ignore
    finally:
        bar.close()


def _ignore(_: int, __: int) -> None:
    """Nobody is watching."""


class _Bar:
    """Drawn from the first update after `PATIENCE_S`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._due = time.monotonic() + PATIENCE_S
        self._close: Callable[[], None] | None = None
        self._draw: Callable[[int, int], None] = self._start

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + UPDATE_S
            self._draw(done, total)

    def close(self) -> None:
        if self._close is not None:
            self._close()

    def _start(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True, markup=False), transient=True)
        task = bar.add_task(self._what, total=total, completed=done)
        bar.start()
        self._close = bar.stop
        self._draw = lambda done, total: bar.update(task, total=total, completed=done)
