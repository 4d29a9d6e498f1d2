"""The runs in one log: a program that is started again goes on writing to it, from its first step or
from that of a checkpoint. Steps of two runs are never mixed."""

import numpy as np

from traceanalyzer.ingest.timing.records import Records
from traceanalyzer.trace import F64, I64

_LEAST_STEPS = 5
"""Of a run: a line that names an earlier step in passing begins none."""
_LEAST_REPEATED = 2
"""Steps that a run from a checkpoint times again."""
_FIRST_STEP = 1
_LIKE_EPOCHS = 3
"""So many stretches of the same steps are epochs that the log does not count."""


def runs_of(records: Records) -> list[Records]:
    """The lines of each run, in the order of the log. `records`: with the number of the step that a
    line is of, NaN where it says none."""
    if "series" in records:  # progress bars, each with a counter of its own
        return [records]
    starts = _starts(_progress(records))
    ends = [*starts[1:], len(records)]
    rows = np.arange(len(records))
    return [
        records.take((rows >= start) & (rows < end))
        for start, end in zip(starts, ends, strict=True)
    ]


def _progress(records: Records) -> F64:
    """What goes up within a run: the step, or the epoch and within it the step."""
    step = records.column("step")
    if "epoch" not in records:
        return step
    largest = np.nanmax(step, initial=0.0) + 1
    return records.column("epoch") * largest + step


def _starts(progress: F64) -> list[int]:
    """The rows with which runs begin."""
    numbered = np.flatnonzero(np.isfinite(progress))
    known = progress[numbered]
    goes_back = np.flatnonzero(np.diff(known) < 0) + 1
    stretches = np.split(known, goes_back)
    first_rows = [0, *numbered[goes_back].tolist()]
    if _are_epochs(stretches):
        return [0]
    starts = [0]
    furthest = stretches[0].max(initial=-np.inf)
    for row, stretch in zip(first_rows[1:], stretches[1:], strict=True):
        if _is_run(stretch, furthest):
            starts.append(row)
            furthest = -np.inf
        furthest = max(furthest, stretch.max())
    return starts


def _is_run(stretch: F64, furthest: float) -> bool:
    """Whether steps behind one that was further are another run's."""
    if len(np.unique(stretch)) < _LEAST_STEPS:
        return False
    repeated = np.count_nonzero(np.unique(stretch) <= furthest)
    return bool(stretch[0] <= _FIRST_STEP or repeated >= _LEAST_REPEATED)


def _are_epochs(stretches: list[F64]) -> bool:
    """Whether the stretches are of the same steps, the last one at most as many."""
    if len(stretches) < _LIKE_EPOCHS:
        return False
    firsts: I64 = np.array([stretch[0] for stretch in stretches], np.int64)
    lasts = np.array([stretch.max() for stretch in stretches])
    alike = (firsts == firsts[0]).all() and (lasts[:-1] == lasts[0]).all()
    return bool(alike and lasts[-1] <= lasts[0])
