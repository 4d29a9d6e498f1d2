"""Files of a capture are written under their own name only when they are whole, and a recording
that is cut short is ended: the script returns, raises, or gets SIGTERM while the profiler is on.

Python runs a signal handler only between bytecodes of the main thread. A rank that waits in CUDA
for a peer that died never gets there, and without us SIGTERM would have killed it at once; so a
thread woken by the signal itself (`signal.set_wakeup_fd`) ends the process by the same signal if
the handler has not done so in time."""

import atexit
import ctypes
import faulthandler
import gzip
import json
import os
import shutil
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.collect.host.ranks import current_rank

COMPRESSION = 1
"""Level 9 (torch's own) takes ten times as long for a tenth less, while the script waits."""
UNFINISHED = b'"unfinished step"'


START_SECONDS = 5.0
"""From SIGTERM until the handler must have begun: if it has not, the main thread hangs."""
GRACE_SECONDS = 20.0
"""From then until the capture must have been written; torchrun kills its workers after 30 s."""
EXIT_SECONDS = 120.0
"""The same for a process that ends by itself: a large capture may take its time."""
FOLDER = ".processes"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file at once."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


def write_trace(profiler: Any, path: Path, unfinished_step: str | None = None) -> None:
    """Export a stopped torch.profiler as a gzipped chrome trace.

    The range of a step that was cut short is renamed, so that it does not pass for a step."""
    plain = path.with_name(f".{path.name}.partial.json")
    packed = path.with_name(f".{path.name}.partial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profiler.export_chrome_trace(str(plain))
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=COMPRESSION) as target:
        if unfinished_step is None:
            shutil.copyfileobj(source, target, 1 << 20)
        else:
            name = f'"{unfinished_step}"'.encode()
            target.writelines(line.replace(name, UNFINISHED) for line in source)
    plain.unlink()
    packed.replace(path)


class Rescue:
    """While armed, `finish` runs on exit and on SIGTERM, then the process ends as it would have."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self._handling = False
        self._previous_fd = -1
        self._begun = threading.Event()
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def arm(self) -> None:
        """Watch from now on. SIGTERM is left alone where the script handles it, or in another
        thread."""
        atexit.register(self._at_exit)
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._sockets = socket.socketpair()
            self._sockets[1].setblocking(False)
            self._previous_fd = signal.set_wakeup_fd(
                self._sockets[1].fileno(), warn_on_full_buffer=False
            )
            threading.Thread(
                target=_end_in_time, args=(self._sockets[0], self._begun), daemon=True
            ).start()
            signal.signal(signal.SIGTERM, self._on_sigterm)
            self._handling = True

    def disarm(self) -> None:
        """Give everything back; nothing to do unless armed."""
        atexit.unregister(self._at_exit)
        if not self._handling or threading.current_thread() is not threading.main_thread():
            return
        self._handling = False
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(self._previous_fd)
        if self._sockets is not None:
            self._sockets[1].close()
            self._sockets = None

    def _at_exit(self) -> None:
        with open(os.devnull, "w") as nowhere:
            faulthandler.dump_traceback_later(EXIT_SECONDS, exit=True, file=nowhere)
            try:
                self._finish()
            finally:
                faulthandler.cancel_dump_traceback_later()

    def _on_sigterm(self, number: int, frame: Any) -> None:
        self._begun.set()
        try:
            self._finish()
        finally:
            die_by(number)


def _end_in_time(woken: socket.socket, begun: threading.Event) -> None:
    """Wait for SIGTERM's byte, then for the handler's work; end the process if that takes too
    long."""
    with woken:
        while received := woken.recv(1):
            if received[0] == signal.SIGTERM:
                if begun.wait(START_SECONDS):
                    time.sleep(GRACE_SECONDS)
                die_by(signal.SIGTERM)


def die_by(number: int) -> None:
    """End this process by the signal's default action, so that its parent sees the signal. Works in
    any thread."""
    # signal.signal() is refused outside the main thread
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


@dataclass(frozen=True)
class Progress:
    """How far one process got."""

    pid: int
    rank: int
    phase: str  # `attached`, `timing`, `recording`, `recorded`, or `failed: why`
    steps: int
    notes: list[str] = field(
        default_factory=list
    )  # what the user should know of the recording, a clause each


def report(folder: Path, phase: str, steps: int, notes: Sequence[str] = ()) -> None:
    """Say how far this process is."""
    (folder / FOLDER).mkdir(exist_ok=True)
    value = {
        "pid": os.getpid(),
        "rank": current_rank(),
        "phase": phase,
        "steps": steps,
        "notes": list(notes),
    }
    write_json(folder / FOLDER / f"{os.getpid()}.json", value)


def read(folder: Path) -> list[Progress]:
    """What the processes said so far, by rank."""
    files = (folder / FOLDER).glob("[0-9]*.json")
    return sorted(
        (Progress(**json.loads(file.read_text())) for file in files), key=lambda p: (p.rank, p.pid)
    )


def forget(folder: Path) -> None:
    """Remove the files."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
