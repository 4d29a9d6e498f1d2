"""Processes that read for this one: each runs `main` of a module. On Linux they are forks of this one, which have all
modules loaded; elsewhere, where forks are not safe, fresh interpreters. The program that is using this library is not
run again.

Their standard input stays open as long as this process lives. Where it ends, however that came about, they end too.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import repeat
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Process: TypeAlias = "subprocess.Popen[bytes]"

LEAST_BYTES = 32 << 20
"""What one of them should have to read: less takes as long with one more process as without."""
FORKS = sys.platform == "linux"
"""Whether a process is a fork of this one: only Linux is sure of what it keeps in its own libraries."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The environment of a process that starts no threads for linear algebra: what reads needs none."""
_RUN = """
import atexit, gc, json, sys
atexit.register(gc.freeze)
sys.path[:] = json.loads(sys.argv[1])
from importlib import import_module
import_module(sys.argv[2]).main(*sys.argv[3:])
"""
"""Modules are looked for where this process finds them: not in the folder of the recording. It ends without looking for
circles among all that goes with it."""


@contextmanager
def running(
    module: str,
    arguments: Sequence[Sequence[str]],
    patience_s: float = 0.0,
    outputs: Sequence[BinaryIO] = (),
    shared: int | None = None,
) -> Iterator[list[Process]]:
    """A process for each of the arguments that runs `main` of the module with them; fewer where the system gives no
    more. All have ended when the block has: told to, and after so many seconds killed. `outputs`: files for what they
    write (else it is piped here); `shared`: a file that is open in all of them, under its number here."""
    processes: list[Process] = []
    written: Iterable[BinaryIO | int] = outputs or repeat(subprocess.PIPE)
    try:
        with suppress(OSError):
            for words, output in zip(arguments, written, strict=False):
                processes.append(_start(module, words, output, shared))
        yield processes
    finally:
        _end(processes, patience_s)


def _start(module: str, words: Sequence[str], output: BinaryIO | int, shared: int | None) -> Process:
    command = [sys.executable, "-P", "-c", _RUN, json.dumps(sys.path), module, *words]
    # of a fork the command is never run
    run_here = partial(_run_here, import_module(module).main, words, shared) if FORKS else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, of whose locks such a process needs none
        return subprocess.Popen(  # noqa: S603 our own interpreter, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env={**ONE_THREAD, **os.environ},
            pass_fds=[] if shared is None else [shared],
            preexec_fn=run_here,
        )


def _run_here(main: Callable[..., None], words: Sequence[str], shared: int | None) -> NoReturn:
    """In a fork, before the command would be: run `main` instead of it, and end."""
    status = 1
    with suppress(BaseException):
        gc.freeze()  # looking for circles would touch, and so copy, everything
        # What other processes are to see the end of; among these the one that waits for the command.
        for number in map(int, os.listdir("/proc/self/fd")):
            if number not in (0, 1, 2, shared):
                with suppress(OSError):  # the list itself
                    os.close(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # In those of the other process may be what it has yet to print, and a thread of it may hold them.
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        try:
            main(*words)
            status = 0
        except SystemExit as end:
            status = cast("int", end.code)
        sys.stdout.flush()
    os._exit(status)


def _end(processes: Sequence[Process], patience_s: float) -> None:
    """What they have written may be read by other threads until they have ended."""
    for process in processes:
        with suppress(OSError):  # it has ended before, with a request in the pipe
            cast("BinaryIO", process.stdin).close()
    last = time.monotonic() + patience_s
    for process in processes:
        try:
            process.wait(max(last - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def memory_files(count: int) -> Iterator[list[BinaryIO]]:
    """Files that are nowhere but in memory, where the system has such files; else without a name. Closed after the
    block. Raises OSError."""
    with ExitStack() as files:
        yield [files.enter_context(_memory_file()) for _ in range(count)]


def _memory_file() -> BinaryIO:
    with suppress(AttributeError, OSError):  # a sandbox may know of it and not have it
        return open(os.memfd_create("traceanalyzer"), "w+b")
    return cast("BinaryIO", tempfile.TemporaryFile())


def requests() -> Iterator[bytes]:
    """In such a process: the lines that it is sent. Where there will be no more it is interrupted in whatever it does,
    so that this has to be called by one that is sent none, too."""
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    return iter(lines.get, b"")


def _listen(lines: SimpleQueue[bytes]) -> None:
    # not `sys.stdin`: the interpreter could not end while a thread waits in its buffer
    with open(0, "rb", closefd=False) as source:
        for line in source:
            lines.put(line)
    lines.put(b"")
    main = threading.main_thread().ident
    if main is None or not hasattr(signal, "pthread_kill"):
        os._exit(1)
    signal.pthread_kill(main, signal.SIGINT)
