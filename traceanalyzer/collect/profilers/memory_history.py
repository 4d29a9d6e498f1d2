"""The allocator's history for a CUDA memory snapshot: bounded, off while steps are timed, written when memory runs out.

With Python stacks it cost 1 to 24 % of a step on an H200 (benchmarks/memory_on_gpu.py; docs/memory.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.collect.host import cuda

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_ENTRIES = 200_000
"""Entries kept, the newest: some hundred steps of a usual model, at most MAX_BYTES in the file."""
MAX_BYTES = 64 << 20
"""A larger snapshot is not kept: deep stacks of a thousand lines, or blocks by the million."""


class MemoryHistory:
    """The history of this process. `file_of_oom` names the file that is written when memory runs out."""

    def __init__(self, file_of_oom: Callable[[], Path]) -> None:
        self._file_of_oom = file_of_oom
        self._watches = False
        self._on = False

    def begin(self) -> None:
        """Record from now on, or from when the process first uses CUDA: parameters then have their lines."""
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

        try:
            torch.cuda.memory._record_memory_history(stacks="python", max_entries=MAX_ENTRIES)
        except TypeError:  # before PyTorch 2.1
            torch.cuda.memory._record_memory_history(True)
        self._on = True
        self._watch()

    def _watch(self) -> None:
        import torch

        attach: Any = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None and not self._watches:
            self._watches = True
            attach(lambda *_: self._out_of_memory())

    def _out_of_memory(self) -> None:
        if self._on:
            try:
                _dump(self._file_of_oom())
            except OSError:  # the program has an error of its own to show
                return


def _dump(path: Path) -> None:
    import torch

    torch.cuda.memory._dump_snapshot(str(path))
    if path.stat().st_size > MAX_BYTES:
        path.unlink()
