"""How large a batch fits: the largest factor at which no moment of the history needs more than the
GPU has."""

import math

import numpy as np

from traceanalyzer.analysis.memory.lives import after_births, at_moments
from traceanalyzer.analysis.memory.whatif import Subject, batch_unknown, scaling_with_batch
from traceanalyzer.base import MEMORY, dataclass, metric

USABLE_SHARE = 0.9
"""Share of a GPU's memory for tensors: the rest is the CUDA context, libraries and
fragmentation."""
MOST_TIMES = 1000.0  # a larger factor says that the batch hardly matters
NO_SIZE = "the GPU's size is in no snapshot: give the trace recorded with it"


@dataclass(frozen=True)
class LargerBatch:
    """Room for another batch size; the factor is of this batch."""

    usable_bytes: int | None = metric(
        "bytes that tensors can have; null where the GPU's size is not known", MEMORY
    )
    free_bytes: int | None = metric(
        "of them not allocated at the peak; null where that is not known", MEMORY
    )
    largest_times: float | None = metric(
        "largest batch that fits, as a multiple of this one; null with a reason"
    )
    peak_bytes: int | None = metric("most bytes allocated with it", MEMORY)
    sample_speedup: float | None = metric(
        (
            "time of a sample now over its time with it, at most eight times the batch; null "
            "without a trace to replay"
        ),
        default=None,
    )
    reason: str | None = metric("why a figure is null", default=None)


def largest_batch(
    subject: Subject, peak: int, capacity: int | None, limit: int | None
) -> LargerBatch:
    """The largest batch on a GPU of `capacity` bytes, or under the `limit` that an allocation
    failed at."""
    usable = (
        limit if limit is not None else None if capacity is None else int(USABLE_SHARE * capacity)
    )
    free = None if usable is None else max(usable - peak, 0)
    reason = batch_unknown(subject, peak) or (NO_SIZE if usable is None else None)
    if usable is None or reason is not None:
        return LargerBatch(usable, free, None, None, reason=reason)
    lives = subject.lives
    rows = scaling_with_batch(subject)
    moments = after_births(
        lives.born
    )  # whatever the factor, no moment needs more than the one after a birth
    variable = at_moments(moments, (lives.born[rows], lives.freed[rows], lives.size[rows]))
    fixed = at_moments(moments, (lives.born, lives.freed, lives.size)) - variable
    room = usable - fixed
    if room.min() < 0:
        reason = "what does not go with the batch fills the GPU already"
        return LargerBatch(usable, free, None, None, reason=reason)
    grows = variable > 0
    fits_times = float((room[grows] / variable[grows]).min())
    times = math.floor(min(fits_times, MOST_TIMES) * 100) / 100
    needed = fixed + np.floor(times * variable).astype(np.int64)
    return LargerBatch(usable, free, times, int(needed.max()))
