"""A recording that is cut short is ended and kept: the script returns, raises or gets SIGTERM while
the profiler is on, or does something between two steps that would let the recording grow for ever.

The script's signals stay its own: `signal.getsignal` answers as it would without us, the wakeup
descriptor is not touched, and a handler that the script sets meanwhile is the only one from then
on. SIGTERM is heard by `faulthandler`, whose handler writes into a pipe of ours. It is heard also
while the main thread hangs in C, where Python's own handlers never run: a rank that waits in CUDA
for a peer that died. Without us SIGTERM would have ended it at once, so it is ended in any case."""

import _thread
import atexit
import ctypes
import faulthandler
import io
import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.host.bounds import Bounds
from traceanalyzer.collect.host.interrupt import MAIN_THREAD

START_SECONDS = 5.0
"""From SIGTERM until the main thread must have begun to finish: if it has not, it hangs."""
GRACE_SECONDS = 20.0
"""From then until the capture must have been written; torchrun kills its workers after 30 s."""
EXIT_SECONDS = 120.0
"""For a process that ends by itself: a large capture may take its time."""
POLL_MS = 100  # how often the bounds are looked at
RETRY_SECONDS = 1.0  # how long the main thread may take to end a recording that is out of bounds
PIPE_READ = 1 << 16
SIGACTION_BYTES = 512  # more than any system's `struct sigaction`, which begins with the handler


class Rescue:
    """While armed, `finish` runs on exit and on SIGTERM, then the process ends as it would have;
    `cut` runs where a bound is passed, and is told which."""

    def __init__(self, finish: Callable[[], None], cut: Callable[[str], None]) -> None:
        self._finish = finish
        self._cut = cut
        self._watch: _Watch | None = None

    def arm(self, bounds: Bounds | None = None) -> None:
        """Watch from now on. SIGTERM is left alone where the script handles it, or in another
        thread."""
        atexit.register(self._at_exit)
        if self._watch is None:
            self._watch = _Watch(self._finish, self._cut, bounds)
            self._watch.begin()

    def disarm(self, *, forked: bool = False) -> None:
        """Give everything back; nothing to do unless armed. `forked`: in a copy of the process that
        armed it."""
        atexit.unregister(self._at_exit)
        watch = self._watch
        self._watch = None
        if watch is not None:
            watch.end(forked=forked)

    def _at_exit(self) -> None:
        watch = self._watch
        if watch is not None:
            watch.exits_at = time.monotonic()
        # a disk that is full or a folder that is gone is no reason for a traceback
        with suppress(Exception):
            self._finish()


class _Watch:
    """One armed watch: its pipe, and the thread that reads it. The thread is not one of
    `threading`, which scripts count before they fork."""

    def __init__(
        self, finish: Callable[[], None], cut: Callable[[str], None], bounds: Bounds | None
    ) -> None:
        self._finish = finish
        self._cut = cut
        self._bounds = bounds
        self._begun = threading.Event()
        self._over = False
        self._handler = 0
        self._registered: weakref.ref[Any] | None = None
        self._asked_at = float("-inf")
        self.exits_at = float("inf")
        self._reader, self._writer = os.pipe()
        self._identity = _identity(self._writer)
        self._main = MAIN_THREAD.open()

    def begin(self) -> None:
        """Listen, and look at the bounds."""
        os.set_blocking(self._writer, False)
        untouched = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._main and untouched and _handler_address(signal.SIGTERM) == 0:
            # `faulthandler` alone holds the file: it is gone once the script has registered its own
            file = io.FileIO(self._writer, "w", closefd=False)
            faulthandler.register(signal.SIGTERM, file=file, all_threads=False)
            self._registered = weakref.ref(file)
            self._handler = _handler_address(signal.SIGTERM)
        _thread.start_new_thread(self._run, ())

    def end(self, *, forked: bool) -> None:
        """Stop: the thread goes, the pipe is closed, SIGTERM is as it was."""
        self._over = True
        if self._main:
            MAIN_THREAD.close()
        self._leave_sigterm()
        self._close(self._writer)
        if forked:  # the thread that would close it is not here
            self._close(self._reader)

    def _leave_sigterm(self) -> None:
        # a handler that the script has set since is not ours to take away
        ours = self._registered is not None and self._registered() is not None
        if ours and _handler_address(signal.SIGTERM) == self._handler:
            faulthandler.unregister(signal.SIGTERM)
        self._registered = None

    def _close(self, descriptor: int) -> None:
        # a script that closes all descriptors may have a file of its own there by now
        if _identity(descriptor) == self._identity:
            with suppress(OSError):
                os.close(descriptor)

    def _run(self) -> None:
        """The thread's work."""
        with suppress(Exception):
            told = select.poll()  # `select` takes no descriptor above 1,023
            told.register(self._reader, select.POLLIN)
            while not self._over and _identity(self._writer) == self._identity:
                if told.poll(POLL_MS) and not self._over:
                    if os.read(self._reader, PIPE_READ):
                        self._end_by_sigterm()
                    break
                self._look()
        if not self._over:
            self._leave_sigterm()
        self._close(self._reader)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self.exits_at > EXIT_SECONDS:
            os._exit(1)
        if self._bounds is None or now - self._asked_at < RETRY_SECONDS:
            return
        passed = self._bounds.exceeded()
        if passed is not None:
            self._asked_at = now
            if self._main:
                asked = threading.Event()
                MAIN_THREAD.call(lambda: self._end_recording(passed, asked), asked, RETRY_SECONDS)
            else:
                self._cut(passed)

    def _end_recording(self, passed: str, asked: threading.Event) -> None:
        asked.set()
        # to wait for the device would end the capture of a graph with an error
        if not self._over and not cuda.capturing():
            self._cut(passed)

    def _end_by_sigterm(self) -> None:
        """Have the main thread finish, then end the process by the signal; end it in any case."""
        if MAIN_THREAD.call(self._terminated, self._begun, START_SECONDS):
            time.sleep(GRACE_SECONDS)
        die_by(signal.SIGTERM)

    def _terminated(self) -> None:
        self._begun.set()
        try:
            self._finish()
        finally:
            die_by(signal.SIGTERM)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _handler_address(number: int) -> int:
    """Address of the function that the kernel calls for a signal; 0 for the default action."""
    action = ctypes.create_string_buffer(SIGACTION_BYTES)
    ctypes.CDLL(None).sigaction(number, None, action)
    return ctypes.c_void_p.from_buffer(action).value or 0


def die_by(number: int) -> None:
    """End this process by the signal's default action, so that its parent sees the signal. Works in
    any thread."""
    # signal.signal() is refused outside the main thread
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)
