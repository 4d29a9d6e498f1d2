"""The signals of `collect` while the command runs: each reaches the command once, as it would have
alone."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Self

from traceanalyzer.collect.host import progress
from traceanalyzer.collect.host.interrupt import catches
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.witness import Witness, call_witness

OURS = frozenset(
    (
        *(signal.SIGKILL, signal.SIGSTOP),  # nobody can handle them
        *(
            signal.SIGTSTP,
            signal.SIGTTIN,
            signal.SIGTTOU,
            signal.SIGCONT,
        ),  # the shell's job control
        *(signal.SIGCHLD, signal.SIGPIPE),  # of our own children and files
        # faults of this process itself, which come again where a handler returns
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
    )
)
"""Signals that are not passed on."""
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


class Signals:
    """Inside, what is sent to this process alone is passed on to the command; what is sent to the
    whole group has reached it. With `--on-signal`, SIGUSR2 asks the recorders instead."""

    def __init__(self, plan: CapturePlan) -> None:
        self._plan = plan
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}
        self._witness: Witness | None = None
        self.die_with_us = dying_with(os.getpid())

    def __enter__(self) -> Self:
        numbers = {
            number
            for number in signal.valid_signals() - OURS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        # a system that lets us start no more processes records all the same
        with suppress(OSError):
            self._witness = call_witness(numbers)
        for number in numbers:
            self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._witness is not None:
            self._witness.dismiss()

    def pass_to(self, child: subprocess.Popen[bytes]) -> None:
        """The command has begun."""
        self._child = child
        for number in self._early:
            self._arrived(number, None)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        child = self._child
        if child is None:
            self._early.append(number)
        elif self._witness is not None and self._witness.got(number):
            return
        elif number == signal.SIGUSR2 and self._plan.on_signal:
            self._ask_recorders()
        else:
            child.send_signal(number)

    def _ask_recorders(self) -> None:
        for process in progress.read_progress(self._plan.path):
            with suppress(OSError):
                _send_to(process, signal.SIGUSR2)


def _send_to(process: progress.Progress, number: int) -> None:
    """Send a signal to a process that said how far it is, unless its number is another's by now or
    it would not catch the signal. Raises OSError."""
    held = os.pidfd_open(process.pid)
    try:
        if progress.began(process.pid) == process.began and catches(process.pid, number):
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def _ignore(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)


@contextmanager
def children_heard() -> Iterator[Callable[[], None]]:
    """Inside, the kernel keeps how a child ended, also where whoever started us ignores SIGCHLD.
    Yields what the child calls before it begins, to have the signal as it was."""
    before = signal.getsignal(signal.SIGCHLD)
    if before is not signal.SIG_IGN:
        yield lambda: None
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield partial(_ignore, signal.SIGCHLD)
    finally:
        signal.signal(signal.SIGCHLD, before)


def dying_with(parent: int) -> Callable[[], None]:
    """To be called by the command before it begins: the kernel ends it when we are killed, as the
    kill would have ended it alone."""
    libc = ctypes.CDLL(None)

    def call() -> None:
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return call
