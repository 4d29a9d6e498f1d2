"""Runs in one log: a program that is started again goes on writing to it, from its first step or
from that of a checkpoint. Steps of two runs are never mixed."""

import numpy as np

from traceanalyzer.ingest.timing.records import Records
from traceanalyzer.trace import F64, StepTimings

_LEAST_STEPS = 5
"""Of a run: a line that names an earlier step in passing begins none."""
_LEAST_REPEATED = 2
"""Steps that a run from a checkpoint times again."""
_FIRST_STEP = 1
_LIKE_EPOCHS = 3
"""So many stretches of the same steps are epochs that the log does not count."""
_ONE_SPEED = 0.1
"""Medians of two epochs are within this share of each other."""


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
    first = stretches[0]
    begin_alike = all(stretch[0] == first[0] for stretch in stretches)
    end_alike = all(stretch.max() == first.max() for stretch in stretches[:-1])
    return bool(begin_alike and end_alike and stretches[-1].max() <= first.max())


def may_be_epochs(runs: list[StepTimings]) -> bool:
    """Whether two runs of the same steps at one speed may be epochs that the log does not count:
    together they say the same, and more surely."""
    if len(runs) != 2 or not np.array_equal(runs[0].step, runs[1].step):
        return False
    timed = [run.duration[run.duration >= 0] for run in runs]
    if not all(len(durations) for durations in timed):
        return True
    first, second = (float(np.median(durations)) for durations in timed)
    return abs(first - second) <= _ONE_SPEED * max(first, second)
