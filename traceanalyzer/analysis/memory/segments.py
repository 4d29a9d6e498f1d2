"""What the allocator holds of the driver at one moment of the history, the holes in it and what
pins them."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.memory.lives import Allocations
from traceanalyzer.trace.snapshot import CODE, I64, DeviceMemory

GROWS = (CODE["segment_alloc"], CODE["segment_map"])
SHRINKS = (CODE["segment_free"], CODE["segment_unmap"])


class Pinned(NamedTuple):
    """A segment with holes that cannot be given back, and the largest allocation in it (a row of
    the lives)."""

    address: int
    size: int
    inactive: int
    largest_hole: int
    life: int
    allocations: int


class HeldBytes(NamedTuple):
    """All segments at a moment, bytes."""

    reserved: int
    active: int
    internal: int
    largest_hole: int
    whole_free: int  # in segments without any allocation: these can be given back to the driver
    pinned: tuple[Pinned, ...]  # segments with both, the most inactive first

    @property
    def inactive(self) -> int:
        """Reserved and not in use."""
        return self.reserved - self.active


class Reserved(NamedTuple):
    """Bytes reserved over the history: `bytes[k]` until the event `rows[k]`, and the last to the
    end."""

    rows: I64
    bytes: I64

    def at(self, moments: I64) -> I64:
        """At elements of the level: 0 is before the first event, i + 1 after event i."""
        return self.bytes[np.searchsorted(self.rows, moments)]

    def highest(self, moment: int | None = None) -> int:
        """The most until an element of the level, or ever."""
        until = len(self.rows) if moment is None else int(np.searchsorted(self.rows, moment))
        return int(self.bytes[: until + 1].max())


def reserved_of(memory: DeviceMemory) -> Reserved:
    """What was reserved, from the snapshot's last state backwards."""
    events = memory.events
    rows = np.flatnonzero(np.isin(events.action, GROWS + SHRINKS))
    sign = np.where(np.isin(events.action[rows], GROWS), 1, -1)
    change = sign * events.size[rows].astype(np.int64)
    held = np.concatenate(([0], np.cumsum(change)))
    at_end = sum(segment.size for segment in memory.segments)
    return Reserved(rows, held + at_end - held[-1])


def ranges_at(memory: DeviceMemory, moment: int) -> list[tuple[int, int]]:
    """(address, size) of what is reserved at element `moment` of the curve; expandable ranges are
    joined."""
    events = memory.events
    is_change = np.isin(events.action[moment:], GROWS + SHRINKS)
    after = moment + np.flatnonzero(is_change)[::-1]
    fixed = {s.address: s.size for s in memory.segments if not s.is_expandable}
    mapped = [(s.address, s.size, 1) for s in memory.segments if s.is_expandable]
    for row in after.tolist():
        action = int(events.action[row])
        address = int(events.address[row])
        size = int(events.size[row])
        if action == CODE["segment_alloc"]:
            fixed.pop(address, None)
        elif action == CODE["segment_free"]:
            fixed[address] = size
        else:
            mapped.append((address, size, -1 if action == CODE["segment_map"] else 1))
    return sorted([*fixed.items(), *_covered(mapped)])


def _covered(pieces: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Ranges that the pieces cover, counted with their signs."""
    change: dict[int, int] = {}
    for address, size, sign in pieces:
        change[address] = change.get(address, 0) + sign
        change[address + size] = change.get(address + size, 0) - sign
    result = []
    depth = 0
    start = 0
    for address in sorted(change):
        before = depth
        depth = depth + change[address]
        if before <= 0 < depth:
            start = address
        elif depth <= 0 < before:
            result.append((start, address - start))
    return result


def held_at(memory: DeviceMemory, lives: Allocations, moment: int) -> HeldBytes:
    """The segments at element `moment` of the level."""
    rows = np.flatnonzero((lives.born < moment) & (lives.completed >= moment))
    address = lives.addresses(memory, rows)
    rows = rows[np.argsort(address, kind="stable")]
    address = np.sort(address, kind="stable")
    size = lives.size[rows]
    ranges = ranges_at(memory, moment)
    pinned = []
    largest = 0
    whole_free = 0
    for start, length in ranges:
        lo, hi = np.searchsorted(address, (start, start + length)).tolist()
        holes = _holes(start, length, address[lo:hi], size[lo:hi])
        largest = max(largest, int(holes.max()))
        inactive = int(holes.sum())
        if lo == hi:
            whole_free += length
        elif inactive:
            life = int(rows[lo + int(np.argmax(size[lo:hi]))])
            pinned.append(Pinned(start, length, inactive, int(holes.max()), life, hi - lo))
    return HeldBytes(
        reserved=sum(length for _, length in ranges),
        active=int(size.sum()),
        internal=_internal(lives, lives.alive(moment)),
        largest_hole=largest,
        whole_free=whole_free,
        pinned=tuple(sorted(pinned, key=lambda segment: -segment.inactive)),
    )


def _holes(start: int, length: int, address: I64, size: I64) -> I64:
    """Free bytes before each block of a segment, and after the last one."""
    begins = np.append(address, start + length)
    ends = np.append(start, address + size)
    return np.maximum(begins - ends, 0)


def _internal(lives: Allocations, alive: I64) -> int:
    """Bytes by which blocks are larger than what was asked for."""
    return int((lives.size[alive] - lives.requested[alive]).sum())
