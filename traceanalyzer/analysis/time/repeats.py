"""Repetition within a step (or a recording without steps): layers, micro-batches, tokens. Told,
never called a step."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, flatnonzero32, local_searchsorted
from traceanalyzer.analysis.time.periods import find_period, numbered_part
from traceanalyzer.analysis.time.step_evidence import without_numbers
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric, ms
from traceanalyzer.trace import RangeKind

MIN_SHARE = 0.3  # repetition that fills less of the step tells little of it
MIN_COUNT = 4
ONE_EACH = (
    0.9,
    1.1,
)  # least and most ranges a step, for a range to be the step's: the first and last may be cut


@dataclass(frozen=True)
class Repeats:
    """Device work that repeats within one step."""

    count: int = metric("how often the sequence of device ops repeats within the step")
    mean_ms: float = metric("mean time from the begin of one repetition to that of the next")
    ops: int = metric("device ops of one repetition")
    share: float = metric("share of the step that they fill")
    name: str | None = metric(
        "annotation of which each repetition holds one, of another number than the one before (written as #); null "
        "where none is annotated"
    )


def coinciding_range(timed: Timed) -> str | None:
    """The name (numbers as #) of the annotation that (nearly) every step holds once, of several the
    longest, if any."""
    ranges = timed.trace.host_ranges
    steps = timed.steps
    rows = flatnonzero32(ranges.kind == RangeKind.ANNOTATION)
    step = (local_searchsorted(steps.host_start, ranges.start[rows], side="right") - 1).astype(
        np.int32
    )
    until = steps.host_end[np.maximum(step, 0)]
    inside = (step >= 0) & (ranges.start[rows] < until)
    rows = rows[inside]
    step = step[inside]
    name, texts = without_numbers(timed.trace.strings, ranges.name[rows])
    of_name = Groups.of(name)
    of_step = Groups.of(name, step)
    held = np.bincount(name[of_step.first], minlength=len(texts))
    time = of_name.sum(ranges.end[rows] - ranges.start[rows])
    one_each = of_name.count <= len(steps) * ONE_EACH[1]
    one_each &= held >= len(steps) * ONE_EACH[0]
    found = sorted(np.flatnonzero(one_each).tolist(), key=of_name.first.__getitem__)
    return texts[max(found, key=time.__getitem__)] if found else None


def repeats(timed: Timed) -> Repeats | None:
    """What repeats within the longest steady step; None: nothing, or the steps are known from
    repetition alone."""
    steps = timed.steps
    ops = timed.trace.device_ops
    if timed.device is None or steps.source == "periodicity":
        return None
    index = steps.warmup + int(steps.duration[steps.steady].argmax())
    rows = np.flatnonzero((steps.of_op == index) & (ops.device == timed.device))
    period = find_period(timed.linked, rows, unsplit=False) if len(rows) else None
    if period is None or period.count < MIN_COUNT:
        return None
    length = int(ops.end[rows[: period.bounds[-1]]].max()) - int(
        ops.start[rows[period.bounds[:-1]]][0]
    )
    share = length / int(steps.duration[index]) if steps.duration[index] else 0.0
    if share < MIN_SHARE:
        return None
    count = period.count
    ops_of_one = int(period.bounds[1] - period.bounds[0])
    return Repeats(
        count, ms(length / count), ops_of_one, min(share, 1.0), numbered_part(timed.linked, period)
    )
