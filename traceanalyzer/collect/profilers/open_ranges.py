"""Ranges of the script's `record_function` that are open when PyTorch's operators are named no more.

A step ends inside of such a range (`Optimizer.step#AdamW.step`). Where the range outlives the names,
PyTorch writes a page of C++ frames to the script's standard error."""

import functools
import threading
import weakref
from typing import Any


class OpenRanges:
    """Call `watch` when names begin, `end` before they end, in the same thread."""

    def __init__(self) -> None:
        self._opened: list[weakref.ref[Any]] = []
        self._original: Any = None

    def watch(self) -> None:
        """Know of every range that this thread opens from now on."""
        from torch.autograd.profiler import record_function

        thread = threading.get_ident()
        original = self._original = record_function.__enter__

        @functools.wraps(original)
        def enter(this: Any) -> Any:
            entered = original(this)
            if threading.get_ident() == thread:
                self._opened.append(weakref.ref(this))
            return entered

        record_function.__enter__ = enter

    def forget(self) -> None:
        """Know of no more."""
        from torch.autograd.profiler import record_function

        if self._original is not None:
            record_function.__enter__ = self._original
        self._original = None
        self._opened.clear()

    def end(self) -> None:
        """End those that are open, the last first; that the script ends them later does nothing
        more. A range that has ended is gone: only its `with` statement held it."""
        import torch

        ranges = [known() for known in reversed(self._opened)]
        self.forget()
        for opened in ranges:
            if opened is not None and opened.record is not None:
                torch.ops.profiler._record_function_exit._RecordFunction(opened.record)
