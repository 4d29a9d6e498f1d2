"""Processes that read for this one. Each is a fresh interpreter that runs `main` of a module: nothing is forked, and
the program that is using this library is not run again.

Their standard input stays open as long as this process lives. Where it ends, however that came about, they end too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Process: TypeAlias = "subprocess.Popen[bytes]"

LEAST_BYTES = 64 << 20
"""What one of them should have to read: it takes as long to start and to hand its rows over as to read that."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The environment of a process that starts no threads for linear algebra: what reads needs none."""
_RUN = """
import atexit, gc, json, sys
atexit.register(gc.freeze)
sys.path[:] = json.loads(sys.argv[1])
from importlib import import_module
import_module(sys.argv[2]).main()
"""
"""Modules are looked for where this process finds them: not in the folder of the recording. It ends without looking for
circles among all that goes with it."""


@contextmanager
def running(module: str, arguments: Sequence[Sequence[str]], patience_s: float = 0.0) -> Iterator[list[Process]]:
    """A process for each of the arguments that runs `main` of the module with them; fewer where the system gives no
    more. All have ended when the block has: told to, and after so many seconds killed."""
    processes: list[Process] = []
    try:
        with suppress(OSError):
            for words in arguments:
                processes.append(_start(module, words))  # noqa: PERF401 those before one that fails are kept
        yield processes
    finally:
        _end(processes, patience_s)


def _start(module: str, words: Sequence[str]) -> Process:
    command = [sys.executable, "-P", "-c", _RUN, json.dumps(sys.path), module, *words]
    return subprocess.Popen(  # noqa: S603 our own interpreter, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**ONE_THREAD, **os.environ},
    )


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
        cast("BinaryIO", process.stdout).close()


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
