"""Launches made while a stream is captured into a graph: they put nothing on the device, and lose no kernel."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import EMPTY, IntervalSet, contains, join, texts_where, union
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.trace import Bool, RangeKind, distinct

_BEGIN = re.compile(r"StreamBeginCapture")
_END = re.compile(r"StreamEndCapture")
_NAMED = re.compile(r"^(cuda_?)?(graph_?)?capture_(\d|graph|rank)|CUDAGraph.capture", re.IGNORECASE)
"""Ranges of serving engines around a capture: `capture_32_FULL`, `graph_capture_rank_0`."""
_BUILDING = re.compile(
    r"Graph(Exec)?(Instantiate|Update|(Kernel|Memcpy|Memset)NodeSetParams|AddKernelNode|Upload|Clone)"
)
"""Calls that make or change an executable graph."""


def capture_intervals(linked: Linked) -> dict[int, IntervalSet]:
    """By thread when it captured a stream: between the calls that begin and end it (without an end as long as the
    recording), or in a range that is named so, where the recorder leaves these calls out."""
    calls, strings = linked.trace.api_calls, linked.trace.strings
    begins, ends = texts_where(strings, _BEGIN.search)[calls.name], texts_where(strings, _END.search)[calls.name]
    found: dict[int, IntervalSet] = {}
    for thread in distinct(calls.thread[begins]).tolist():
        here = calls.thread == thread
        start, end = calls.start[here & begins], np.sort(calls.end[here & ends])
        index = np.searchsorted(end, start, side="right")
        stop = np.append(end, np.iinfo(np.int64).max)[index]
        found[thread] = union(start, stop)
    ranges = linked.trace.host_ranges
    named = texts_where(strings, _NAMED.search)[ranges.name] & (ranges.kind == RangeKind.ANNOTATION)
    for thread in distinct(ranges.thread[named]).tolist():
        here = named & (ranges.thread == thread)
        inside = union(ranges.start[here], ranges.end[here])
        found[thread] = join(found[thread], inside) if thread in found else inside
    return found


def captured_calls(linked: Linked) -> Bool:
    """Which API calls were made on a thread while it captured a stream."""
    calls = linked.trace.api_calls
    result = np.zeros(len(calls), bool)
    for thread, during in linked.memo(capture_intervals).items():
        here = calls.thread == thread
        time = calls.start[here]
        result[here] = contains(during, time)
    return result


def building_time(linked: Linked) -> IntervalSet:
    """When the host captured graphs, made them executable or changed them, on any thread."""
    calls = linked.trace.api_calls
    rows = texts_where(linked.trace.strings, _BUILDING.search)[calls.name]
    last = int(calls.end.max(initial=0))
    captured = linked.memo(capture_intervals).values()
    sets = [
        union(calls.start[rows], calls.end[rows]),
        *(IntervalSet(s.start, np.minimum(s.end, last)) for s in captured),
    ]
    filled = [s for s in sets if len(s.start)]
    return union(*(np.concatenate(part) for part in zip(*filled, strict=True))) if filled else EMPTY
