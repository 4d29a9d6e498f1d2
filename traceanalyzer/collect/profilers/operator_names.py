"""Names PyTorch's operators and modules for nsys, as ranges of NVTX, while it captures.

PyTorch's own `emit_nvtx` makes them, with input shapes. nsys's `--pytorch` asks for it as well, but
from start to end: the steps that are timed before the capture would be slower, too."""

import threading
from contextlib import suppress
from typing import Any

from traceanalyzer.collect.module_names import ModuleNames
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.profilers.open_ranges import OpenRanges
from traceanalyzer.collect.profilers.other_profilers import WATCH, end_copy


class OperatorNames:
    """Call `begin` before the capture, `end` after it, in one thread; a failure leaves the capture
    without names."""

    def __init__(self, plan: CapturePlan) -> None:
        self._shapes = plan.shapes
        self._modules = ModuleNames() if plan.modules else None
        self._open = OpenRanges()
        self._emitting: Any = None
        self._thread = 0
        WATCH.install()

    def begin(self) -> None:
        """Name from now on; nothing where a profiler of the script's is on."""
        with suppress(Exception):
            from torch.autograd.profiler import emit_nvtx

            emitting = emit_nvtx(record_shapes=self._shapes)
            WATCH.begin_ours(emitting.__enter__, self.end)
            self._emitting = emitting
            self._thread = threading.get_ident()
            self._open.watch()
            if self._modules is not None:
                self._modules.install()

    def end(self) -> None:
        """Name no more; only the thread that began can end it."""
        if self._emitting is None or threading.get_ident() != self._thread:
            return
        emitting, self._emitting = self._emitting, None
        WATCH.give_way = None
        with suppress(Exception):
            if self._modules is not None:
                self._modules.remove()
            with suppress(Exception):
                self._open.end()
            with WATCH.ours():
                emitting.__exit__(None, None, None)

    def forked(self) -> None:
        """End the names that this fork of the process has in its only thread."""
        if self._emitting is None:
            return
        self._emitting = None
        WATCH.forked()
        WATCH.give_way = None
        with suppress(Exception):
            if self._modules is not None:
                self._modules.remove()
            self._open.forget()
            end_copy()
