"""Names the calls of modules in a recording as PyTorch does with stacks, `nn.Module: Linear_3`, at
3 us a call.

Two global hooks are there while a recording is. The ranges that they open pass no dispatcher:
tracing, dispatch modes and autograd see nothing of them, and no module is touched. What
torch.compile compiles while such hooks are there it compiles again when they go, so they are not
set where it has compiled anything, and go when it begins to."""

import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from traceanalyzer.collect.eager import has_compiled
from traceanalyzer.collect.host.remarks import leave_unsaid
from traceanalyzer.collect.steps.outer_calls import COMPILE_WARNING

PREFIX = "nn.Module: "


class ModuleNames:
    """Call `install` when a profiler has begun, `remove` before it ends."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, type], str] = {}
        self._counts: Counter[type] = Counter()
        self._of_thread = threading.local()
        self._handles: list[Any] = []
        self._callbacks: Any = None

    def install(self) -> None:
        """Name the calls from now on; nothing where this PyTorch cannot, or where torch.compile has
        compiled."""
        if has_compiled():
            return
        with suppress(ImportError, TypeError):  # before PyTorch 2.1
            from torch._C._profiler import _RecordFunctionFast
            from torch.nn.modules.module import (
                register_module_forward_hook,
                register_module_forward_pre_hook,
            )

            # hooks are gone before the compiler looks
            leave_unsaid(COMPILE_WARNING)
            self._open_range = _RecordFunctionFast
            left = register_module_forward_hook(self._left, always_call=True)
            self._handles = [left, register_module_forward_pre_hook(self._entered)]
            if "torch._dynamo" in sys.modules:  # the hooks go before it compiles
                from torch._dynamo.callback import callback_handler

                self._callbacks = callback_handler
                callback_handler.register_start_callback(self.remove)

    def remove(self, *_: Any) -> None:
        """Name no more calls; those of this thread that have not ended do so here."""
        while self._handles:
            self._handles.pop().remove()
        self._close(0)
        with suppress(Exception):
            self._callbacks.remove_start_callback(self.remove)

    def _entered(self, module: Any, args: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        key = (id(module), type(module))
        kind = type(module)
        if key not in self._names:
            self._names[key] = f"{PREFIX}{kind.__name__}_{self._counts[kind]}"
            self._counts[kind] += 1
        opened = self._open_range(self._names[key])
        self._stack().append((module, opened))
        opened.__enter__()

    def _left(self, module: Any, args: Any, output: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        depth = len(stack)
        # a call that was interrupted has left its range, and those of the calls inside it, on the
        # stack
        while depth and stack[depth - 1][0] is not module:
            depth -= 1
        if depth:
            self._close(depth - 1)

    def _stack(self) -> list[tuple[Any, Any]]:
        return vars(self._of_thread).setdefault("stack", [])

    def _close(self, depth: int) -> None:
        stack = self._stack()
        while len(stack) > depth:
            with suppress(
                RuntimeError
            ):  # opened before the profiler recorded, in a call that a step ends in
                stack.pop()[1].__exit__(None, None, None)
