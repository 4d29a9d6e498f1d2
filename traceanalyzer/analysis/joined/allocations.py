"""What the allocator did while a trace was recorded, from the history of the snapshot that goes with it."""

import numpy as np

from traceanalyzer.trace import I64, MemoryEvents, Trace
from traceanalyzer.trace.snapshot import ACTIVE, CODE, DeviceMemory, Snapshot


def events_of(snapshot: Snapshot, trace: Trace) -> MemoryEvents:
    """The allocations and frees of each GPU within the trace's host ranges, sizes as asked for; empty where the two
    were not recorded at the same time. Both have wall-clock times of the process, the snapshot's in whole us."""
    ranges = trace.host_ranges
    if not trace.epoch_ns or not len(ranges):
        return MemoryEvents.empty()
    begin, end = int(ranges.start.min()), int(ranges.end.max())
    columns: dict[str, list[I64]] = {name: [] for name in ("start", "device", "bytes", "allocated", "address")}
    for device in snapshot.devices:
        events = device.events
        start = events.since_us.astype(np.int64) * 1000 + (events.begin_us * 1000 - trace.epoch_ns)
        change, allocated = _changes(device)
        rows = np.flatnonzero((start >= begin) & (start <= end) & (change != 0))
        of_device = np.full(len(rows), device.device)
        taken = (start[rows], of_device, change[rows], allocated[rows], events.address[rows])
        for name, values in zip(columns, taken, strict=True):
            columns[name].append(values)
    return MemoryEvents.from_columns({name: np.concatenate(parts) for name, parts in columns.items() if parts}, None)


def _changes(device: DeviceMemory) -> tuple[I64, I64]:
    """For each row of a GPU's history the bytes that it allocates or frees, and all that is allocated after it."""
    events, blocks = device.events, device.blocks
    sign = (events.action == CODE["alloc"]).astype(np.int64) - (events.action == CODE["free_requested"])
    change = events.size.astype(np.int64) * sign
    later = change.sum() - change.cumsum()
    return change, blocks.requested[blocks.state == ACTIVE].sum() - later
