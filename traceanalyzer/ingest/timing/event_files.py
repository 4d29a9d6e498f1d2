"""Event files of TensorBoard (`events.out.tfevents...`): scalars by tag and step, with the time at
which each was written.

A file is a row of records (length, checksum, an `Event`, checksum); an event holds its wall time
(1), step (2) and a summary (5) of values (1), each with a tag (1) and a number: `simple_value` (2),
or a tensor (8) with one float (`float_val` 5, `double_val` 6, or `tensor_content` 4)."""

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.protobuf.wire import DamagedMessageError, ProtoMessage, fields
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.ingest.timing.formats import LineFormat
from traceanalyzer.ingest.timing.found import FoundLines
from traceanalyzer.ingest.timing.tables import meaning_of

FORM = LineFormat("TensorBoard", minimum=2)
_HEADER_BYTES = 12  # of a record: its length, 8, and the checksum of that, 4
_FOOTER_BYTES = 4
_WALL_TIME, _STEP, _SUMMARY, _VALUE = 1, 2, 5, 1
_TAG, _SIMPLE, _TENSOR = 1, 2, 8
_CONTENT, _FLOATS, _DOUBLES = 4, 5, 6
_VERSION = b"brain.Event:"
_WITHIN = 64  # bytes: the first event states the version
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
MOST_RECORD = 16 * MIB
"""Bytes: scalars have some hundred, images a few million. A longer record is damage."""
MOST_STEPS = 5_000_000


def is_event_file(head: bytes) -> bool:
    """Whether a file that begins like this is one."""
    return _VERSION in head[:_WITHIN]


def read_event_file(
    path: Path, found: FoundLines, progress: Callable[[float], None] | None = None
) -> None:
    """Add the steps of an event file to `found`: scalars whose tags are known, and when the first
    scalar of a step was written. A record that is damaged is counted."""
    steps: dict[int, dict[str, float]] = {}
    for record in _records(path, found, progress):
        found.lines += 1
        try:
            event = ProtoMessage(record)
            summary = event.bytes(_SUMMARY)
            scalars = dict(_scalars(summary)) if summary else {}
        except DamagedMessageError:
            found.damage(FORM)
            continue
        if not scalars or len(steps) >= MOST_STEPS:
            continue
        values = steps.setdefault(event.value(_STEP), {"when_s": event.double(_WALL_TIME)})
        for tag, value in scalars.items():
            meant = meaning_of(tag)
            if meant is not None:
                found.keys.setdefault(meant.field, tag)
                found.factors.setdefault(meant.field, meant.factor)
                values.setdefault(meant.field, value * meant.factor)
    for step, values in sorted(steps.items()):
        found.of(FORM).add(step, {"step": float(step), **values})


def _records(
    path: Path, found: FoundLines, progress: Callable[[float], None] | None
) -> Iterator[bytes]:
    """The bytes of each record, up to where the file is cut off or damaged."""
    rest = b""
    with open_stream(path, progress, log=True) as stream:
        for piece in stream:
            rest += piece
            at = 0
            while len(rest) - at >= _HEADER_BYTES:
                (size,) = struct.unpack_from("<Q", rest, at)
                if size > MOST_RECORD:
                    found.truncated = True
                    return
                end = at + _HEADER_BYTES + size + _FOOTER_BYTES
                if end > len(rest):
                    break
                yield rest[at + _HEADER_BYTES : end - _FOOTER_BYTES]
                at = end
            rest = rest[at:]
    found.truncated |= bool(rest)


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    """Tag and number of each scalar of a summary."""
    for number, _, start, end in fields(summary):
        if number != _VALUE:
            continue
        value = ProtoMessage(summary, start, end)
        scalar = _float_of(value.bytes(_SIMPLE)) if _SIMPLE in value else _of_tensor(value)
        if not math.isnan(scalar):
            yield value.text(_TAG), scalar


def _of_tensor(value: ProtoMessage) -> float:
    """The number of a tensor with one; NaN for others."""
    tensor = value.bytes(_TENSOR)
    if not tensor:
        return math.nan
    message = ProtoMessage(tensor)
    for number in (_FLOATS, _DOUBLES, _CONTENT):
        scalar = _float_of(message.bytes(number))
        if not math.isnan(scalar):
            return scalar
    return math.nan


def _float_of(raw: bytes) -> float:
    """The number in these bytes, infinity where it is not finite; NaN where they hold none."""
    by_size = {_FLOAT.size: _FLOAT, _DOUBLE.size: _DOUBLE}
    form = by_size.get(len(raw))
    if form is None:
        return math.nan
    value = float(form.unpack(raw)[0])
    return value if math.isfinite(value) else math.inf
