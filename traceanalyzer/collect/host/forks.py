"""What is done where the watched process forks.

A child begins with the handlers of its parent, and ours of SIGTERM writes into the parent's pipe
(`rescue`): a child that got SIGTERM before it let go of the handler, as
`multiprocessing.Pool.terminate` may send it, would end the parent. So SIGTERM waits until then."""

import os
import signal
import threading
from collections.abc import Callable


class _Sigterm(threading.local):
    """SIGTERM of one thread: the one that forks."""

    held = False

    def hold(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.held = signal.SIGTERM not in before

    def let_go(self) -> None:
        if self.held:
            self.held = False
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def in_each_child(call: Callable[[], None]) -> None:
    """From now on `call` runs in each child that Python forks from this process, before SIGTERM
    arrives there."""
    sigterm = _Sigterm()

    def child() -> None:
        try:
            call()
        finally:
            sigterm.let_go()

    os.register_at_fork(before=sigterm.hold, after_in_parent=sigterm.let_go, after_in_child=child)
