"""What of a recording contradicts itself, so that it cannot tell why the GPU was idle: clocks of CPU
and GPU apart, device times out of the order of their stream, waits that outlast all recorded
work."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, measure, sorted_values, union
from traceanalyzer.analysis.causes.start import op_before
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import NS_PER_MS, digits
from traceanalyzer.trace import I64, Bool, Trace

EARLY_NS = 100_000
"""A kernel that begins so long before its launch has its times from another clock: rounding and
drift are a few microseconds."""
TOO_MANY_EARLY = (
    0.05  # share of the launched ops from which the clocks are apart, not single events
)
OUT_OF_ORDER_NS = 1_000  # launches of one stream by two threads may be this near to each other
TOO_MANY_OUT_OF_ORDER = 0.05
OUTLASTS_NS = 1_000_000
"""A wait returns some 10 us after the work that it waited for, one that sleeps, or on a busy host,
up to several hundred."""
MOST_OF_WAIT = 0.5  # share of a wait from which what it waits for is missing
TOO_LONG_OUTLASTED = 0.1  # share of the step from which missing work may have been the cause


def clocks_apart_ns(linked: Linked) -> int:
    """By how much kernels begin before their launches; 0 where they do not."""
    ops = linked.trace.device_ops
    launched = np.flatnonzero(linked.launch >= 0)
    if not len(launched):
        return 0
    early = linked.launch_time[launched] - ops.start[launched]
    if (early > EARLY_NS).mean() < TOO_MANY_EARLY:
        return 0
    return int(early.max())


def with_clocks_joined(trace: Trace, apart_ns: int) -> Trace:
    """The recording with its device times so much later, so that no kernel begins before its
    launch."""
    ops = trace.device_ops
    return replace(
        trace, device_ops=replace(ops, start=ops.start + apart_ns, end=ops.end + apart_ns)
    )


def out_of_order_share(started: LaunchEdges) -> float:
    """Share of the launched ops that begin behind an op which their stream was given later."""
    launch = started.linked.launch_time
    before = op_before(started.starts.stream)
    known = (launch >= 0) & (before >= 0)
    known[known] = launch[before[known]] >= 0
    if not known.any():
        return 0.0
    out = launch[known] < launch[before[known]] - OUT_OF_ORDER_NS
    return float(out.mean())


def outlasting_waits(joined: Joined) -> IntervalSet:
    """When calls went on to wait although all recorded work of all devices had ended."""
    calls = joined.trace.api_calls
    ops = joined.trace.device_ops
    waits = np.flatnonzero(joined.blocks & (joined.linked.api_kind == ApiKind.SYNC))
    waits = waits[calls.end[waits] - calls.start[waits] >= OUTLASTS_NS]
    if not len(waits) or not len(ops):
        return union(np.empty(0, np.int64), np.empty(0, np.int64))
    ended = calls.end[waits]
    ends = sorted_values(ops.end)
    since = np.maximum(_last_end(ends, ended), calls.start[waits])
    outlasting = ended - since >= OUTLASTS_NS
    outlasting &= ended - since >= MOST_OF_WAIT * (ended - calls.start[waits])
    outlasting &= ~_still_running(sorted_values(ops.start), ends, ended)
    return union(since[outlasting], ended[outlasting])


def outlasted_share(started: LaunchEdges) -> float:
    """Share of the steady steps in which the host waited for work that is not in the recording."""
    steps = started.timed.steps
    waits = started.joined.memo(outlasting_waits)
    within = measure(waits, steps.start[steps.steady], steps.end[steps.steady]).sum()
    total = int(steps.duration[steps.steady].sum())
    return float(within / total) if total else 0.0


def doubt(started: LaunchEdges, apart_ns: int) -> str:
    """Why the recording cannot tell what the GPU waited for, in a sentence without its full stop;
    empty where nothing says so."""
    if apart_ns:
        return (
            f"kernels begin up to {digits(apart_ns / NS_PER_MS)} ms before their launches: the clocks of CPU and GPU "
            "differ, and what the GPU waited for cannot be told"
        )
    share = out_of_order_share(started)
    if share >= TOO_MANY_OUT_OF_ORDER:
        return (
            f"{share:.0%} of the kernels begin behind kernels that their stream was given later: their times were "
            "written down afterwards, and are not used"
        )
    share = outlasted_share(started)
    if share >= TOO_LONG_OUTLASTED:
        return (
            f"for {share:.0%} of the {started.timed.steps.unit} the CPU waits for GPU work that is not in the "
            "recording"
        )
    return ""


def _last_end(ends: I64, until: I64) -> I64:
    """The last of these ends, which ascend, up to each of these times; before all where there is
    none."""
    position = np.searchsorted(ends, until, side="right") - 1
    return np.where(position >= 0, ends[np.maximum(position, 0)], np.iinfo(np.int64).min)


def _still_running(starts: I64, ends: I64, time: I64) -> Bool:
    """Whether any of the ops, whose starts and ends ascend, runs at each of these times."""
    begun = np.searchsorted(starts, time, side="left")
    ended = np.searchsorted(ends, time, side="right")
    return begun > ended
