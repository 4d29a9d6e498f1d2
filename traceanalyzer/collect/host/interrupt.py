"""Has the main thread call something between two of its own instructions, also while it waits in
the kernel."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

ASK = signal.SIGURG
"""Interrupts what the main thread waits for; ignored by processes that do not use it."""
AGAIN_SECONDS = 0.1


class MainThread:
    """While `open`, `call` reaches the main thread. There is one: `MAIN_THREAD`."""

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []
        self._users = 0

    def open(self) -> bool:
        """Listen. False in another thread than the main one, or where the script uses the signal
        itself."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if self._users == 0:
            if signal.getsignal(ASK) is not signal.SIG_DFL:
                return False
            signal.signal(ASK, self._run)
        self._users += 1
        return True

    def close(self) -> None:
        """Stop listening, once for each `open`; the signal is the script's again after the last."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._users -= 1
        if self._users == 0 and signal.getsignal(ASK) == self._run:
            signal.signal(ASK, signal.SIG_DFL)

    def call(self, function: Callable[[], None], until: threading.Event, patience_s: float) -> bool:
        """Have it called by the main thread, from any other thread; it sets `until`. False if that
        took too long."""
        self._asked.append(function)
        ident = threading.main_thread().ident
        ends = time.monotonic() + patience_s
        while ident is not None and time.monotonic() < ends:
            signal.pthread_kill(ident, ASK)
            # a signal that came just before the main thread began to wait did not wake it
            if until.wait(min(AGAIN_SECONDS, patience_s)):
                return True
        return until.is_set()

    def _run(self, number: int, frame: Any) -> None:
        while self._asked:
            # whatever goes wrong is ours, and the script was in the middle of something
            with suppress(Exception):
                self._asked.pop(0)()


MAIN_THREAD = MainThread()


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; False where that is not told."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, IndexError):
        return False
    return bool(int(caught, 16) >> (number - 1) & 1)
