"""How long the host waits for batches: time inside `DataLoader` iterators."""

from __future__ import annotations

import functools
import time
from typing import Any


class DataTime:
    """Adds up the time of all `next(loader_iterator)` of this process while installed."""

    def __init__(self) -> None:
        self._waited_ns = 0
        self._original: Any = None

    def install(self) -> None:
        """Time the iterators of every DataLoader."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        original = self._original = _BaseDataLoaderIter.__next__

        @functools.wraps(original)
        def timed(iterator: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                return original(iterator)
            finally:
                self._waited_ns += time.perf_counter_ns() - begin

        _BaseDataLoaderIter.__next__ = timed

    def remove(self) -> None:
        """Leave the iterators as they were."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        if self._original is not None:
            _BaseDataLoaderIter.__next__ = self._original
            self._original = None

    def take(self) -> int:
        """Nanoseconds waited since last asked."""
        waited, self._waited_ns = self._waited_ns, 0
        return waited
