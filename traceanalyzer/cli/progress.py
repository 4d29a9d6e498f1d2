"""A progress bar for files that take long, on standard error and only for people."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from traceanalyzer.cli.options import is_quiet
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
        yield bar.update if is_terminal(sys.stderr) and not is_quiet() else _ignore
    finally:
        bar.close()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Says what is being done while the block takes longer than `PATIENCE_S`, where nobody knows how long."""
    if not is_terminal(sys.stderr) or is_quiet():
        yield
        return
    spinner = _Spinner(what)
    timer = threading.Timer(PATIENCE_S, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        spinner.stop()


class _Spinner:
    """Started late, from another thread, and only if the work is not done by then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._done = False
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with self._lock:
            if self._done:
                return
            shown = Progress(*columns, console=Console(stderr=True, markup=False), transient=True)
            shown.add_task(self._what, total=None)
            shown.start()
            self._stop = shown.stop

    def stop(self) -> None:
        with self._lock:
            self._done = True
            if self._stop is not None:
                self._stop()


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
