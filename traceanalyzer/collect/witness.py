"""Tells a signal that was sent to `collect` alone from one that was sent to its whole group.

Ctrl-C, `timeout`, Slurm, systemd and Kubernetes signal a process, or a process group, or every
process of a control group. The recorded command is in the same group as `collect`, so what reached
the group has reached it already: passed on, it would be a second signal, and the second one is
"give up now" in many scripts. The kernel does not say how a signal was sent; so a process of no
other use, in the same group, tells whether it got it too."""

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import field

from traceanalyzer.base import MS_PER_S, dataclass

KEPT_SECONDS = 1.0
"""How long what the witness said of another signal is kept: several are often sent at once."""
HEARD_SECONDS = 0.2
"""How long after a signal the witness is asked: a group gets it at once, a control group within
milliseconds."""
PIPE_READ = 4096


@dataclass(frozen=True)
class Witness:
    """The process, and the pipe in which it writes the number of each signal that it gets."""

    pid: int
    heard: int
    alive: int  # this end is open as long as `collect` lives
    kept: dict[int, float] = field(default_factory=dict)
    """When it told of each signal that has not been asked for since."""

    def got(self, number: int) -> bool:
        """Whether it got this signal just now as well; waits a moment for it."""
        until = time.monotonic() + HEARD_SECONDS
        ready = select.poll()  # `select` takes no descriptor above 1,023
        ready.register(self.heard, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if time.monotonic() - self.kept.pop(number, float("-inf")) < KEPT_SECONDS:
                return True
            if not ready.poll(left * MS_PER_S):
                return False
            told = os.read(self.heard, PIPE_READ)
            if not told:  # it was killed
                return False
            self.kept.update(dict.fromkeys(told, time.monotonic()))
        return False

    def dismiss(self) -> None:
        """End it."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for descriptor in (self.heard, self.alive):
            os.close(descriptor)


def call_witness(numbers: set[signal.Signals]) -> Witness:
    """Start one that listens to these signals. It must be called before other threads run."""
    heard, tell = os.pipe()
    held, alive = os.pipe()
    # nothing may reach it before it listens
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    pid = os.fork()
    if pid == 0:
        _listen(numbers, tell, held)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(tell)
    os.close(held)
    return Witness(pid, heard, alive)


def _listen(numbers: set[signal.Signals], tell: int, held: int) -> None:
    """The witness's life: it ends when `collect` does."""
    try:
        os.dup2(tell, 0)
        os.dup2(held, 1)
        # the command's pipes must not stay open for its sake
        os.closerange(2, os.sysconf("SC_OPEN_MAX"))
        os.set_blocking(0, False)
        signal.set_wakeup_fd(0, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        while True:
            with suppress(InterruptedError):
                if not os.read(1, 1):
                    break
    finally:
        os._exit(0)
