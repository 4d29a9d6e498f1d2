"""NCCL's calls in an nsys export: communicator, message size, ranks, from the payloads of NVTX
ranges, which are only there if the report was exported with `--include-blobs=true`. A payload is a
header of 32 bytes and the fields that `NVTX_PAYLOAD_SCHEMA_ENTRIES` describes."""

import struct
from dataclasses import field

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.nsys.events import UNKNOWN, ProcessEvents, Strings, process_of
from traceanalyzer.ingest.nsys.nvtx import NVTX
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import I32, Collectives

_HEADER = struct.Struct(
    "<IIIIQQ"
)  # domain, unused, schema, unused, size of the payload, size of payload and header
_FORMATS = {5: struct.Struct("<i"), 18: struct.Struct("<Q"), 22: struct.Struct("<Q")}
"""By entry type of the NVTX payload extension: int, uint64, size_t."""
_COMMUNICATOR = "NCCL communicator ID"
_BYTES = "Message size [bytes]"
_RANKS = "No. of ranks"
_RANK = "Rank"
_TOO_MANY_BYTES = 1 << 44  # 16 TiB: a message of this size is a damaged payload
_Entry = tuple[str, int, struct.Struct]  # a field of a schema that is of use: name, offset, format


@dataclass(frozen=True)
class Payloads:
    """What the payloads of the export's NCCL ranges say."""

    messages: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By rowid of the range: communicator and size of the message in bytes."""
    ranks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By (process key, communicator): rank and number of ranks, where the communicator's creation
    was seen."""


def payloads(database: Database) -> Payloads:
    """Read all payloads; empty where the export has none."""
    result = Payloads()
    schemas = dict[int, list[_Entry]]()
    columns: dict[str, int | bytes | None] = {
        "schemaId": -1,
        "idx": -1,
        "type": -1,
        "offset": 0,
        "name": None,
    }
    for schema, _, kind, offset, name in database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns):
        if name in (_COMMUNICATOR, _BYTES, _RANKS, _RANK) and kind in _FORMATS:
            schemas.setdefault(schema, []).append((name, offset, _FORMATS[kind]))
    if not schemas or not database.has(NVTX, "binaryData"):
        return result
    columns = {"rowid": -1, "globalTid": UNKNOWN, "binaryData": None}
    for row, tid, data in database.rows(NVTX, columns, where="binaryData IS NOT NULL"):
        values = _decode(data, schemas)
        communicator = values.get(_COMMUNICATOR)
        if communicator is None:
            continue
        if values.get(_BYTES, _TOO_MANY_BYTES) < _TOO_MANY_BYTES:
            result.messages[row] = (communicator, values[_BYTES])
        if {_RANK, _RANKS} <= values.keys():
            result.ranks[int(process_of(tid)), communicator] = (values[_RANK], values[_RANKS])
    return result


def collectives(
    events: ProcessEvents, found: Payloads, process: int, strings: Strings
) -> tuple[Collectives, I32]:
    """The distinct messages of a process's ranges as a table, and each range's row in it (-1:
    none)."""
    messages, of_range = _messages(events, found)
    group_sizes = [found.ranks.get((process, group), (-1, -1))[1] for _, group, _ in messages]
    sizes = [
        _in_and_out(strings.values[name], size, ranks)
        for (name, _, size), ranks in zip(messages, group_sizes, strict=True)
    ]
    table = Collectives.from_columns(
        {
            "name": [name for name, _, _ in messages],
            "in_elements": [size for size, _ in sizes],
            "out_elements": [size for _, size in sizes],
            "dtype": [strings.code("Byte") for _ in messages],  # elements are counted as bytes
            "group": [strings.code(f"{group:#018x}") for _, group, _ in messages],
            "group_size": group_sizes,
        },
        rows=len(messages),
    )
    return table, of_range


def _messages(events: ProcessEvents, found: Payloads) -> tuple[list[tuple[int, int, int]], I32]:
    """The distinct messages (name, communicator, bytes), and the place of each range's among them,
    -1 without."""
    places: dict[tuple[int, int, int], int] = {}
    of_range = np.full(len(events), -1, np.int32)
    if found.messages:
        names = events.columns["name"]
        row_of = events.columns["row"]
        for i in np.flatnonzero(np.isin(row_of, list(found.messages))).tolist():
            message = found.messages[int(row_of[i])]
            of_range[i] = places.setdefault((int(names[i]), *message), len(places))
    return list(places), of_range


def _in_and_out(name: str, size: int, ranks: int) -> tuple[int, int]:
    """Bytes that go into and come out of a call on one rank, -1 where it needs an unknown number of
    ranks. NCCL reports the smaller side of the calls that gather or scatter."""
    of_all_ranks = size * ranks if ranks > 0 else -1
    if "AllGather" in name:
        return size, of_all_ranks
    if "ReduceScatter" in name:
        return of_all_ranks, size
    return size, size


def _decode(data: object, schemas: dict[int, list[_Entry]]) -> dict[str, int]:
    """The known fields of a payload (bytes, or their hexadecimal text); empty if it is not
    understood."""
    try:
        raw = (
            bytes.fromhex(data)
            if isinstance(data, str)
            else bytes(data)
            if isinstance(data, bytes)
            else b""
        )
        _, _, schema, _, size, total = _HEADER.unpack_from(raw)
    except (ValueError, struct.error):
        return {}
    if total != len(raw) or size + _HEADER.size != total:
        return {}
    return {
        name: form.unpack_from(raw, _HEADER.size + offset)[0]
        for name, offset, form in schemas.get(schema, ())
        if offset >= 0 and offset + form.size <= size
    }
