"""What a step time means for the task (rates per second, model FLOP/s and their share of the peak),
and how long the host waits for batches: what `DataLoader` iterators give."""

import functools
import time
from dataclasses import fields
from typing import Any

from traceanalyzer.base import MS_PER_S, dataclass
from traceanalyzer.collect.host.program import samples_in


class DataTime:
    """Adds up the time of all `next(loader_iterator)` of this process while installed, and the
    samples they gave."""

    def __init__(self) -> None:
        self._waited_ns = 0
        self._samples: int | None = 0
        self.batches = 0  # that came
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
            self.batches += 1
            self._count(iterator, batch)
            return batch

        _BaseDataLoaderIter.__next__ = timed

    def _count(self, iterator: Any, batch: Any) -> None:
        try:
            samples = samples_in(iterator, batch)
        except Exception:  # a batch is the program's own object
            samples = None
        if samples is None or self._samples is None:
            self._samples = None
        else:
            self._samples += samples

    def remove(self) -> None:
        """Leave the iterators as they were."""
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        if self._original is not None:
            _BaseDataLoaderIter.__next__ = self._original
            self._original = None

    def take(self) -> tuple[int, int | None]:
        """Nanoseconds waited since last asked, and samples that came; None where that is not known,
        or none came."""
        waited = self._waited_ns
        samples = self._samples
        self._waited_ns = 0
        self._samples = 0
        return waited, samples or None


FLOP_PER_TFLOP = 1e12


@dataclass(frozen=True)
class Amounts:
    """What one step works through, on all devices together. None: does not apply."""

    samples: float | None = None
    tokens: float | None = None  # tokens that carry content: without padding
    padded_tokens: float | None = None  # tokens computed, padding included
    # floating-point operations that the model needs, without recomputation
    flops: float | None = None

    def __add__(self, other: "Amounts") -> "Amounts":
        """Sums; what is None on both sides stays None."""
        sums = {}
        for field in fields(self):
            own = getattr(self, field.name)
            theirs = getattr(other, field.name)
            nothing = own is None and theirs is None
            sums[field.name] = None if nothing else (own or 0) + (theirs or 0)
        return Amounts(**sums)


@dataclass(frozen=True)
class Rates:
    """Work per second; None where the amount was not given."""

    steps_per_s: float
    samples_per_s: float | None
    tokens_per_s: float | None  # effective: padding left out
    padded_tokens_per_s: float | None
    tflops_per_s: float | None
    mfu: float | None
    """Model FLOP/s utilisation, 0..1: FLOPs that the model needs over what the devices could do in
    the time (Chowdhery et al. 2022, PaLM, appendix B)."""


def rates(
    elapsed_ms: float, steps: int, amounts: Amounts, peak_flops_per_s: float | None = None
) -> Rates:
    """Rates of `steps` steps that took `elapsed_ms` together and worked through `amounts` together.

    `peak_flops_per_s` is the peak of all devices together at the model's dtype."""
    seconds = elapsed_ms / MS_PER_S

    def per_second(amount: float | None) -> float | None:
        return None if amount is None else amount / seconds

    flops_per_s = per_second(amounts.flops)
    return Rates(
        steps_per_s=steps / seconds,
        samples_per_s=per_second(amounts.samples),
        tokens_per_s=per_second(amounts.tokens),
        padded_tokens_per_s=per_second(amounts.padded_tokens),
        tflops_per_s=None if flops_per_s is None else flops_per_s / FLOP_PER_TFLOP,
        mfu=None if flops_per_s is None or not peak_flops_per_s else flops_per_s / peak_flops_per_s,
    )
