"""Operators by GPU memory: what each allocates and frees in a step, and what it holds when most is
allocated.

From the allocator's own events: `[memory]` instants of Kineto, else the history of a snapshot of
that time. An event belongs to the innermost operator that runs at its time, on whichever thread:
the one that began last. https://docs.pytorch.org/docs/stable/profiler.html"""

import re

import numpy as np

from traceanalyzer.analysis.algebra import innermost_open_at, isin_few
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace import I64, Bool, MemoryEvents, RangeKind, Trace, distinct
from traceanalyzer.trace.snapshot import ACTIVE, CODE, Snapshot

OUTSIDE = "(outside of operators)"
BEFORE = "(allocated before the recording)"
NAMED = (RangeKind.OP, RangeKind.ANNOTATION)
BEFORE_CODE = -2
MAKES_ROOM = re.compile(
    r"^(aten::(new_)?(empty|empty_strided|empty_like|resize_)|ProfilerStep#\d+)$"
)
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
        of_snapshot = events_of(trace.memory, trace)
        events = of_snapshot if _clocks_agree(timed, of_snapshot) else events
    if not len(events):
        return []
    node = innermost_operator(timed, events.start)
    name = np.full(len(node), -1, np.int64)
    name[node >= 0] = ranges.name[timed.linked.tree.row[node[node >= 0]]]
    steady = timed.steady_host(events.start)
    table = []
    for device in distinct(events.device).tolist():
        mine = events.device == device
        table += _of_device(
            timed, events.take(np.flatnonzero(mine)), name[mine], steady[mine], device
        )
    return sorted(table, key=lambda row: (-row.held_at_peak_bytes, -row.allocated_bytes, row.name))


def _clocks_agree(timed: Timed, events: MemoryEvents) -> bool:
    made = events.start[events.bytes > 0]
    makes_room = _makes_room(timed) & (timed.linked.tree.kind == RangeKind.OP)

    def inside(time: I64) -> int:
        node = _innermost(timed, time, np.ones(len(makes_room), bool))
        return int(np.count_nonzero(makes_room[node[node >= 0]]))

    return inside(made) > CLEARLY * max(inside(made - WRONG_BY_NS), inside(made + WRONG_BY_NS))


def _makes_room(timed: Timed) -> Bool:
    """For each node of the host tree whether it only allocates."""
    return timed.linked.tree.named(
        np.array([*(bool(MAKES_ROOM.match(text)) for text in timed.trace.strings), False])
    )


def _of_device(
    timed: Timed, events: MemoryEvents, name: I64, steady: Bool, device: int
) -> list[OpMemory]:
    maker = makers(events)
    peak = int(events.allocated.argmax())
    name = np.where(maker >= 0, name[maker], BEFORE_CODE)
    # What is still allocated at the peak, and the bytes there that no event allocated.
    held = np.zeros(len(events), bool)
    before = 0
    if events.allocated[peak] >= 0:
        held[: peak + 1] = events.bytes[: peak + 1] > 0
        freed = maker[: peak + 1][~held[: peak + 1]]
        held[freed[freed >= 0]] = False
        before = max(int(events.allocated[peak]) - int(events.bytes[held].sum()), 0)
    found, group = np.unique(np.append(name, BEFORE_CODE), return_inverse=True)
    group = group[:-1]
    count = timed.steps.steady_count
    is_made = events.bytes > 0
    calls, allocated, freed = (
        (np.bincount(group, np.where(steady & chosen, weight, 0), len(found)) / count).tolist()
        for chosen, weight in (
            (is_made, np.ones(len(group))),
            (is_made, events.bytes),
            (~is_made, -events.bytes),
        )
    )
    kept = np.bincount(group, np.where(held, events.bytes, 0), len(found)).astype(np.int64)
    kept[found == BEFORE_CODE] += before
    texts = {BEFORE_CODE: BEFORE, -1: OUTSIDE}
    return [
        OpMemory(
            texts.get(code) or timed.trace.strings[code],
            device,
            calls[i],
            allocated[i],
            freed[i],
            allocated[i] - freed[i],
            int(kept[i]),
        )
        for i, code in enumerate(found.tolist())
        if allocated[i] or freed[i] or kept[i]
    ]


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
        mine = np.flatnonzero(tree.thread == thread)
        at = np.searchsorted(tree.start[mine], time, side="right") - 1
        inside = nearest[
            innermost_open_at(tree.parent, tree.end, np.where(at >= 0, mine[at], -1), time)
        ]
        later = (inside >= 0) & ((best < 0) | (tree.start[inside] > tree.start[best]))
        best[later] = inside[later]
    return best


def events_of(snapshot: Snapshot, trace: Trace) -> MemoryEvents:
    """The allocations and frees of each GPU within the trace's host ranges, sizes as asked for;
    empty where the two were not recorded at the same time. Both have wall-clock times of the
    process, the snapshot's in whole us."""
    ranges = trace.host_ranges
    if not trace.epoch_ns or not len(ranges):
        return MemoryEvents.empty()
    begin = int(ranges.start.min())
    end = int(ranges.end.max())
    columns: dict[str, list[I64]] = {
        name: [] for name in ("start", "device", "bytes", "allocated", "address")
    }
    for device in snapshot.devices:
        events = device.events
        start = events.since_us.astype(np.int64) * 1000 + (events.begin_us * 1000 - trace.epoch_ns)
        sign = (events.action == CODE["alloc"]).astype(np.int64) - (
            events.action == CODE["free_requested"]
        )
        change = events.size.astype(np.int64) * sign
        blocks = device.blocks
        # All that is allocated after each row: what is held in the end, without what changes later.
        allocated = blocks.requested[blocks.state == ACTIVE].sum() - (
            change.sum() - change.cumsum()
        )
        rows = np.flatnonzero((start >= begin) & (start <= end) & (change != 0))
        taken = (
            start[rows],
            np.full(len(rows), device.device),
            change[rows],
            allocated[rows],
            events.address[rows],
        )
        for name, values in zip(columns, taken, strict=True):
            columns[name].append(values)
    return MemoryEvents.from_columns(
        {name: np.concatenate(parts) for name, parts in columns.items() if parts}, None
    )
