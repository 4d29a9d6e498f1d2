"""Runs the program once, in a process group of its own, until it has told enough, ends by itself,
or takes too long. Whatever it leaves behind is ended with it."""

import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from traceanalyzer.base import dataclass, regex
from traceanalyzer.collect.passed_on import children_heard, dying_with
from traceanalyzer.collect.run import ATTACH, injected_path
from traceanalyzer.trials.request import VARIABLE, Request

OUTPUT = "output.txt"
STDIN = 0
TAIL_BYTES = 1 << 16
GRACE_SECONDS = 5.0  # from SIGTERM until SIGKILL
POLL_SECONDS = 0.05
OUT_OF_MEMORY = regex(r"OutOfMemoryError|CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED")
ERROR = regex(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How one run of the program ended."""

    status: int | None  # None: it was ended because it took too long
    seconds: float
    output: str  # the last of its output, empty where that went to the terminal

    @property
    def reason(self) -> str | None:
        """Why it failed, in a clause; None where it did not."""
        if self.status is None:
            return f"did not end within {self.seconds:.0f} s"
        if self.status == 0:
            return None
        if OUT_OF_MEMORY.search(self.output):
            return "ran out of memory"
        if self.status < 0:
            return f"was ended by signal {-self.status}"
        errors = ERROR.findall(self.output)
        last = f": {errors[-1][:200]}" if errors else ""
        return f"ended with status {self.status}{last}"


def launch(
    command: Sequence[str],
    request: Request,
    environment: Mapping[str, str],
    *,
    patience_s: float,
    shown: bool = False,
) -> Ended:
    """Run the command as the request asks. `shown`: its output goes where ours goes."""
    request.path.mkdir(parents=True, exist_ok=True)
    output = None if shown else request.path / OUTPUT
    return run_group(command, trial_environment(request, environment), patience_s, output)


def run_group(
    command: Sequence[str], environment: Mapping[str, str], patience_s: float, output: Path | None
) -> Ended:
    """Run the command in a group of its own; its output goes to the file, or where ours goes."""
    if output is None:
        return _run(command, environment, patience_s, None)
    with output.open("wb") as written:
        ended = _run(command, environment, patience_s, written)
    return Ended(ended.status, ended.seconds, tail_of(output))


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    patience_s: float,
    written: BinaryIO | None,
) -> Ended:
    begun = time.monotonic()
    status: int | None = None
    with ExitStack() as ending:
        hear_children_as_before = ending.enter_context(children_heard())
        with _interrupts_held() as mask:
            child = subprocess.Popen(  # noqa: S603
                command,
                env=dict(environment),
                stdin=_input_from_its_beginning(),
                stdout=written,
                stderr=None if written is None else subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_beginning(mask, hear_children_as_before),
            )
            ending.callback(end_group, child)
        with suppress(subprocess.TimeoutExpired):
            status = child.wait(patience_s)
    return Ended(status, time.monotonic() - begun, "")


def _input_from_its_beginning() -> int | None:
    """Our standard input for one more run, None for the inherited one: a file can be read again.
    What comes through a pipe or from a terminal cannot: there is nothing to read."""
    try:
        is_file = stat.S_ISREG(os.fstat(STDIN).st_mode)
    except OSError:
        return subprocess.DEVNULL
    if not is_file:
        return subprocess.DEVNULL
    os.lseek(STDIN, _where_input_began(), os.SEEK_SET)
    return None


@cache
def _where_input_began() -> int:
    return os.lseek(STDIN, 0, os.SEEK_CUR)


@contextmanager
def _interrupts_held() -> Iterator[set[signal.Signals | int]]:
    """Inside, Ctrl-C waits: Python forks meanwhile, and drops what is raised in its hooks for that.
    Yields the signals that were held before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _beginning(
    mask: set[signal.Signals | int], hear_children_as_before: Callable[[], None]
) -> Callable[[], None]:
    """To be called by the command before it begins: it hears what we heard, and ends with us."""
    die_with_us = dying_with(os.getpid())

    def call() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        hear_children_as_before()
        die_with_us()

    return call


def trial_environment(request: Request, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every Python process of the command attaches itself."""
    ours = {
        VARIABLE: request.to_text(),
        ATTACH: "traceanalyzer.trials.attached",
        "PYTHONPATH": injected_path(),
        "KINETO_LOG_LEVEL": "6",
    }
    return dict(os.environ) | dict(environment) | ours


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End the command and all that it started and left in its group."""
    with suppress(ProcessLookupError, PermissionError):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            until = time.monotonic() + GRACE_SECONDS
            while child.poll() is None and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def tail_of(path: Path) -> str:
    """The last of a file's text."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        return file.read().decode("utf-8", "replace")
