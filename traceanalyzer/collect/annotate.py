"""`annotate("forward")`: names a phase for every recorder at once, and costs next to nothing when
none is on."""

import os
import sys
from contextlib import ContextDecorator
from typing import Any, Self

NSYS_VARIABLES = (
    "NSYS_PROFILING_SESSION_ID",
    "NVTX_INJECTION64_PATH",
)  # set by nsys or any NVTX tool

_nvtx_tool = any(name in os.environ for name in NSYS_VARIABLES)


class annotate(ContextDecorator):  # noqa: N801
    """A named phase, as a context manager or a decorator: `record_function` and an NVTX range at
    once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._range: Any = None

    def __enter__(self) -> Self:
        torch = sys.modules.get("torch")
        if torch is None or torch.compiler.is_compiling():
            return self
        if _nvtx_tool and torch.cuda.is_initialized():
            torch.cuda.nvtx.range_push(self.name)
            self._range = torch.cuda.nvtx
        elif torch.autograd.profiler._is_profiler_enabled:
            self._range = torch.profiler.record_function(self.name)
            self._range.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._range is None:
            return
        if self._range is sys.modules["torch"].cuda.nvtx:
            self._range.range_pop()
        else:
            self._range.__exit__(*raised)
        self._range = None

    def _recreate_cm(self) -> Self:
        """Each decorated call gets a range of its own: calls may nest and run in several
        threads."""
        return type(self)(self.name)
