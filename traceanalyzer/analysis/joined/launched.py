"""Which API calls launch work on a device, and which of them did: the work of the others is not in the recording."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, one_of, scatter
from traceanalyzer.analysis.joined.captures import captured_calls
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.trace import I32, I64, Bool

MOSTLY = 0.5
"""With more of the device ops' launches missing, those that are there say nothing of their neighbours."""


def is_launch(linked: Linked) -> Bool:
    """Which API calls launch a kernel or a graph; calls made by another call do not count again."""
    return one_of(linked.api_kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)) & ~linked.memo(is_nested)


def is_nested(linked: Linked) -> Bool:
    """Which API calls were made by another API call (a driver call beneath the runtime's)."""
    tree = linked.tree

    def nested(parent: I32, is_call: Bool, row: I32) -> tuple[I32, bool]:
        return row[at(tree.is_call, parent, False) & is_call], True

    return scatter(np.logical_or, np.zeros(len(tree.node_of_call), bool), nested, tree.parent, tree.is_call, tree.row)


def bore_work(linked: Linked) -> Bool:
    """Which API calls, or the calls they made, launched a device op that is in the recording."""
    tree = linked.tree
    result = np.zeros(len(linked.trace.api_calls), bool)
    result[linked.launch[linked.launch >= 0]] = True
    nested = np.flatnonzero(linked.memo(is_nested) & result)
    result[tree.row[tree.parent[tree.node_of_call[nested]]]] = True
    return result


def host_was_lost(linked: Linked) -> bool:
    """Whether most of the host's records are missing: device ops then have no launch, and there are few calls. Where
    there are some, and none of them has its work, the device is behind the host, and no record is missing."""
    known, calls = np.flatnonzero(linked.launch_time >= 0), int(is_launch(linked).sum())
    since = linked.launch_time[known[0] if len(known) else 0 :]  # what ran before was launched before the recording
    behind = not len(known) and calls > 0
    return bool((since < 0).sum() > MOSTLY * len(since) and calls < MOSTLY * len(linked.launch_time) and not behind)


def lost_launches(linked: Linked) -> I64:
    """Start times, in order, of launch calls whose kernels should be in the recording but are not."""
    lost = is_launch(linked) & ~bore_work(linked) & ~linked.memo(captured_calls)
    return np.sort(linked.trace.api_calls.start[lost])


def last_launch(linked: Linked) -> int:
    """When the last op that has a launch was launched, ns; -1 without. What was launched later had not run when the
    recording ended."""
    return int(linked.launch_time.max(initial=-1))


def launched_before(linked: Linked) -> Bool:
    """Which device ops were launched before the recording began: they run on their stream before all that have a launch
    in it."""
    number, known = np.arange(len(linked.trace.device_ops)), linked.launch_time >= 0
    if known.all():
        return ~known
    stream = linked.memo(stream_numbers)
    first = np.full(len(number), len(number))
    np.minimum.at(first, stream[known], number[known])
    return (number < first[stream]) & (first[stream] < len(number))


def is_cut(linked: Linked) -> bool:
    """Whether the recording begins or ends while the device is behind its host."""
    lost = linked.memo(lost_launches)
    return bool(linked.memo(launched_before).any() or (len(lost) and lost[-1] > last_launch(linked)))


def stream_numbers(linked: Linked) -> I32:
    """For each device op the number of its stream, the same for ops of one device, context and stream."""
    ops = linked.trace.device_ops
    return Groups.of(ops.device, ops.context, ops.stream).index.astype(np.int32)
