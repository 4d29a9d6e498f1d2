"""Work that a second process does at the same time: a fork of this one, which knows all that this one knows, and hands
back what it found.

Such work calculates and nothing else: it prints nothing, loads no module and asks for no lock, because what another
thread of this process held when it was forked stays held there. So nothing can get stuck; only Linux is as sure of what
it keeps in its own libraries, and only commands fork: `--jobs 1` and programs that use this library never do.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar, cast

from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Made = TypeVar("Made")

_END_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux's `prctl`."""


class _Fork(NamedTuple):
    process: int
    result: int
    """The end of the pipe that its result comes out of."""


@contextmanager
def meanwhile(work: Callable[[], Made], *, worth: bool) -> Iterator[Callable[[], Made]]:
    """Have `work` done while the block runs; gives what waits for its result. Where that is not worth a process, or
    there can be none, it is done before the block; where the process fails, by this one when the result is asked for:
    then it raises what `work` does."""
    fork = _forked(work) if worth and _may_fork() else None
    if fork is None:
        made = work()
        yield lambda: made
        return
    try:
        yield lambda: _result(fork, work)
    finally:
        _end(fork)


def _may_fork() -> bool:
    """Whether this process may use another one, in the only way that is safe."""
    return sys.platform == "linux" and reading().jobs > 1


def _forked(work: Callable[[], object]) -> _Fork | None:
    """A process that works; None where the system gives none."""
    give_back_free_memory()
    parent, (source, target) = os.getpid(), os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads; the work asks nothing of them
            process = os.fork()
    except OSError:
        os.close(source)
        os.close(target)
        return None
    if process == 0:
        _work(work, target, parent)
    os.close(target)
    return _Fork(process, source)


def give_back_free_memory() -> None:
    """Hand free memory to the system. What is free before a fork would be copied where either process uses it again;
    and between two parts of the work of one that has large arrays, free pieces that are too small for the next part's
    would add to these. The system clears what it hands out, so not for little memory, and seldom."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _work(work: Callable[[], object], target: int, parent: int) -> NoReturn:
    """In the other process. Whatever happens it ends here: all else is the business of the one that it is a copy of."""
    status = 1
    with suppress(BaseException):
        gc.freeze()  # looking for circles would touch, and so copy, everything
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            data = pickle.dumps(work())
            with open(target, "wb", closefd=False) as file:
                file.write(data)
            status = 0
    os._exit(status)


def _result(fork: _Fork, work: Callable[[], Made]) -> Made:
    """What the process found; where it found nothing, or only part of that came, the work is done here."""
    with open(fork.result, "rb", closefd=False) as file:
        data = file.read()
    with suppress(pickle.UnpicklingError, EOFError):
        return cast("Made", pickle.loads(data))  # noqa: S301 from our own process, through our own pipe
    return work()


def _end(fork: _Fork) -> None:
    os.close(fork.result)
    os.kill(fork.process, signal.SIGKILL)  # without effect on one that has ended: it is waited for only now
    os.waitpid(fork.process, 0)
