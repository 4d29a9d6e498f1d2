"""How long the host waits for batches, and how many samples they hold: what `DataLoader` iterators give."""

from __future__ import annotations

import functools
import time
from typing import Any

from traceanalyzer.collect.host.loader import samples_in


class DataTime:
    """Adds up the time of all `next(loader_iterator)` of this process while installed, and the samples they gave."""

    def __init__(self) -> None:
        self._waited_ns = 0
        self._samples: int | None = 0
        self._original: Any = None

    def install(self) -> None:
        """Time the iterators of every DataLoader."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        original = self._original = _BaseDataLoaderIter.__next__

        @functools.wraps(original)
        def timed(iterator: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                batch = original(iterator)
            finally:
                self._waited_ns += time.perf_counter_ns() - begin
            self._count(samples_in(iterator, batch))
            return batch

        _BaseDataLoaderIter.__next__ = timed

    def remove(self) -> None:
        """Leave the iterators as they were."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        if self._original is not None:
            _BaseDataLoaderIter.__next__ = self._original
            self._original = None

    def take(self) -> tuple[int, int | None]:
        """Nanoseconds waited since last asked, and samples that came; None where that is not known, or none came."""
        waited, samples = self._waited_ns, self._samples
        self._waited_ns, self._samples = 0, 0
        return waited, samples or None

    def _count(self, samples: int | None) -> None:
        self._samples = None if samples is None or self._samples is None else self._samples + samples
