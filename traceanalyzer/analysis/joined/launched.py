"""Which API calls launch work on a device, and which of them did: the work of the others is not in
the recording."""

import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    Groups,
    IntervalSet,
    at,
    contains,
    isin_few,
    join,
    scatter,
    texts_where,
    union,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import regex
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct

MOSTLY = 0.5
"""With more of the device ops' launches missing, those that are there say nothing of their
neighbours."""


_BEGIN = regex(r"StreamBeginCapture")
_END = regex(r"StreamEndCapture")
_NAMED = regex(r"^(cuda_?)?(graph_?)?capture_(\d|graph|rank)|CUDAGraph.capture", re.IGNORECASE)
"""Ranges of serving engines around a capture: `capture_32_FULL`, `graph_capture_rank_0`."""
_BUILDING = regex(
    r"Graph(Exec)?(Instantiate|Update|(Kernel|Memcpy|Memset)NodeSetParams|AddKernelNode|Upload|Clone)"
)
"""Calls that make or change an executable graph."""


def is_launch(linked: TraceJoins) -> Bool:
    """Which API calls launch a kernel or a graph; calls made by another call do not count again."""
    return isin_few(linked.api_kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)) & ~linked.memo(
        is_nested
    )


def is_nested(linked: TraceJoins) -> Bool:
    """Which API calls were made by another API call (a driver call beneath the runtime's)."""
    tree = linked.tree

    def nested(parent: I32, is_call: Bool, row: I32) -> tuple[I32, bool]:
        return row[at(tree.is_call, parent, False) & is_call], True

    return scatter(
        np.logical_or,
        np.zeros(len(tree.node_of_call), bool),
        nested,
        tree.parent,
        tree.is_call,
        tree.row,
    )


def bore_work(linked: TraceJoins) -> Bool:
    """Which API calls, or the calls they made, launched a device op that is in the recording."""
    tree = linked.tree
    result = np.zeros(len(linked.trace.api_calls), bool)
    result[linked.launch[linked.launch >= 0]] = True
    nested = np.flatnonzero(linked.memo(is_nested) & result)
    result[tree.row[tree.parent[tree.node_of_call[nested]]]] = True
    return result


def host_was_lost(linked: TraceJoins) -> bool:
    """Whether most of the host's records are missing: device ops then have no launch, and there are
    few calls. Where there are some, and none of them has its work, the device is behind the host,
    and no record is missing."""
    known = np.flatnonzero(linked.launch_time >= 0)
    calls = int(is_launch(linked).sum())
    since = linked.launch_time[
        known[0] if len(known) else 0 :
    ]  # what ran before was launched before the recording
    behind = not len(known) and calls > 0
    return bool(
        (since < 0).sum() > MOSTLY * len(since)
        and calls < MOSTLY * len(linked.launch_time)
        and not behind
    )


def lost_launches(linked: TraceJoins) -> I64:
    """Start times, in order, of launch calls whose kernels should be in the recording but are
    not."""
    lost = is_launch(linked) & ~bore_work(linked) & ~linked.memo(captured_calls)
    return np.sort(linked.trace.api_calls.start[lost])


def unseen_graphs(linked: TraceJoins) -> tuple[int, int]:
    """How many launches of CUDA graphs have nothing on a device, and how many launches of graphs
    there are; those after the last launch that has its work are left out."""
    calls = linked.trace.api_calls
    launching = (linked.api_kind == ApiKind.GRAPH_LAUNCH) & ~linked.memo(is_nested)
    launching &= (calls.start <= last_launch(linked)) & ~linked.memo(captured_calls)
    return int((launching & ~linked.memo(bore_work)).sum()), int(launching.sum())


def last_launch(linked: TraceJoins) -> int:
    """When the last op that has a launch was launched, ns; -1 without. What was launched later had
    not run when the recording ended."""
    return int(linked.launch_time.max(initial=-1))


def launched_before(linked: TraceJoins) -> Bool:
    """Which device ops were launched before the recording began: they run on their stream before
    all that have a launch in it."""
    number = np.arange(len(linked.trace.device_ops))
    known = linked.launch_time >= 0
    if known.all():
        return ~known
    stream = linked.memo(stream_numbers)
    first = np.full(len(number), len(number))
    np.minimum.at(first, stream[known], number[known])
    return (number < first[stream]) & (first[stream] < len(number))


def is_cut(linked: TraceJoins) -> bool:
    """Whether the recording begins or ends while the device is behind its host."""
    lost = linked.memo(lost_launches)
    return bool(
        linked.memo(launched_before).any() or (len(lost) and lost[-1] > last_launch(linked))
    )


def stream_numbers(linked: TraceJoins) -> I32:
    """For each device op the number of its stream, the same for ops of one device, context and
    stream."""
    ops = linked.trace.device_ops
    return Groups.of(ops.device, ops.context, ops.stream).index.astype(np.int32)


class Capture(NamedTuple):
    """One capture of a stream: `start` and `end` in ns."""

    thread: int
    start: int
    end: int


def captures(linked: TraceJoins) -> list[Capture]:
    """Every capture of a stream, in the order of threads and starts: between the calls that begin
    and end it (without an end as long as the recording), or a range that is named so, where the
    recorder leaves these calls out."""
    begun = _begun(linked)
    ranges = linked.trace.host_ranges
    named = texts_where(linked.trace.strings, _NAMED.search)[ranges.name]
    rows = np.flatnonzero(named & (ranges.kind == RangeKind.ANNOTATION))
    around = [
        Capture(int(ranges.thread[row]), int(ranges.start[row]), int(ranges.end[row]))
        for row in rows
    ]
    without_calls = [
        one
        for one in around
        if not any(
            one.thread == call.thread and one.start <= call.start < one.end for call in begun
        )
    ]
    return sorted([*begun, *without_calls])


def is_start_up(linked: TraceJoins) -> bool:
    """Whether most of the recording is captures of CUDA graphs, and none is replayed: how a server
    starts."""
    found = linked.memo(captures)
    calls = linked.trace.api_calls
    if not found or (linked.api_kind == ApiKind.GRAPH_LAUNCH).any():
        return False
    last = int(calls.end.max(initial=0))
    spent = union(
        np.array([one.start for one in found]), np.array([min(one.end, last) for one in found])
    )
    return spent.total > MOSTLY * (last - int(calls.start.min(initial=last)))


def _begun(linked: TraceJoins) -> list[Capture]:
    """The captures whose begin was recorded as a call."""
    calls = linked.trace.api_calls
    begins = texts_where(linked.trace.strings, _BEGIN.search)[calls.name]
    ends = texts_where(linked.trace.strings, _END.search)[calls.name]
    found = []
    for thread in distinct(calls.thread[begins]).tolist():
        of_thread = calls.thread == thread
        start = calls.start[of_thread & begins]
        end = np.sort(calls.end[of_thread & ends])
        end = np.append(end, np.iinfo(np.int64).max)
        stop = end[np.searchsorted(end[:-1], start, side="right")]
        found += [
            Capture(thread, *pair) for pair in zip(start.tolist(), stop.tolist(), strict=True)
        ]
    return found


def capture_intervals(linked: TraceJoins) -> dict[int, IntervalSet]:
    """By thread when it captured a stream, with the ranges around captures that are named so."""
    strings = linked.trace.strings
    by_thread: dict[int, list[Capture]] = {}
    for capture in linked.memo(captures):
        by_thread.setdefault(capture.thread, []).append(capture)
    found = {
        thread: union(np.array([c.start for c in each]), np.array([c.end for c in each]))
        for thread, each in by_thread.items()
    }
    ranges = linked.trace.host_ranges
    named = texts_where(strings, _NAMED.search)[ranges.name] & (ranges.kind == RangeKind.ANNOTATION)
    for thread in distinct(ranges.thread[named]).tolist():
        named_here = named & (ranges.thread == thread)
        inside = union(ranges.start[named_here], ranges.end[named_here])
        found[thread] = join(found[thread], inside)
    return found


def captured_calls(linked: TraceJoins) -> Bool:
    """Which API calls were made on a thread while it captured a stream."""
    calls = linked.trace.api_calls
    result = np.zeros(len(calls), bool)
    for thread, during in linked.memo(capture_intervals).items():
        of_thread = calls.thread == thread
        result[of_thread] = contains(during, calls.start[of_thread])
    return result


def building_time(linked: TraceJoins) -> IntervalSet:
    """When the host captured graphs, made them executable or changed them, on any thread."""
    calls = linked.trace.api_calls
    captured = linked.memo(capture_intervals).values()
    rows = texts_where(linked.trace.strings, _BUILDING.search)[calls.name]
    last = int(calls.end.max(initial=0))
    start = [calls.start[rows], *(during.start for during in captured)]
    end = [calls.end[rows], *(np.minimum(during.end, last) for during in captured)]
    return union(np.concatenate(start), np.concatenate(end))
