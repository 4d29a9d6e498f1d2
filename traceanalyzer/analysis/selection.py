"""A part of a run: one rank, one device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.errors import EmptyRecordingError

if TYPE_CHECKING:
    from traceanalyzer.trace import Run, Trace


def only_rank(run: Run, rank: int | None) -> list[Trace]:
    """The traces of a rank, all of them for None. Raises EmptyRecordingError, naming the ranks there are."""
    traces = [t for t in run.traces if rank is None or t.rank == rank]
    if not traces:
        known = ", ".join(str(t.rank) for t in run.traces if t.rank is not None)
        raise EmptyRecordingError(
            f"no recording of rank {rank} here; "
            + (f"ranks: {known}" if known else "the recordings do not say their rank")
        )
    return traces


def only_device(trace: Trace, device: int | None) -> Trace:
    """The trace with the work of one device (CUDA ordinal) alone; None: as it is. Raises EmptyRecordingError."""
    if device is None:
        return trace
    here = trace.device_ops.device == device
    if not here.any():
        known = ", ".join(str(d) for d in np.unique(trace.device_ops.device)) or "none"
        raise EmptyRecordingError(f"{trace.path}: device {device} did nothing in this recording; devices: {known}")
    return replace(trace, device_ops=trace.device_ops.take(here))
