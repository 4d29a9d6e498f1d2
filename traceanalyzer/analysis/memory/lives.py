"""The life of every allocation, replayed from the allocator's history and anchored at the
snapshot's last state.

The history states what was asked for; what an allocation takes is the block that the allocator gave
it, which is larger by rounding (512 bytes, or powers of two by configuration) and, in large
segments, by a rest of up to 1 MiB that is not split off. Both follow from the addresses, so that
the sum is torch.cuda.memory_allocated to the byte (c10/cuda/CUDACachingAllocator.cpp: `round_size`,
`should_split`)."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.trace.snapshot import ACTIVE, CODE, I16, I32, I64, AllocationEvents, DeviceMemory

Rows = I64 | I32 | I16  # rows of the history, or of another table
Piece = tuple[Rows, Rows, I64]  # born, freed and size of some lives
ALIGNMENT = 512  # what the allocator rounds to (kMinBlockSize)
LARGEST_REST = (
    1 << 20
)  # a rest of a large segment's block up to this size is not split off (kSmallSize)
SMALL_SEGMENT = 2 << 20  # segments of this size hold small allocations (kSmallBuffer)
ROWS_AT_ONCE = (
    1 << 12
)  # rows that are worked through together: what they take beside the columns is then nothing
BEFORE = -1  # `born` of what was allocated before the history begins


@dataclass(frozen=True)
class Allocations:
    """One row an allocation, those from before the history first. `born`, `freed` and `completed`
    are its rows.

    `freed` and `completed` are the history's length where that never happened."""

    requested: I64 | I32
    size: I64
    born: I32
    freed: I32
    completed: I32
    stack: I32 | I16
    n_events: int
    addresses_before: tuple[
        int, ...
    ]  # of those from before the history; the others have their event's
    unexplained_bytes: int
    """Bytes by which the replay's end differs from the snapshot's own state; 0 unless the history
    is damaged."""

    def __len__(self) -> int:
        return len(self.size)

    def addresses(self, memory: DeviceMemory, rows: I64) -> I64:
        """Where these rows are."""
        result = (
            memory.events.address[self.born[rows]]
            if self.n_events
            else np.zeros(len(rows), np.int64)
        )
        before = self.born[rows] < 0
        result[before] = np.array(self.addresses_before, np.int64)[rows[before]]
        return result

    def parts(self) -> "Iterator[tuple[slice, Allocations]]":
        """The rows a piece at a time, for what takes many columns: all at once they would take more
        than the file."""
        for at in range(0, len(self), ROWS_AT_ONCE):
            part = slice(at, at + ROWS_AT_ONCE)
            yield part, replace(self, **{name: getattr(self, name)[part] for name in COLUMNS})

    def alive(self, moment: int) -> I64:
        """Rows that are allocated at element `moment` of the level."""
        return np.flatnonzero((self.born < moment) & (self.freed >= moment))


COLUMNS = ("requested", "size", "born", "freed", "completed", "stack")


def at_moments(moments: Rows, *pieces: Piece) -> I64:
    """The bytes of the lives at elements of the level, ascending: 0 is before the first event, i +
    1 after event i."""
    change = np.zeros(len(moments) + 1, np.int64)
    for born, freed, size in pieces:
        for at in range(0, len(size), ROWS_AT_ONCE):
            part = slice(at, at + ROWS_AT_ONCE)
            np.add.at(change, np.searchsorted(moments, born[part], side="right"), size[part])
            np.subtract.at(change, np.searchsorted(moments, freed[part], side="right"), size[part])
    return np.cumsum(change, out=change)[:-1]


def after_births(*born: Rows) -> I64:
    """The elements of the level that follow a birth, ascending: no sum of lives is higher anywhere
    else."""
    result: I64 = np.concatenate(born)
    result.sort()
    result += 1
    return result


def highest(*pieces: Piece) -> int:
    """The highest sum of sizes at any moment."""
    moments = after_births(*(born for born, _, _ in pieces))
    return int(at_moments(moments, *pieces).max(initial=0))


def rounding(settings: Mapping[str, object]) -> dict[int, int]:
    """Divisions of powers of two by the interval they hold for (`roundup_power2_divisions`); empty
    for none."""
    divisions = settings.get("roundup_power2_divisions")
    if not isinstance(divisions, dict):
        return {}
    try:
        counts = {interval: int(count) for interval, count in divisions.items()}
        return {int(interval): count for interval, count in counts.items() if count > 1}
    except (TypeError, ValueError):
        return {}


def rounded_request(size: int, divisions: Mapping[int, int]) -> int:
    """What the allocator makes of a request."""
    if size < ALIGNMENT:
        return ALIGNMENT
    if divisions:
        interval = 1 << max((size >> 20).bit_length() - 1, 0)
        parts = divisions.get(min(interval, 32768), 0)
        if parts > 1 and size > ALIGNMENT * parts and size & (size - 1):
            step = (1 << (size.bit_length() - 1)) // parts
            return -(-size // step) * step
    return -(-size // ALIGNMENT) * ALIGNMENT


def lives_of(memory: DeviceMemory, settings: Mapping[str, object]) -> Allocations:
    """Every allocation of a GPU's history, and what lived before it began."""
    replay = _Replay(memory, settings)
    for row, (action, address, size, stack) in enumerate(_rows(memory.events)):
        replay.event(row, action, address, size, stack)
    return replay.result()


def _rows(events: AllocationEvents) -> Iterator[tuple[int, int, int, int]]:
    """(action, address, size, stack) of each event; a list of all of them would take more than the
    file."""
    for at in range(0, len(events), ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        yield from zip(
            events.action[part].tolist(),
            events.address[part].tolist(),
            events.size[part].tolist(),
            events.stack[part].tolist(),
            strict=True,
        )


class _Segments:
    """Large segments that blocks are not split from to the last byte; what is in them by
    address."""

    def __init__(self, memory: DeviceMemory) -> None:
        held = {
            s.address: s.size for s in memory.segments if not s.is_small and not s.is_expandable
        }
        events = memory.events
        alloc = CODE["segment_alloc"]
        changed = np.flatnonzero((events.action == alloc) | (events.action == CODE["segment_free"]))
        for row in changed[::-1].tolist():
            if events.action[row] == alloc:
                held.pop(int(events.address[row]), None)
            else:
                held[int(events.address[row])] = int(events.size[row])
        self._starts: list[int] = []
        self._size: dict[int, int] = {}
        self._inside: dict[int, list[int]] = {}
        for address, size in held.items():
            self.add(address, size)

    def add(self, address: int, size: int) -> None:
        if size > SMALL_SEGMENT and address not in self._size:
            insort(self._starts, address)
            self._size[address] = size
            self._inside[address] = []

    def remove(self, address: int) -> None:
        if self._size.pop(address, None) is not None:
            del self._starts[bisect_left(self._starts, address)]
            del self._inside[address]

    def find(self, address: int) -> int | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._starts[at] + self._size[self._starts[at]]:
            return None
        return self._starts[at]

    def put(self, segment: int, address: int) -> int:
        """Put a block into a segment; where the next one, or the segment's end, is."""
        inside = self._inside[segment]
        at = bisect_left(inside, address)
        inside.insert(at, address)
        return inside[at + 1] if at + 1 < len(inside) else segment + self._size[segment]

    def take(self, address: int) -> None:
        segment = self.find(address)
        if segment is not None:
            inside = self._inside[segment]
            at = bisect_left(inside, address)
            if at < len(inside) and inside[at] == address:
                del inside[at]


def _array_for(*columns: Rows) -> "array[int]":
    """An empty array as wide as the largest of these values needs."""
    largest = max(int(column.max(initial=0)) for column in columns)
    return array(next(code for code in "hiq" if largest <= np.iinfo(code).max))


class _Replay:
    def __init__(self, memory: DeviceMemory, settings: Mapping[str, object]) -> None:
        events = memory.events
        self._memory = memory
        self._divisions = rounding(settings)
        max_split = settings.get("max_split_size", -1)
        self._max_split = max_split if isinstance(max_split, int) and max_split > 0 else None
        self._n_events = len(events)
        has_requests = bool((events.action == CODE["free_requested"]).any())
        self._requested = CODE["free_requested"] if has_requests else CODE["free_completed"]
        self._completes = bool((events.action == CODE["free_completed"]).any())
        self._columns = {
            "requested": _array_for(events.size, memory.blocks.requested),
            "size": array("q"),
        }
        self._columns |= {
            "born": array("i"),
            "stack": _array_for(events.stack, memory.blocks.stack),
        }
        self._columns |= {"freed": array("i"), "completed": array("i")}
        self._freed = self._columns["freed"]
        self._completed = self._columns["completed"]
        self._segments = _Segments(memory)
        self._live: dict[int, int] = {}
        self._pending: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """What lived before the history began: freed in it, or alive at its end, without having
        been born."""
        seen: set[int] = set()
        before: dict[int, tuple[int, int, int]] = {}
        for action, address, size, _ in _rows(self._memory.events):
            if action == CODE["alloc"]:
                seen.add(address)
            elif action == self._requested and address not in seen:
                before[address] = size, 0, 0
                seen.add(address)
        blocks = self._memory.blocks
        self._end = {
            int(blocks.address[i]): (
                int(blocks.size[i]),
                int(blocks.requested[i]),
                int(blocks.stack[i]),
            )
            for i in np.flatnonzero(blocks.state == ACTIVE)
        }
        before |= {
            at: (asked, size, stack)
            for at, (size, asked, stack) in self._end.items()
            if at not in seen
        }
        self._before = tuple(sorted(before, reverse=True))
        for address, (requested, size, stack) in sorted(before.items(), reverse=True):
            self._add(address, requested, BEFORE, stack, size)

    def _add(self, address: int, requested: int, born: int, stack: int, size: int = 0) -> None:
        block = size or rounded_request(requested, self._divisions)
        segment = self._segments.find(address)
        if segment is not None:
            rest = self._segments.put(segment, address) - address - block
            unsplit = self._max_split is not None and block >= self._max_split
            is_joined = rest <= LARGEST_REST or unsplit
            if not size and rest > 0 and is_joined:
                block += rest
        self._live[address] = len(self._freed)
        never = self._n_events
        for column, value in zip(
            self._columns.values(), (requested, block, born, stack, never, never), strict=True
        ):
            column.append(value)

    def event(self, row: int, action: int, address: int, size: int, stack: int) -> None:
        if action == CODE["alloc"]:
            old = self._live.pop(address, None)
            if old is not None:  # its free was not written down
                self._freed[old] = self._completed[old] = row
                self._segments.take(address)
            self._add(address, size, row, stack)
        elif action == self._requested:
            life = self._live.pop(address, None)
            if life is not None:
                self._freed[life] = row
                self._pending[address] = life
                if not self._completes or action == CODE["free_completed"]:
                    self._complete(address, row)
        elif action == CODE["free_completed"]:
            self._complete(address, row)
        elif action == CODE["segment_alloc"]:
            self._segments.add(address, size)
        elif action == CODE["segment_free"]:
            self._segments.remove(address)

    def _complete(self, address: int, row: int) -> None:
        life = self._pending.pop(address, None)
        if life is not None:
            self._completed[life] = row
            self._segments.take(address)

    def result(self) -> Allocations:
        """The lives, those alive at the end with the sizes that the snapshot states."""
        columns = {
            name: np.frombuffer(values, values.typecode) for name, values in self._columns.items()
        }
        size = columns["size"]
        known = 0
        for address in self._live.keys() & self._end.keys():
            size[self._live[address]] = self._end[address][0]
            known += self._end[address][0]
        state = sum(size for size, _, _ in self._end.values())
        replayed = int(size[list(self._live.values())].sum()) if self._live else 0
        unexplained = (state - known) + (replayed - known)
        return Allocations(
            **columns,
            addresses_before=self._before,
            n_events=self._n_events,
            unexplained_bytes=unexplained,
        )
