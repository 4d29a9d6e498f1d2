"""Operators by GPU memory: what each allocates and frees in a step, and what it holds when most is
allocated.

From the allocator's own events: `[memory]` instants of Kineto, else the history of a snapshot of
that time. An event belongs to the innermost operator that runs at its time, on whichever thread:
the one that began last. https://docs.pytorch.org/docs/stable/profiler.html"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import innermost_open_at, isin_few
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MEMORY, dataclass, metric, regex
from traceanalyzer.trace import I64, Bool, MemoryEvents, RangeKind, Trace, distinct
from traceanalyzer.trace.snapshot import ACTIVE, CODE, DeviceMemory, Snapshot

OUTSIDE = "(outside of operators)"
BEFORE = "(allocated before the recording)"
NAMED = (RangeKind.OP, RangeKind.ANNOTATION)
BEFORE_CODE = -2
MAKES_ROOM = regex(r"^(aten::(new_)?(empty|empty_strided|empty_like|resize_)|ProfilerStep#\d+)$")
"""Operators that allocate for the one that calls them, which is named instead; and the step, which
is no operator."""
WRONG_BY_NS = 20_000
CLEARLY = 2.0
"""Clocks agree if so many times as many allocations fall into operators that do nothing else (a few
us each) as would with clocks that are wrong by so much."""


@dataclass(frozen=True)
class OpMemory:
    """Operators of one name, and the GPU memory that they allocate and free themselves."""

    name: str = metric(
        "operator or annotation that runs innermost; in brackets what belongs to none"
    )
    device: int = metric("CUDA ordinal of the GPU")
    allocations: float = metric("allocations a step")
    allocated_bytes: float = metric("bytes allocated a step", MEMORY)
    freed_bytes: float = metric("bytes of what they allocated that are freed a step", MEMORY)
    net_bytes: float = metric("bytes allocated less bytes freed, a step", MEMORY)
    held_at_peak_bytes: int = metric(
        "bytes of it that are allocated when most is; these sum to that peak", MEMORY
    )


def op_memory(timed: Timed) -> list[OpMemory]:
    """A row for each operator and GPU that allocates or frees, by what is held at the peak; empty
    without events."""
    trace = timed.trace
    ranges = timed.trace.host_ranges
    events = timed.trace.memory_events
    events = events.take(np.flatnonzero((events.device >= 0) & (events.address >= 0)))
    if not len(events) and trace.memory is not None:
        of_snapshot = memory_events_of(trace.memory, trace)
        events = of_snapshot if _clocks_agree(timed, of_snapshot) else events
    if not len(events):
        return []
    node = innermost_operator(timed, events.start)
    name = np.full(len(node), -1, np.int64)
    name[node >= 0] = ranges.name[timed.linked.tree.row[node[node >= 0]]]
    steady = timed.steady_host(events.start)
    table = []
    for device in distinct(events.device).tolist():
        of_device = events.device == device
        table += _of_device(
            timed,
            events.take(np.flatnonzero(of_device)),
            name[of_device],
            steady[of_device],
            device,
        )
    return sorted(table, key=lambda row: (-row.held_at_peak_bytes, -row.allocated_bytes, row.name))


def _clocks_agree(timed: Timed, events: MemoryEvents) -> bool:
    allocated = events.start[events.bytes > 0]
    makes_room = _makes_room(timed) & (timed.linked.tree.kind == RangeKind.OP)

    def inside(time: I64) -> int:
        node = _innermost(timed, time, np.ones(len(makes_room), bool))
        return int(np.count_nonzero(makes_room[node[node >= 0]]))

    return inside(allocated) > CLEARLY * max(
        inside(allocated - WRONG_BY_NS), inside(allocated + WRONG_BY_NS)
    )


def _makes_room(timed: Timed) -> Bool:
    """For each node of the host tree whether it only allocates."""
    return timed.linked.tree.named(
        np.array([*(bool(MAKES_ROOM.match(text)) for text in timed.trace.strings), False])
    )


def _of_device(
    timed: Timed, events: MemoryEvents, name: I64, steady: Bool, device: int
) -> list[OpMemory]:
    maker = makers(events)
    name = np.where(maker >= 0, name[maker], BEFORE_CODE)
    held, before = _held_at_peak(events, maker)
    found, group = np.unique(np.append(name, BEFORE_CODE), return_inverse=True)

    def total(chosen: Bool, weight: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(group[:-1], np.where(chosen, weight, 0), len(found))

    def a_step(chosen: Bool, weight: NDArray[Any]) -> list[float]:
        return (total(steady & chosen, weight) / timed.steps.steady_count).tolist()

    is_made = events.bytes > 0
    calls = a_step(is_made, np.ones(len(events)))
    allocated = a_step(is_made, events.bytes)
    freed = a_step(~is_made, -events.bytes)
    kept = total(held, events.bytes).astype(np.int64)
    kept[found == BEFORE_CODE] += before
    texts = {BEFORE_CODE: BEFORE, -1: OUTSIDE}
    return [
        OpMemory(
            name=texts.get(code) or timed.trace.strings[code],
            device=device,
            allocations=calls[i],
            allocated_bytes=allocated[i],
            freed_bytes=freed[i],
            net_bytes=allocated[i] - freed[i],
            held_at_peak_bytes=int(kept[i]),
        )
        for i, code in enumerate(found.tolist())
        if allocated[i] or freed[i] or kept[i]
    ]


def _held_at_peak(events: MemoryEvents, maker: I64) -> tuple[Bool, int]:
    """What is still allocated when most is, and the bytes there that no event allocated; `maker`:
    the event that allocated what each frees, -1 for none."""
    peak = int(events.allocated.argmax())
    held = np.zeros(len(events), bool)
    if events.allocated[peak] < 0:
        return held, 0
    until = slice(0, peak + 1)
    held[until] = events.bytes[until] > 0
    freed = maker[until][~held[until]]
    held[freed[freed >= 0]] = False
    told = int(events.bytes[held].sum())
    return held, max(int(events.allocated[peak]) - told, 0)


def makers(events: MemoryEvents) -> I64:
    """For each event the one that allocated its memory: itself, or of a free the allocation before
    it; -1 for none."""
    maker = np.arange(len(events))
    live: dict[int, int] = {}
    for row, (address, size) in enumerate(
        zip(events.address.tolist(), events.bytes.tolist(), strict=True)
    ):
        if size > 0:
            live[address] = row
        else:
            maker[row] = live.pop(address, -1)
    return maker


def innermost_operator(timed: Timed, time: I64) -> I64:
    """The node of the operator or annotation that each of these times belongs to, -1 for none: the
    one that only allocates where the program itself calls it."""
    makes_room = _makes_room(timed)
    node = _innermost(timed, time, ~makes_room)
    alone = np.flatnonzero(node < 0)
    node[alone] = _innermost(
        timed, time[alone], makes_room & (timed.linked.tree.kind == RangeKind.OP)
    )
    return node


def _innermost(timed: Timed, time: I64, chosen: Bool) -> I64:
    """The operator or annotation (of the chosen nodes) that runs at each time and began last, over
    all threads; -1 for none."""
    tree = timed.linked.tree
    wanted = isin_few(tree.kind, NAMED) & chosen
    nearest = np.append(tree.innermost(wanted), -1)
    best = np.full(len(time), -1, np.int64)
    for thread in distinct(tree.thread[wanted]).tolist():
        first, stop = np.searchsorted(tree.thread, (thread, thread + 1)).tolist()
        begun = np.searchsorted(tree.start[first:stop], time, side="right") - 1
        node = np.where(begun >= 0, begun + first, -1)
        inside = nearest[innermost_open_at(tree.parent, tree.end, node, time)]
        begins_later = tree.start[inside] > tree.start[best]
        later = (inside >= 0) & ((best < 0) | begins_later)
        best[later] = inside[later]
    return best


def memory_events_of(snapshot: Snapshot, trace: Trace) -> MemoryEvents:
    """The allocations and frees of each GPU within the trace's host ranges, sizes as asked for;
    empty where the two were not recorded at the same time. Both have wall-clock times of the
    process, the snapshot's in whole us."""
    ranges = trace.host_ranges
    if not trace.epoch_ns or not len(ranges) or not snapshot.devices:
        return MemoryEvents.empty()
    window = (int(ranges.start.min()), int(ranges.end.max()))
    parts = [_events_of_device(device, trace.epoch_ns, window) for device in snapshot.devices]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return MemoryEvents.from_columns(columns, None)


def _events_of_device(
    device: DeviceMemory, epoch_ns: int, window: tuple[int, int]
) -> dict[str, I64]:
    """The columns of the events of a GPU in the window, ns since `epoch_ns`."""
    events = device.events
    start = events.since_us.astype(np.int64) * 1000 + (events.begin_us * 1000 - epoch_ns)
    allocates = (events.action == CODE["alloc"]).astype(np.int64)
    sign = allocates - (events.action == CODE["free_requested"])
    change = events.size.astype(np.int64) * sign
    blocks = device.blocks
    # All that is allocated after each row: what is held in the end, without what changes later.
    in_the_end = blocks.requested[blocks.state == ACTIVE].sum()
    allocated = in_the_end - (change.sum() - change.cumsum())
    inside = (start >= window[0]) & (start <= window[1])
    rows = np.flatnonzero(inside & (change != 0))
    return {
        "start": start[rows],
        "device": np.full(len(rows), device.device),
        "bytes": change[rows],
        "allocated": allocated[rows],
        "address": events.address[rows],
    }
