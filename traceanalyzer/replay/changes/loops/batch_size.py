"""More data in each launch: what a kernel then takes, and calls joined into one."""

from dataclasses import replace

import numpy as np

from traceanalyzer.replay.changes.data.loading import LEAST_COPY_NS, large_copies
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, Bool, CopyKind

GREATER_BATCH = 8
"""Times as large as a batch is tried where the GPU idles: what nearly always fits."""
REACHED = 0.75
"""Share of the GPU's limits that kernels of a large batch reach."""
SMALL_SHARE = 0.5
"""Share of their kernels that must be too small to fill the GPU: others take as much longer as the batch is larger."""


def mostly_small(tape: Tape, ops: Bool) -> bool:
    """Whether most of these kernels are too small to fill the GPU."""
    ops_table = tape.source.trace.device_ops
    kernels = ops & tape.source.linked.is_kernel[tape.row]
    blocks, sms = ops_table.blocks[tape.row], tape.source.linked.limit("sms")[tape.row]
    small = tape.source.roofline.small[tape.row] | (blocks < sms)
    return float(small[kernels].mean()) >= SMALL_SHARE if kernels.any() else False


def growth(tape: Tape, count: float | F64) -> F64:
    """How much longer each kernel takes for so many times the data: not at all until its blocks fill the GPU, which
    holds several a multiprocessor, or the work reaches the GPU's limits."""
    rated = tape.source
    blocks, sms = rated.trace.device_ops.blocks[tape.row], rated.linked.limit("sms")[tape.row]
    waves = rated.roofline.waves[tape.row]
    filled = np.where((blocks > 0) & np.isfinite(sms), blocks / sms, 1.0)
    filled = np.where(np.isfinite(waves), np.minimum(waves, filled), filled)
    copies = large_copies(tape, CopyKind.HOST_TO_DEVICE) | large_copies(tape, CopyKind.DEVICE_TO_HOST)
    longer = np.maximum(filled * count, 1.0) / np.maximum(filled, 1.0)
    least = np.nan_to_num(rated.roofline.attainable[tape.row]) / REACHED / np.maximum(tape.duration, 1) * count
    fixed = np.minimum(LEAST_COPY_NS / np.maximum(tape.duration, 1), 1.0)
    return np.where(copies, fixed + (1.0 - fixed) * count, np.clip(least, longer, np.maximum(longer, count)))


def grown(tape: Tape, kept: Bool, gone: Bool, count: float | F64) -> Tape:
    """What is kept works on so many times the data, and what is gone needs no launch."""
    times = np.where(kept, tape.duration * growth(tape, count), tape.duration)
    return replace(tape, duration=np.rint(times).astype(np.int64)).without_launches(gone)


def joined(tape: Tape, kept: Bool, gone: Bool, count: float | F64, *, first_is_usual: bool = False) -> Tape:
    """What is gone is done by what is kept, for so many times the data, which is launched like any of them: what a step
    begins with, and the recorder does there, are before the first, unless that is taken to be as usual."""
    left = grown(tape, kept, gone, count).without_work(tape.events_of_only(gone))
    if first_is_usual:
        return left
    return left.dispatch_at_most(tape.events_of(kept), tape.usual_dispatch_ns(kept | gone))


def enlarged(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """A batch so many times as large; the time of as many samples as before."""
    share = 1.0 / times
    duration = np.rint(tape.duration * growth(tape, times) * share).astype(np.int64)
    shared = ("dispatch", "work", "reading", "latency", "gap")
    left = {name: np.rint(getattr(tape, name) * share).astype(np.int64) for name in shared}
    tail = tape.tail._replace(dispatch=round(tape.tail.dispatch * share), work=round(tape.tail.work * share))
    return replace(tape, **left, duration=duration, tail=tail)


def enlarged_at_full_cost(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """The same where every kernel takes as much longer as the batch is larger: only the host's time is shared."""
    return replace(enlarged(tape, times), duration=tape.duration)
