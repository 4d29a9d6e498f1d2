"""Processes that compute for this one and send it values: forks on Linux, fresh interpreters
elsewhere, where forks are not safe.

A child prints nothing, and is interrupted where this process ends, however that comes about. A fork
loads no module and takes no lock that another thread may have held. What a child does not deliver,
its parent computes itself."""

import gc
import io
import mmap
import os
import pickle
import select
import signal
import sys
import tempfile
import threading
import time
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, NoReturn, TypeVar, cast

import numpy as np

from traceanalyzer.base.limits import InputLimits, limits, raise_for_all
from traceanalyzer.base.reading import ReadingOptions, read_with, reading

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

T = TypeVar("T")
METHOD = "fork" if sys.platform == "linux" else "spawn"
PATIENCE_S = 2.0  # for a process that is interrupted, and may have files to remove
SHORT_BYTES = (
    1 << 16
)  # a shorter array is copied out of what was sent: one that is not keeps all of it in memory
_ALIGN = 64
_NUMBER_BYTES = 4  # so many fit into a pipe whatever the system
_MOST_NUMBERS = 8192
_SAFE_PATH = "PYTHONSAFEPATH"


class Child(Generic[T]):
    """A process at work."""

    def __init__(self, started: "BaseProcess", output: BinaryIO) -> None:
        self._process = started
        self._output = output
        # once it has ended; not 0 where it had not sent everything
        self.exitcode: int | None = None

    def values(self) -> list[T]:
        """What it has sent, in order, once it has ended."""
        self._process.join()
        return list(_received(self._output))

    def interrupt(self) -> None:
        """Have it end, if it has not."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGINT)

    def end(self, last: float) -> None:
        """Wait until it has ended; it is killed where it has not at the time `last`."""
        while self._process.is_alive() and time.monotonic() < last:
            time.sleep(0.01)
        self._process.kill()
        self._process.join()
        self.exitcode = self._process.exitcode
        self._process.close()
        self._output.close()


@contextmanager
def children(
    work: Callable[[], Iterable[T]],
    count: int,
) -> Iterator[list[Child[T]]]:
    """So many processes, each of which sends what `work` gives; fewer where the system gives no
    more. All have ended when the block has. Where processes are no forks, `work` has to be a
    function of a module, or `partial` of one."""
    found: list[Child[T]] = []
    try:
        with suppress(OSError):
            found.extend(_started(work) for _ in range(count))
        yield found
    finally:
        for child in found:
            child.interrupt()
        last = time.monotonic() + PATIENCE_S
        for child in found:
            child.end(last)


def _started(work: Callable[[], Iterable[T]]) -> Child[T]:
    output = _memory_file()
    from multiprocessing import get_context  # with its sockets it takes as long as numpy's start

    system = get_context("fork") if METHOD == "fork" else get_context("spawn")
    given = (work, Handle(output.fileno()), reading(), limits())
    started = system.Process(target=_run, args=given)
    # A fresh interpreter looks for modules where this one finds them, not in the folder of the
    # recording.
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of threads; the work asks nothing of them
            started.start()
    except BaseException:
        output.close()
        raise
    finally:
        del os.environ[_SAFE_PATH]
        os.environ.update({} if before is None else {_SAFE_PATH: before})
    return Child(started, output)


def _run(
    work: Callable[[], Iterable[object]],
    output: "Handle",
    way: ReadingOptions,
    in_force: InputLimits,
) -> NoReturn:
    """In the other process. Whatever happens it ends here: all else is the business of the one that
    it is a copy of."""
    status = 1
    with suppress(BaseException):
        gc.freeze()  # a collection would touch, and so copy, everything
        signal.signal(signal.SIGINT, signal.default_int_handler)
        silent = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(silent, number)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        read_with(**asdict(way))
        raise_for_all(**asdict(in_force))
        with open(output.number, "wb", closefd=False) as file:
            for value in work():
                _send(value, file)
        status = 0
    os._exit(status)


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    main = threading.main_thread().ident
    if parent is not None and main is not None:
        select.select([parent.sentinel], [], [])
        signal.pthread_kill(main, signal.SIGINT)


class Handle:
    """A file that is open in a child under this number: the same in a fork, one of its own in a
    fresh interpreter."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing import reduction

        return _duplicated, (type(self), reduction.DupFd(self.number))


def _duplicated(kind: type[Handle], duplicate: Any) -> Handle:
    return kind(duplicate.detach())


class WorkQueue(Handle):
    """The numbers from 0 up: each process that iterates over them takes the next one when it is
    free."""

    def __iter__(self) -> Iterator[int]:
        while taken := os.read(self.number, _NUMBER_BYTES):
            yield int.from_bytes(taken, "little")


@contextmanager
def shared_queue(count: int) -> Iterator[WorkQueue]:
    """The numbers below `count`, `_MOST_NUMBERS` of them at most, to be shared by processes."""
    source, target = os.pipe()
    try:
        with open(target, "wb") as file:
            file.write(
                b"".join(
                    n.to_bytes(_NUMBER_BYTES, "little") for n in range(min(count, _MOST_NUMBERS))
                )
            )
        yield WorkQueue(source)
    finally:
        os.close(source)


def _memory_file() -> BinaryIO:
    """A file that is nowhere but in memory, where the system has such files; else without a name.
    Raises OSError."""
    with suppress(AttributeError, OSError):  # a sandbox may know of it and not have it
        return open(os.memfd_create("traceanalyzer"), "w+b")
    return cast("BinaryIO", tempfile.TemporaryFile())


class _Pickler(pickle.Pickler):
    """Arrays go apart from the rest, and are never copied; those of one value that takes no memory
    stay so."""

    def reducer_override(self, value: Any) -> Any:
        """How an array of one value is made."""
        if (
            isinstance(value, np.ndarray)
            and value.ndim == 1
            and value.strides == (0,)
            and len(value)
        ):
            return np.broadcast_to, (value[:1].copy(), value.shape)
        return NotImplemented


def _send(value: object, file: BinaryIO) -> None:
    """Write a value behind the others. Raises OSError."""
    arrays: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    _Pickler(head, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append).dump(value)
    parts: Sequence[Any] = [head.getbuffer(), *(array.raw() for array in arrays)]
    sizes = array("q", [len(parts), *map(len, parts)])
    at = file.write(sizes.tobytes())
    for part in parts:
        at += file.write(b"\0" * (-at % _ALIGN))
        at += file.write(part)
    file.write(b"\0" * (-at % _ALIGN))
    file.flush()


def _received(file: BinaryIO) -> Iterator[Any]:
    """The values that were written whole, their arrays where they lie. Raises OSError."""
    size = file.seek(0, os.SEEK_END)
    data = (
        memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))
        if size
        else memoryview(b"")
    )
    at = 0
    while at < size:
        begun = at
        count = int.from_bytes(data[at : at + 8], sys.byteorder)
        sizes = array("q", bytes(data[at + 8 : at + 8 * count + 8]))
        at += 8 * count + 8
        parts = []
        for length in sizes:
            at += -(at - begun) % _ALIGN
            parts.append(data[at : at + length])
            at += length
        at += -(at - begun) % _ALIGN
        if at > size:
            return
        arrays = [part if len(part) >= SHORT_BYTES else bytearray(part) for part in parts[1:]]
        yield pickle.loads(parts[0], buffers=arrays)  # noqa: S301 from our own process, through our own memory
