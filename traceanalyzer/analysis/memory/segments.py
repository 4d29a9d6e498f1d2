"""What the allocator holds of the driver at one moment of the history, the holes in it and what pins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.snapshot import CODE

if TYPE_CHECKING:
    from traceanalyzer.analysis.memory.lives import Lives
    from traceanalyzer.snapshot import I64, DeviceMemory

GROWS = (CODE["segment_alloc"], CODE["segment_map"])
SHRINKS = (CODE["segment_free"], CODE["segment_unmap"])


@dataclass(frozen=True)
class Pinned:
    """A segment with holes that cannot be given back, and the largest allocation in it (a row of the lives)."""

    address: int
    size: int
    inactive: int
    largest_hole: int
    life: int
    allocations: int


@dataclass(frozen=True)
class Held:
    """All segments at a moment, bytes."""

    reserved: int
    active: int
    internal: int
    largest_hole: int
    whole_free: int
    """In segments without any allocation: these can be given back to the driver."""
    pinned: tuple[Pinned, ...]
    """Segments with both, the most inactive first."""

    @property
    def inactive(self) -> int:
        """Reserved and not in use."""
        return self.reserved - self.active


def reserved_curve(memory: DeviceMemory) -> I64:
    """Bytes reserved: element 0 before the first event, element i + 1 after event i."""
    events = memory.events
    reserved = np.zeros(len(events) + 1, np.int64)
    for actions, sign in ((GROWS, 1), (SHRINKS, -1)):
        rows = np.flatnonzero(np.isin(events.action, actions))
        reserved[rows + 1] = sign * events.size[rows]
    np.cumsum(reserved, out=reserved)
    reserved += sum(segment.size for segment in memory.segments) - int(reserved[-1])
    return reserved


def ranges_at(memory: DeviceMemory, moment: int) -> list[tuple[int, int]]:
    """(address, size) of what is reserved at element `moment` of the curve; expandable ranges are joined."""
    events = memory.events
    after = np.flatnonzero(np.isin(events.action, GROWS + SHRINKS))
    after = after[after >= moment][::-1]
    fixed = {s.address: s.size for s in memory.segments if not s.is_expandable}
    mapped = [(s.address, s.size, 1) for s in memory.segments if s.is_expandable]
    for row in after.tolist():
        action, address, size = int(events.action[row]), int(events.address[row]), int(events.size[row])
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
    result, depth, start = [], 0, 0
    for address in sorted(change):
        before, depth = depth, depth + change[address]
        if before <= 0 < depth:
            start = address
        elif depth <= 0 < before:
            result.append((start, address - start))
    return result


def held_at(memory: DeviceMemory, lives: Lives, moment: int) -> Held:
    """The segments at element `moment` of the level."""
    rows = np.flatnonzero((lives.born < moment) & (lives.completed >= moment))
    rows = rows[np.argsort(lives.address[rows], kind="stable")]
    address, size = lives.address[rows], lives.size[rows]
    ranges = ranges_at(memory, moment)
    pinned, largest, whole = [], 0, 0
    for start, length in ranges:
        lo, hi = np.searchsorted(address, start), np.searchsorted(address, start + length)
        begins = np.concatenate((address[lo:hi], [start + length]))
        ends = np.concatenate(([start], address[lo:hi] + size[lo:hi]))
        holes = np.maximum(begins - ends, 0)
        largest = max(largest, int(holes.max()))
        inactive = int(holes.sum())
        if lo == hi:
            whole += length
        elif inactive:
            life = int(rows[lo + int(np.argmax(size[lo:hi]))])
            pinned.append(Pinned(start, length, inactive, int(holes.max()), life, int(hi - lo)))
    living = lives.alive(moment)
    return Held(
        reserved=sum(length for _, length in ranges),
        active=int(size.sum()),
        internal=int((lives.size[living] - lives.requested[living]).sum()),
        largest_hole=largest,
        whole_free=whole,
        pinned=tuple(sorted(pinned, key=lambda segment: -segment.inactive)),
    )
