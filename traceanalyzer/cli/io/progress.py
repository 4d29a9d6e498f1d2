"""A progress bar for what takes long, on standard error and only for people."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from traceanalyzer.base import digits
from traceanalyzer.cli.io.formats import is_quiet
from traceanalyzer.cli.io.stdout import is_terminal

PATIENCE_S = 1.0  # what is done within a second needs no bar
UPDATE_S = 0.1


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """Gives a function to be called with the work done and all of it. Without a terminal it does
    nothing."""
    bar = _Bar(what)
    try:
        yield bar.update if is_terminal(sys.stderr) and not is_quiet() else lambda *_: None
    finally:
        bar.close()


@contextmanager
def counting(what: str, noun: str) -> Iterator[Callable[[int, int], None]]:
    """As `progress`, of things that are counted: with how many of them are done a second, and the
    time that is left."""
    begun = time.monotonic()
    with progress(what) as update:

        def count(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - begun, UPDATE_S)
            update(done, total, f"{what} {done:,} of {total:,} {noun}, {digits(rate)} a second")

        yield count


@contextmanager
def working(what: str) -> Iterator[None]:
    """Says what is being done while the block takes longer than `PATIENCE_S`, where nobody knows
    how long."""
    if not is_terminal(sys.stderr) or is_quiet():
        yield
        return
    bar = _Bar(what)
    timer = threading.Timer(PATIENCE_S, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        bar.close()


class _Bar:
    """Drawn from the first update after `PATIENCE_S`, or when it is started, which another thread
    may do."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._due = time.monotonic() + PATIENCE_S
        self._lock = threading.Lock()
        self._closed = False
        self._shown: Any = None

    def update(self, done: int, total: int, text: str | None = None) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + UPDATE_S
            self.start(total)
            self._shown.update(
                self._shown.task_ids[0], total=total, completed=done, description=text or self._what
            )

    def start(self, total: int | None = None) -> None:
        """Draw it: a spinner with the time that has passed where nothing tells how much there is to
        do."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        spinner = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with self._lock:
            if self._shown is None and not self._closed:
                console = Console(stderr=True, markup=False)
                self._shown = Progress(*(() if total else spinner), console=console, transient=True)
                self._shown.add_task(self._what, total=total)
                self._shown.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._shown is not None:
                self._shown.stop()
