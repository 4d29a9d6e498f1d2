"""CUDA memory snapshots, read safely: interpreted, never unpickled."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.base import RefusedSnapshotError
from traceanalyzer.ingest.memory.opcodes import FAULTS, interpret
from traceanalyzer.ingest.memory.shapes import Shapes, TakenSegment
from traceanalyzer.ingest.side_files import mapping
from traceanalyzer.ingest.stream import head_of, open_stream
from traceanalyzer.trace import I32, I64, Trace
from traceanalyzer.trace.snapshot import (
    AllocationEvents,
    DeviceMemory,
    MemoryBlocks,
    Segment,
    Snapshot,
)

MAX_DEVICES = 4096
MAX_BYTES_OF_MEMORY = 1 << 50  # a size beyond a pebibyte is damage; sums of sizes then stay exact
PROTO = b"\x80"  # how every snapshot begins


_KEYS = (b"segments", b"device_traces")
_OF_DUMPS = (b"pg_config", b"comm_lib_version", b"nccl_version")
"""How Flight Recorder dumps begin, pickles as snapshots are."""


def read_snapshot(path: Path, progress: Callable[[float], None] | None = None) -> Snapshot:
    """The snapshot of a file, gzip or not. Raises RefusedSnapshotError, UnreadableInputError if it
    cannot be opened."""
    shapes = Shapes()
    head = head_of(path)
    if head.lstrip()[:1] in (b"{", b"["):
        raise RefusedSnapshotError(
            f"{path}: JSON, not a CUDA memory snapshot (a pickle); a trace is for `traceanalyzer analyze`; record a "
            "snapshot with torch.cuda.memory._dump_snapshot"
        )
    if any(key in head for key in _OF_DUMPS):
        raise RefusedSnapshotError(
            f"{path}: a Flight Recorder dump, not a CUDA memory snapshot; which rank its job waits for says "
            "`traceanalyzer analyze` of the folder with the dumps"
        )
    with open_stream(path, progress) as stream:
        try:
            top = interpret(stream.read, shapes)
            return snapshot_of(str(path), top, shapes)
        except RefusedSnapshotError as error:
            raise RefusedSnapshotError(
                f"{path}: not a CUDA memory snapshot that can be read safely: {stream.damage or error}; "
                "record one with torch.cuda.memory._dump_snapshot"
            ) from error


def _are_sizes(column: I32 | I64) -> bool:
    """Whether each may be a number of bytes of memory."""
    return not len(column) or bool(0 <= column.min() <= column.max() <= MAX_BYTES_OF_MEMORY)


def snapshot_of(path: str, top: Any, shapes: Shapes) -> Snapshot:
    """The snapshot that a pickle stated as `top`, and its shapes as columns. Raises
    RefusedSnapshotError."""
    if not isinstance(top, dict) or not isinstance(top.get("segments"), list):
        raise RefusedSnapshotError("it has no segments")
    segments = top["segments"]
    settings = mapping(top.get("allocator_settings"))
    if any(type(segment) is not TakenSegment for segment in segments):
        raise RefusedSnapshotError("its segments are none")
    try:
        lengths = [sum(count) for count in top.get("device_traces", [])]
        events = shapes.event_columns()
        if sum(lengths) != len(events) or min(lengths, default=0) < 0 or len(lengths) > MAX_DEVICES:
            raise RefusedSnapshotError("damaged (events without a device)")
        blocks = shapes.block_columns([segment.blocks for segment in segments])
        reserved = np.array([segment.segment.size for segment in segments], np.int64)
        if not all(map(_are_sizes, (events.size, blocks.size, blocks.requested, reserved))):
            raise RefusedSnapshotError("damaged (a size that no memory has)")
        devices = tuple(_devices(lengths, events, segments, blocks))
        annotations = tuple(sorted(shapes.annotations, key=lambda annotation: annotation.time_us))
        stated = {
            key: settings[key]
            for key in settings
            if isinstance(settings[key], str | int | float | dict)
        }
        return Snapshot(path, devices, shapes.stacks, annotations, stated)
    except FAULTS as error:
        raise RefusedSnapshotError(f"damaged ({type(error).__name__}: {error})") from error


def _devices(
    lengths: list[int], events: AllocationEvents, segments: list[TakenSegment], blocks: MemoryBlocks
) -> Iterator[DeviceMemory]:
    """The devices that have events or segments, of which the first ones have so many events."""
    of_traces = dict(enumerate(pairwise(np.cumsum([0, *lengths]).tolist())))
    used = {*np.flatnonzero(lengths).tolist(), *(segment.device for segment in segments)}
    if any(not 0 <= device < MAX_DEVICES for device in used):
        raise RefusedSnapshotError("damaged (no such device)")
    device_of = np.array([segment.device for segment in segments], np.int64)
    segments_of = _by_device(device_of)
    blocks_of = _by_device(device_of[blocks.segment])
    nothing = np.empty(0, np.int64)
    for device in sorted(used):
        lo, hi = of_traces.get(device, (0, 0))
        of_device = segments_of.get(device, nothing)
        own = tuple(segments[i].segment for i in of_device.tolist())
        own_blocks = _blocks_of(blocks, blocks_of.get(device, nothing), of_device, own)
        yield DeviceMemory(device, _stretch_of(events, lo, hi), own, own_blocks)


def _stretch_of(events: AllocationEvents, start: int, stop: int) -> AllocationEvents:
    names = ("since_us", "address", "size", "action", "stack")
    return AllocationEvents(events.begin_us, *(getattr(events, name)[start:stop] for name in names))


def _blocks_of(
    blocks: MemoryBlocks, rows: I64, of_device: I64, segments: Sequence[Segment]
) -> MemoryBlocks:
    """These rows of the blocks. `of_device`: places of the device's segments among all, ascending;
    the blocks name them by their place among those of the device."""
    columns = {name: getattr(blocks, name)[rows] for name in blocks.__dataclass_fields__}
    columns["segment"] = np.searchsorted(of_device, columns["segment"])
    columns["address"] = _addresses(columns, segments)
    return MemoryBlocks(**columns)


def _by_device(device_of: I64) -> dict[int, I64]:
    """The rows of each device, in order."""
    if not len(device_of):
        return {}
    order = np.argsort(device_of, kind="stable")
    devices, first = np.unique(device_of[order], return_index=True)
    return dict(zip(devices.tolist(), np.split(order, first[1:]), strict=True))


def _addresses(columns: dict[str, Any], segments: Sequence[Segment]) -> Any:
    """Addresses of blocks: before PyTorch 2.1 they follow one another from the segment's own."""
    if not len(columns["address"]) or columns["address"].min() >= 0:
        return columns["address"]
    size = columns["size"]
    segment = columns["segment"]
    before = np.cumsum(size) - size
    first = np.concatenate(([0], np.flatnonzero(np.diff(segment)) + 1))
    addresses = np.array([segment.address for segment in segments])
    base = np.zeros(len(segments), np.int64)
    base[segment[first]] = addresses[segment[first]] - before[first]
    return base[segment] + before


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is a pickle with the keys of a snapshot. `head`: its first bytes,
    decompressed."""
    return head.startswith(PROTO) and any(key in head for key in _KEYS)


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but the snapshot. Raises RefusedSnapshotError."""
    return [Trace(str(path), "memory_snapshot", [], memory=read_snapshot(path, progress))]
