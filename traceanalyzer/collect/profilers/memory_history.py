"""The allocator's history for a CUDA memory snapshot: bounded, off while steps are timed, written
when memory runs out.

Where it runs out while steps are timed there is no history, but the allocator's state and what
failed are written. With Python stacks it cost 1 to 24 % of a step on an H200 (docs/memory.md)."""

import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.host.files import too_large_is_an_error

MAX_ENTRIES = 200_000
"""Entries kept, the newest: some hundred steps of a usual model, at most MAX_BYTES in the file."""
MAX_BYTES = (
    64 << 20
)  # a larger snapshot is not kept: deep stacks of a thousand lines, or blocks by the million
MAX_FRAMES = 1000  # of the stack of a failure: as many as Python itself has at most by default


class MemoryHistory:
    """The history of this process. `file_of_oom` names the file that is written when memory runs
    out."""

    def __init__(self, file_of_oom: Callable[[], Path]) -> None:
        self._file_of_oom = file_of_oom
        self._watches = self._on = False

    def begin(self) -> None:
        """Record from now on, or from when the process first uses CUDA: parameters then have their
        lines."""
        import torch

        if cuda.in_use():
            self._start()
        elif torch.cuda.is_available():
            # run once CUDA is initialised; asking for it here would break a later fork
            torch.cuda._lazy_call(self._start)

    def pause(self) -> None:
        """Stop, and forget what was recorded: steps are timed as they are."""
        import torch

        if self._on and cuda.in_use():
            self._on = False
            torch.cuda.memory._record_memory_history(enabled=None)

    def write(self, path: Path) -> None:
        """Write the snapshot and stop."""
        if cuda.in_use():
            _dump(path)
            self.pause()

    def _start(self) -> None:
        import torch

        torch.cuda.memory._record_memory_history(stacks="python", max_entries=MAX_ENTRIES)
        self._on = True
        attach: Any = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None and not self._watches:
            self._watches = True
            attach(self._out_of_memory)

    def _out_of_memory(self, device: int, asked: int, _total: int, free: int) -> None:
        with suppress(Exception):  # the program has an error of its own to show
            if self._on:
                _dump(self._file_of_oom())
            else:
                _dump_state(self._file_of_oom(), device, asked, free)


def _dump(path: Path) -> None:
    import torch

    with too_large_is_an_error():
        torch.cuda.memory._dump_snapshot(str(path))
    _drop_if_large(path)


def _dump_state(path: Path, device: int, asked: int, free: int) -> None:
    """Write the allocator's state, and the failure as the one entry of its history, as the
    allocator would."""
    import torch

    snapshot = torch.cuda.memory._snapshot()
    failure = {
        "action": "oom",
        "device_free": free,
        "size": asked,
        "stream": 0,
        "time_us": time.time_ns() // 1000,
        "frames": list(islice(_frames(_program()), MAX_FRAMES)),
    }
    traces = snapshot.get("device_traces", [])
    snapshot["device_traces"] = [
        [failure] if d == device else [] for d in range(max(len(traces), device + 1))
    ]
    with too_large_is_an_error(), path.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    _drop_if_large(path)


def _program() -> FrameType | None:
    """Where the program is: autograd's own threads have no Python above them, the main thread waits
    for them."""
    return sys._getframe(2).f_back or sys._current_frames().get(threading.main_thread().ident or 0)


def _frames(frame: FrameType | None) -> Iterator[dict[str, Any]]:
    while frame is not None:
        yield {
            "name": frame.f_code.co_name,
            "filename": frame.f_code.co_filename,
            "line": frame.f_lineno,
        }
        frame = frame.f_back


def _drop_if_large(path: Path) -> None:
    if path.stat().st_size > MAX_BYTES:
        path.unlink()
