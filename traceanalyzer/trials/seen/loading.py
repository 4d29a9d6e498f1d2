"""How long the training process waits for its batches, or loads them itself: what says how many
workers a loader needs."""

import functools
import importlib
import threading
import time
from typing import Any

from traceanalyzer.base import MS_PER_S

LOADERS = "torch.utils.data.dataloader"


class LoadingClock:
    """Times every `next` of a DataLoader in the main thread, between `start` and `measured`."""

    def __init__(self) -> None:
        self._batches = 0
        self._seconds = 0.0
        self._cpu_seconds = 0.0
        self._begun = 0.0
        self._cpu_begun = 0.0
        self._is_inside = False  # of a loader: its dataset may have one of its own

    def install(self) -> None:
        """See all loaders from now on."""
        owner: Any = importlib.import_module(LOADERS)._BaseDataLoaderIter
        original = owner.__next__

        @functools.wraps(original)
        def timed(batches: Any) -> Any:
            if self._is_inside or threading.current_thread() is not threading.main_thread():
                return original(batches)
            begun = time.perf_counter()
            cpu_begun = time.thread_time()
            self._is_inside = True
            try:
                return original(batches)
            finally:
                self._is_inside = False
                self._batches += 1
                self._seconds += time.perf_counter() - begun
                self._cpu_seconds += time.thread_time() - cpu_begun

        owner.__next__ = timed

    def start(self) -> None:
        """The timed steps begin."""
        self._batches = 0
        self._seconds = 0.0
        self._cpu_seconds = 0.0
        self._begun = time.perf_counter()
        self._cpu_begun = time.thread_time()

    def measured(self, steps: int) -> dict[str, float]:
        """Means of so many steps since `start`, ms: the step, what of it went into loading or
        waiting for batches, and the CPU time of either in this thread (other threads of
        operators spin on while there is nothing to do); empty where no batch was seen: a loader of
        another make has its own `next`."""
        if not steps or not self._batches:
            return {}
        seconds = {
            "step_ms": time.perf_counter() - self._begun,
            "loading_ms": self._seconds,
            "cpu_ms": time.thread_time() - self._cpu_begun,
            "loading_cpu_ms": self._cpu_seconds,
        }
        return {name: MS_PER_S * value / steps for name, value in seconds.items()}
