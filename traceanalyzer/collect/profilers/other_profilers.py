"""Knows when the script itself profiles, and makes room for it.

PyTorch records one profile at a time in a process: a second one ends the first, and ending that one
afterwards is a SIGSEGV. All of PyTorch's profilers, and so Lightning's, Accelerate's and the HF
Trainer's, begin and end in a few functions that this module wraps: `WATCH.on` is true while one of
the script's runs, and before it begins, `give_way` lets ours end."""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

MODULES = ("torch.autograd", "torch.autograd.profiler", "torch.autograd.profiler_legacy")
"""Modules that hold the functions by name: each looks its own name up."""
BEGIN = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
END = ("_disable_profiler", "_disable_profiler_legacy")
MARK = "_traceanalyzer_watched"


class ScriptProfilesError(RuntimeError):
    """A profiler of the script's began just before ours would have."""


class Watch:
    """Watches the profilers that begin and end in this process. There is one: `WATCH`."""

    def __init__(self) -> None:
        self.on = False  # whether a profiler of the script's is on, or prepared
        # whether any has been on, ours too: CUPTI then stays switched on and slows the host
        self.seen = False
        self.ours_seen = False  # whether ours has been on
        # called before one of the script's begins; set while ours is on
        self.give_way: Callable[[], None] | None = None
        self._local = threading.local()
        self._lock = threading.Lock()

    def install(self) -> None:
        """Watch from now on. Costs nothing but at the beginning and end of a profile."""
        for module in filter(None, map(sys.modules.get, MODULES)):
            for name in (*BEGIN, *END):
                original = getattr(module, name, None)
                around = self._before_begin if name in BEGIN else self._after_end
                if original is not None and not hasattr(original, MARK):
                    watched = functools.wraps(original)(functools.partial(around, original))
                    setattr(watched, MARK, True)
                    setattr(module, name, watched)

    def begin_ours(self, begin: Callable[[], None], give_way: Callable[[], None]) -> None:
        """Begin our profiler, unless one of the script's is on or about to be: then
        ScriptProfilesError."""
        with self._lock:
            if self.on:
                raise ScriptProfilesError
            with self.ours():
                begin()
            self.seen = True
            self.ours_seen = True
            self.give_way = give_way

    def forked(self) -> None:
        """This process is a fork: its threads, and what they held, are gone."""
        self._lock = threading.Lock()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Whatever begins and ends inside, in this thread, is our own profiler. Its `ProfilerStep`
        is an operator, which modes of the script's (a counter of FLOPs) do not get to see."""
        import torch

        before = getattr(self._local, "ours", False)
        self._local.ours = True
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                yield
        finally:
            self._local.ours = before

    def busy(self) -> bool:
        """Whether a profiler is on; to be asked while ours is not. Also one begun before we
        watched, or in C++."""
        import torch

        return bool(
            self.on
            or torch.autograd.profiler._is_profiler_enabled
            or torch.autograd._profiler_enabled()
        )

    def inside_ours(self) -> bool:
        """Whether this thread is at work on our own profiler."""
        return getattr(self._local, "ours", False)

    def _before_begin(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self.inside_ours():
            with self._lock:
                self.on = self.seen = True
                give_way = self.give_way
            if give_way is not None:
                # whatever goes wrong with ours is no business of the script's
                with suppress(Exception):
                    give_way()
        return original(*args, **kwargs)

    def _after_end(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            if not self.inside_ours():
                self.on = False


WATCH = Watch()


def end_copy() -> None:
    """End the copy of our profiler that a fork of the recorded process holds in its only thread."""
    import torch
    from torch.autograd import profiler

    if torch.autograd._profiler_enabled():
        with WATCH.ours():
            profiler._disable_profiler()
    profiler._is_profiler_enabled = False


def end_without_destructors() -> None:
    """Let this fork of the recorded process end once Python has run its exit handlers, with the
    status that it ends with: after those PyTorch waits, for ever, for a thread of the profiler that
    a fork does not have."""
    with suppress(OSError, AttributeError):  # another C library than glibc
        system = ctypes.CDLL(None)
        system.on_exit(ctypes.cast(system._exit, ctypes.c_void_p), None)


def end_stale(ours: Any) -> None:
    """Free this thread of our profiler, whose recording another thread's profiler has ended.

    Its callbacks stay with the thread, so that the next profiler would be refused; to end it is a
    SIGSEGV, because its recording is gone. With a recording prepared just for that it can be ended,
    unless it is `trace_only`."""
    import torch
    from torch.autograd import profiler

    config = getattr(ours.profiler, "experimental_config", None)
    if not torch.autograd._profiler_enabled() or getattr(config, "trace_only", False):
        return
    with WATCH.ours():
        idle = profiler.profile()
        profiler._prepare_profiler(idle.config(), idle.kineto_activities)
        profiler._disable_profiler()
    profiler._is_profiler_enabled = False
