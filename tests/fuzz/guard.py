"""One case in this process, with limits: no exception but the program's own, 20 s of CPU time, and
memory in proportion. What ends the process, a library's fault too, is a find, and the next one goes
on."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tests.fuzz.use import cost
from traceanalyzer.base.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from types import FrameType

    from tests.fuzz.kinds import Kind

ANSWERS = ("accepted", "refused")
SECONDS = 20
STUCK_S = 4 * SECONDS
"""So long without an answer a process may wait, or so much CPU time it may take: C code, or a wait,
that the signal does not interrupt. A busy machine is no find."""
BATCH = 1000
LEFT_BYTES = 64 << 20
"""Cases of one process, and bytes that earlier ones left behind in it, after which it takes no
other: what the next one takes of those bytes would not be seen."""
MEMORY_BYTES = 200 << 20
MEMORY_FACTOR = 20
"""What a case may add to the process's memory: so much, and so many times the size of its input."""
_ADDRESS_SPACE = 16 << 30
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_MEMORY = re.compile(r"VmHWM:\s+(\d+) kB\s+VmRSS:\s+(\d+) kB")


class TooSlowError(BaseException):
    """The case took too long; no `except Exception` may swallow it."""


@dataclass(frozen=True)
class Find:
    """A case that broke a promise."""

    seed: int
    number: int
    data: bytes
    why: str
    """Traceback, or what was exceeded."""
    command: int = 0
    """Which of its kind's."""

    @property
    def name(self) -> str:
        """Where it broke: the last line of the program's own in the traceback."""
        lines = re.findall(r'traceanalyzer/(\S+?)\.py", line (\d+)', self.why)
        where = f"{lines[-1][0]}-{lines[-1][1]}" if lines else "limits"
        error = re.split(r"[:\s(]", self.why.strip().splitlines()[-1])[0]
        return f"{where.replace('/', '.')}-{error}"


@dataclass(frozen=True)
class Answer:
    """A case that the program answered."""

    how: str
    """`accepted`, or `refused` with the one error line."""
    by: str
    """What its command costs: one of `use.COSTS`."""


def guarded(kind: Kind, seed: int, number: int, folder: Path) -> Answer | Find:
    """Make and use a case."""
    try:
        data = kind.case(seed, number)
    except Exception:  # of this fuzzer: it goes on, and says so
        return Find(seed, number, b"", traceback.format_exc())
    command = kind.chosen(data)
    why = _outcome(kind, data, folder)
    if why in ANSWERS:
        return Answer(why, cost(kind.commands[command]))
    return Find(seed, number, data, why, command)


def served(kind: Kind, seed: int, first: int, folder: Path, ends: float) -> Iterator[Answer | Find]:
    """The cases from the first on, up to the time `ends` (of the monotonic clock), in a process of
    their own, a fork of this one with all that was imported: what one leaves behind in it ends with
    it, and one that kills it is a find."""
    results, answers = Pipe(duplex=False)
    child = os.fork()
    if not child:
        results.close()
        _serve(kind, seed, first, folder, answers, ends)
    answers.close()
    answered = 0
    with results, suppress(EOFError):
        while isinstance(outcome := _answer(results, child), Answer | Find):
            yield outcome
            answered += 1
        for name in outcome:  # what one process imported, the next ones have
            with suppress(ImportError):
                importlib.import_module(name)
    status = os.waitpid(child, 0)[1]
    if status:
        yield _killed(kind, seed, first + answered, folder, status)


def _killed(kind: Kind, seed: int, number: int, folder: Path, status: int) -> Find:
    """The case that ended its process. It is made again in one of its own: what ended the first may
    have been the fuzzer's change, by the same library."""
    data = in_a_fork(lambda: kind.case(seed, number), folder / "again", STUCK_S)
    if data is None:
        why = f"Killed: the process ended with {status}, by the fuzzer's own change"
        return Find(seed, number, b"", why)
    why = f"Killed: the process ended with {status}"
    return Find(seed, number, data, why, kind.chosen(data))


def in_a_fork(make: Callable[[], bytes], result: Path, seconds: float) -> bytes | None:
    """What `make` gives, made in a fork of this process and passed on in a file; None where the fork
    ends otherwise, or takes longer."""
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            result.write_bytes(make())
            status = 0
        finally:
            os._exit(status)
    ends = time.monotonic() + seconds
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
        ended, status = os.waitpid(child, os.WNOHANG)
    return result.read_bytes() if not status else None


def _answer(results: Connection, child: int) -> Answer | Find | list[str]:
    """The outcome of the next case, or the modules that the child imported. A child that is stuck
    is ended. Raises EOFError."""
    before = _state(child)[1]
    while not results.poll(STUCK_S):
        state, cpu_s = _state(child)
        if state == "S" or cpu_s > before + STUCK_S:
            os.kill(child, signal.SIGABRT)
    return results.recv()


def _state(process: int) -> tuple[str, float]:
    """Whether a process runs (R) or waits (S), and the CPU time that it had, s (Linux; elsewhere it
    waits)."""
    told = Path(f"/proc/{process}/stat")
    if not told.exists():
        return "S", 0.0
    fields = told.read_text().rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serve(
    kind: Kind, seed: int, first: int, folder: Path, answers: Connection, ends: float
) -> NoReturn:
    status = 1
    known = set(sys.modules)
    try:
        faulthandler.enable()
        gc.freeze()
        at_first = _memory()[1]
        for number in range(first, first + BATCH):
            answers.send(guarded(kind, seed, number, folder))
            if time.monotonic() > ends or _memory()[1] > at_first + LEFT_BYTES:
                break
        answers.send([name for name in sys.modules if name not in known])
        status = 0
    finally:
        os._exit(status)


def failure(kind: Kind, data: bytes, folder: Path, number: int | None = None) -> str:
    """`accepted`, `refused`, or why the data break a promise. A process that is stuck ends."""
    faulthandler.dump_traceback_later(STUCK_S, exit=True)
    try:
        return _outcome(kind, data, folder, number)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _outcome(kind: Kind, data: bytes, folder: Path, number: int | None = None) -> str:
    space = resource.getrlimit(resource.RLIMIT_AS)
    _limit()
    before = _memory(reset=True)[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            kind.use(data, folder, number)
    except TraceAnalyzerError as error:
        why = "refused" if str(error).strip() else "an error without a message"
    except (Exception, TooSlowError):
        why = traceback.format_exc()
    else:
        why = "accepted"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, space)  # other tests of the process start a browser
    used = _memory()[0] - before
    if why in ANSWERS and used > MEMORY_BYTES + MEMORY_FACTOR * kind.size(data):
        why = f"TooMuchMemory: {used >> 20} MiB for {kind.size(data) >> 10} KiB"
    return why


def _limit() -> None:
    resource.setrlimit(
        resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of CPU: a busy machine is no find


def _too_slow(_: int, __: FrameType | None) -> NoReturn:
    raise TooSlowError(f"over {SECONDS} s")


def _memory(*, reset: bool = False) -> tuple[int, int]:
    """Largest memory of this process in bytes since that was last reset, and what it has now
    (Linux; 0 elsewhere)."""
    if not _STATUS.exists():
        return 0, 0
    if reset:
        _CLEAR.write_text("5")
    found = _MEMORY.search(_STATUS.read_text())
    most, now = found.groups() if found else (0, 0)
    return int(most) * 1024, int(now) * 1024
