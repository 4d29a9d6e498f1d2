"""A `.pftrace` as a trace."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from traceanalyzer.base import EmptyRecordingError, UnreadableInputError
from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.foreign import is_converted
from traceanalyzer.ingest.kineto.chunks import KinetoFile
from traceanalyzer.ingest.kineto.rows import KinetoRows
from traceanalyzer.ingest.kineto.trace import kineto_trace
from traceanalyzer.ingest.pftrace.events import TIME, PacketReader
from traceanalyzer.ingest.protobuf.wire import BYTES, DamagedMessageError, fields_before_damage
from traceanalyzer.ingest.stream import ByteStream, open_stream
from traceanalyzer.trace import DeviceOpKind, GraphEdges, Trace, constant_column

SEQUENCE = 10  # field of a packet: who wrote it. All writers state it, or a time.
_ROCPROF = (b"kernel_dispatch", b"hip_api", b"hsa_api", b"hip_runtime_api", b"memory_copy")
"""Categories of rocprofv3's Perfetto output."""
OF_ROCPROF = (
    "a Perfetto trace of rocprofv3, which moves the ends of kernels that overlap; give the database or the JSON of the "
    "same run: rocprofv3 --output-format rocpd (or json)"
)
COPIES_NOTE = (
    "The format does not record the direction of copies; a .json.gz trace of the same run does."
)
PACKET = 1
HEAD = bytes((PACKET << 3 | BYTES,))
_LONGEST_HEAD = 12  # bytes of the number and length before a packet, at most
_MOST_BYTES = (
    64 * MIB
)  # no packet is longer: the longest are the names of all events, some 50 bytes each


def recognise(head: bytes, path: Path) -> bool:
    """Whether these are packets of a Perfetto trace."""
    if not head.startswith(HEAD) or is_converted(head):
        return False
    packets = fields_before_damage(head)[0][:8]
    if any(number != PACKET for number, *_ in packets):
        return False
    inner = [fields_before_damage(head, start, end) for _, _, start, end in packets]
    return any(
        not damage and any(field[0] in (TIME, SEQUENCE) for field in found)
        for found, damage in inner
    )


class Packets:
    """The packets of a file; `damage` says why they end early, once they have."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.damage = ""

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        for piece in self._stream:
            text = rest + piece
            done = 0
            cut = False
            for number, size, start, end in fields_before_damage(text)[0]:
                cut = number == PACKET and start < end < start + size
                if number != PACKET or end != start + size:
                    break
                done = end
                yield text[start:end]
            rest = text[done:]
            if not cut and len(rest) > _LONGEST_HEAD:
                self.damage = "what follows is no packet"
            if len(rest) > _MOST_BYTES:
                self.damage = f"what follows is longer than packets are ({_MOST_BYTES // MIB} MiB)"
            if self.damage:
                return
        self.damage = self._stream.damage or ("the last packet is cut off" if rest else "")


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file. Raises UnreadableInputError, EmptyRecordingError."""
    rows = KinetoRows()
    events = PacketReader(rows)
    with open_stream(path, progress) as stream:
        packets = Packets(stream)
        for packet in packets:
            if not events.writer.isdisjoint(_ROCPROF):
                raise UnreadableInputError(f"{path}: {OF_ROCPROF}")
            try:
                events.take(packet)
            except DamagedMessageError:
                rows.lost += 1
    events.close()
    if not rows.kept and (packets.damage or (rows.lost and not events.writer)):
        why = packets.damage or "no packet is whole"
        raise UnreadableInputError(f"{path}: a damaged Perfetto trace ({why}); export it again")
    if not rows.kept:
        raise EmptyRecordingError(
            f"{path}: a Perfetto trace, but not torch.profiler's: it holds no operators, API calls or GPU stages; give "
            "torch.profiler's .json.gz or .pftrace"
        )
    file = KinetoFile(
        b'{"baseTimeNanoseconds":%d}' % events.base_ns, arrays=1, truncated=bool(packets.damage)
    )
    return [_named(kineto_trace(path, file, rows, packets.damage), events)]


def _named(trace: Trace, events: PacketReader) -> Trace:
    """The trace under its own format, with what that says in other words."""
    health = trace.health
    if (trace.device_ops.kind == DeviceOpKind.MEMCPY).any():
        health = replace(health, notes=(*health.notes, COPIES_NOTE))
    devices = tuple(replace(device, compute_capability=events.arch) for device in trace.devices)
    ops = replace(
        trace.device_ops, external_id=constant_column(-1, len(trace.device_ops), np.int64)
    )
    rows = (
        {number: row for row, number in enumerate(trace.device_ops.external_id.tolist())}
        if events.edges
        else {}
    )
    edges_read = [(op, after) for op, after in events.edges if op in rows and after in rows]
    kept = [(rows[op], rows[after]) for op, after in edges_read]
    edges = GraphEdges.from_columns(
        {"op": [op for op, _ in kept], "after": [after for _, after in kept]}
    )
    return replace(
        trace, source="pftrace", devices=devices, health=health, device_ops=ops, graph_edges=edges
    )
