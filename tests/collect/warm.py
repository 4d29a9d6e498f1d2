"""Starts scripts, and `collect` with scripts, in forks of one Python that has imported PyTorch.

To import it is most of what such a test costs. The forks are children of this process. `COLD=1` has
each start anew, as all do whose start is what is tested."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tests.collect.running import HANGS_S, ONE_THREAD, collect_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ADOPT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
COLLECT = (*collect_command()[:3],)
IS_COLD = bool(os.environ.get("COLD"))


@cache
def _python() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Where the Python is asked, which ends with this process, and itself."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("warm_python.py"), str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=ONE_THREAD | {"KINETO_LOG_LEVEL": "6", "PYTHONPATH": ""},
            pass_fds=(number,),
            start_new_session=True,
        )
    return ours, process


@contextmanager
def _adopting() -> Iterator[None]:
    """Inside, a process whose parent has ended is a child of this one."""
    libc = ctypes.CDLL(None)
    libc.prctl(ADOPT, 1)
    try:
        yield
    finally:
        libc.prctl(ADOPT, 0)


def _asked(request: dict[str, object], files: list[int]) -> int:
    """The process that the Python has made of itself as requested, with these for its input and
    outputs."""
    with _adopting():
        asks = _python()[0]
        socket.send_fds(asks, [json.dumps(request).encode()], files)
        answer = asks.recv(32)
    if not answer:
        raise ChildProcessError("the Python that has imported PyTorch has ended")
    return int(answer)


class Popen(subprocess.Popen):
    """`subprocess.Popen` of a script, or of `collect` with one, in a session of its own. Of what is
    to be called before it begins only that is done that it ends with this process."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        words = [*map(str, args)]
        collects = tuple(words[:3]) == COLLECT
        is_script = words[0] == sys.executable and words[1].endswith(".py")
        if not (collects or is_script):
            given = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            super()._execute_child(*given)
            return
        request = {
            "words": words[3:] if collects else words,
            "collect": collects,
            "dies": preexec_fn is not None,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        pipes = rest[3:9]
        theirs = (pipes[0], pipes[3], pipes[5])
        files = [number if file == -1 else file for number, file in enumerate(theirs)]
        self.pid = _asked(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)


STARTING = SimpleNamespace(**vars(subprocess) | ({} if IS_COLD else {"Popen": Popen}))
"""To stand in a module for `subprocess`."""


def run(
    words: Sequence[object], folder: Path | None = None, given: str = "given", *, cold: bool = False
) -> subprocess.CompletedProcess[str]:
    """What becomes of a script, or of `collect` with one, that is given this to read."""
    start = subprocess.Popen if cold else STARTING.Popen
    with start(
        words,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        start_new_session=True,
    ) as process:
        try:
            out, said = process.communicate(given, timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, said)


def collect(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What becomes of `collect` with these."""
    return run(collect_command(*arguments))
