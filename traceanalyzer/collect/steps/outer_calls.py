"""Calls of the outermost module, the one called while no other module runs, and replays of CUDA
graphs outside of any module. What a backward pass calls again, to recompute activations, is none.

A global hook costs every inner module 3 us a call. PyTorch's global pre-hook is therefore there
only between two outermost calls: the first module to meet it takes it away. Nothing is put on the
module itself, where it would be copied, saved and scripted with it. That the call has ended is told
by a weak reference to a local variable of PyTorch's own `_call_impl`."""

import functools
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from traceanalyzer.collect.host.remarks import leave_unsaid
from traceanalyzer.collect.steps.period import CallMark

COMPILE_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"
CALL = "_call_impl"
LOCAL = "called_always_called_hooks"
"""A set in that function, since PyTorch 2.1; it lives as long as the call."""
NO_TASK = -1  # id of the running backward pass where there is none
FRAMES_TO_CALL = 4  # from the hook up to that function
SITE_FRAMES = 6  # frames above the call that tell from where it is called


class OuterCalls:
    """`on_enter` is called when an outermost call begins, `on_leave` when it has ended, `on_error`
    where something of ours fails in either."""

    def __init__(
        self,
        on_enter: Callable[[Any], None],
        on_leave: Callable[[CallMark, Any], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._on_enter = on_enter
        self._on_leave = on_leave
        self._on_error = on_error
        self._handle: Any = None
        self._waiting = self._entered  # one object: compiled functions compare it
        self._key: int | None = None  # of the pre-hook, once it has been there
        self._running: weakref.ref[Any] | None = None
        self.inside = False  # whether an outermost call is in progress

    def install(self) -> None:
        """Wait for the next outermost call."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        # our hook is gone before the compiled module could call it a second time
        leave_unsaid(COMPILE_WARNING)
        self._handle = register_module_forward_pre_hook(self._waiting)
        self._keep_key(self._handle)

    def _keep_key(self, handle: Any) -> None:
        """Give the pre-hook the key that it had before. A compiled function whose modules are
        called inside it looks at the keys on each call, and is compiled again for another one."""
        if self._key is None:
            self._key = handle.id
            return
        hooks = handle.hooks_dict_ref()
        hooks[self._key] = hooks.pop(handle.id)
        handle.id = self._key

    def remove(self) -> None:
        """Wait no more."""
        self._running = None
        self.inside = False
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _entered(self, module: Any, args: Any) -> None:
        import torch

        if torch.compiler.is_compiling() or _in_backward(torch):
            return
        try:
            self._enter(module, sys._getframe(1))
        except Exception as error:
            self._fail(error)

    def _enter(self, module: Any, frame: FrameType) -> None:
        self.remove()
        outer = _call_frame(frame)
        call = CallMark(id(module), call_site(outer or frame), type(module).__name__)
        # alive only as long as the call: not to be held by what is called at its end
        known = weakref.ref(module)
        local = None if outer is None else outer.f_locals.get(LOCAL)
        if isinstance(local, set):
            self._running = weakref.ref(local, lambda _: self._left(call, known()))
        else:
            self._hook(module, call)
        self.inside = True
        self._on_enter(module)

    def _hook(self, module: Any, call: CallMark) -> None:
        """In a PyTorch without that variable: a global hook, which every inner module meets."""
        from torch.nn.modules.module import register_module_forward_hook

        def left(called: Any, args: Any, output: Any) -> None:
            import torch

            if called is module and not torch.compiler.is_compiling():
                self._left(call, module)

        self._handle = register_module_forward_hook(left, always_call=True)

    def _left(self, call: CallMark, module: Any) -> None:
        try:
            self.remove()
            self.install()
            self._on_leave(call, module)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.remove()
        self._on_error(error)


class GraphReplays:
    """Ends of `torch.cuda.CUDAGraph.replay`, while none of PyTorch's modules runs."""

    def __init__(
        self, on_leave: Callable[[CallMark, Any], None], inside: Callable[[], bool]
    ) -> None:
        self._on_leave = on_leave
        self._inside = inside
        self._original: Any = None

    def install(self) -> None:
        """Watch every graph."""
        graph: Any = _graph_class()
        if graph is None or self._original is not None:
            return
        original = self._original = graph.replay

        @functools.wraps(original)
        def replay(this: Any) -> Any:
            replayed = original(this)
            if not self._inside():
                call = CallMark(id(this), call_site(sys._getframe(0)), "CUDAGraph.replay")
                self._on_leave(call, None)
            return replayed

        graph.replay = replay

    def remove(self) -> None:
        """Leave the class as it was."""
        graph: Any = _graph_class()
        if graph is not None and self._original is not None:
            graph.replay = self._original
            self._original = None


def _graph_class() -> Any:
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "cuda", None), "CUDAGraph", None)


def _in_backward(torch: Any) -> bool:
    """Whether this thread runs a backward pass."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != NO_TASK


def _call_frame(frame: FrameType) -> FrameType | None:
    above: FrameType | None = frame
    for _ in range(FRAMES_TO_CALL):
        if above is None or above.f_code.co_name == CALL:
            return above
        above = above.f_back
    return None


def call_site(frame: FrameType) -> int:
    """From where a function is called: a hash of the instructions of the frames above it."""
    places: list[tuple[int, int]] = []
    above = frame.f_back
    while above is not None and len(places) < SITE_FRAMES:
        places.append((id(above.f_code), above.f_lasti))
        above = above.f_back
    return hash(tuple(places))
