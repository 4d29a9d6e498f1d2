"""The records of a structured log of torch.compile (`TORCH_TRACE`), one after the other and in
bounded memory.

A record is a line `V1121 21:38:16.518000 979 torch/_dynamo/utils.py:2126] {JSON}`; where the JSON
has `has_payload` (the MD5 of the payload), the payload follows as lines that begin with one tab.
Launchers put `[rank0]:` before every line, and then several ranks may write into one file between
each other's lines; each prefix is a stream of its own."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from traceanalyzer.base import regex
from traceanalyzer.ingest.stream import ByteStream
from traceanalyzer.trace.compile_log import Counts

MAX_LINE_BYTES = MAX_PAYLOAD_BYTES = 32 << 20
"""A longer line or payload is cut: whole graphs are tens of megabytes of payload, but spread over
lines."""
MAX_STREAMS = 4096  # prefixes that may have a record open at a time
ENVELOPE = frozenset(
    {
        "rank",
        "frame_id",
        "frame_compile_id",
        "attempt",
        "compiled_autograd_id",
        "stack",
        "has_payload",
        "process",
    }
)
"""Keys of the JSON that say where a record belongs; the other one says what it is."""
_PREFIX = regex(rb"\[[^\]\n]{1,64}\]: ?")
_HEADER = regex(
    rb"(?s)[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{3,6} +(\d{1,20}) *[^\]\n]{0,1000}?:\d{1,9}\] ?(\{.*)"
)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True)
class Record:
    """One record."""

    kind: str
    body: Any
    envelope: dict[str, Any]
    thread: int
    prefix: str
    payload: bytes = b""

    @property
    def compile_id(self) -> str:
        """`0/1`: the first frame's second compilation; `!0/1/2` inside compiled autograd; ""
        outside of any."""
        frame = self.envelope.get("frame_id")
        number = self.envelope.get("frame_compile_id")
        autograd = self.envelope.get("compiled_autograd_id")
        parts = [] if autograd is None else [f"!{autograd}"]
        if frame is not None:
            parts += [str(frame), str(0 if number is None else number)]
        return "/".join(parts)

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.payload.decode("utf-8", "replace")

    @property
    def attempt(self) -> int:
        """How often dynamo had begun again when it was written."""
        value = self.envelope.get("attempt")
        return value if isinstance(value, int) else 0


@dataclass
class _Open:
    """A record whose payload may still go on."""

    record: Record
    expected: str
    digest: Any
    kept: bool
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    begun: bool = False


def records(source: Iterable[bytes], wanted: frozenset[str], counts: Counts) -> Iterator[Record]:
    """The records in the order in which they end. Payloads are kept of the `wanted` kinds; an
    artifact's kind is its name."""
    open_: dict[bytes, _Open] = {}
    for line in source:
        counts.lines += 1
        prefix, text = _without_prefix(line)
        if text.startswith(b"\t"):
            _continue(open_.get(prefix), text, counts)
            continue
        header = _HEADER.match(text)
        if header is None:
            if text.strip():
                counts.stray_lines += 1
            continue
        if prefix in open_:
            yield _closed(open_.pop(prefix), counts)
        record = _record(prefix, header, counts)
        if record is None:
            continue
        expected = record.envelope.get("has_payload")
        if not isinstance(expected, str):
            yield record
        elif len(open_) < MAX_STREAMS:
            digest = hashlib.md5(usedforsecurity=False)
            open_[prefix] = _Open(record, expected, digest, record_kind(record) in wanted)
    for opened in open_.values():
        yield _closed(opened, counts)


def _without_prefix(line: bytes) -> tuple[bytes, bytes]:
    """What a launcher put before a line, and the line."""
    launcher = _PREFIX.match(line)
    if launcher is None:
        return b"", line
    return launcher[0].rstrip(), line[launcher.end() :]


def lines(stream: ByteStream, counts: Counts) -> Iterator[bytes]:
    """The lines without their ends; of a longer one than `MAX_LINE_BYTES` its beginning."""
    rest: list[bytes] = []
    held = 0
    while piece := stream.read():
        first, *others = piece.split(b"\n")
        held += len(first)
        if held <= MAX_LINE_BYTES:
            rest.append(first)
        if not others:
            continue
        if held > MAX_LINE_BYTES:
            counts.shortened += 1
        yield b"".join(rest).removesuffix(b"\r")
        for line in others[:-1]:
            yield line.removesuffix(b"\r")
        rest = [others[-1]]
        held = len(others[-1])
    if held:
        yield b"".join(rest).removesuffix(b"\r")


def record_kind(record: Record) -> str:
    """What a record is: an artifact's or a dumped graph's own name, else its key."""
    if record.kind in ("artifact", "graph_dump") and isinstance(record.body, dict):
        return str(record.body.get("name", record.kind))
    return record.kind


def _record(prefix: bytes, header: re.Match[bytes], counts: Counts) -> Record | None:
    try:
        values = _decode(header[2].decode("utf-8", "replace"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        counts.unreadable += 1
        return None
    counts.records += 1
    kind = next((key for key in values if key not in ENVELOPE), "")
    envelope = {key: value for key, value in values.items() if key in ENVELOPE}
    return Record(
        kind, values.get(kind), envelope, int(header[1]), prefix.decode("utf-8", "replace")
    )


def _continue(opened: _Open | None, text: bytes, counts: Counts) -> None:
    if opened is None:
        counts.stray_lines += 1
        return
    piece = text[1:].rstrip(b"\n")
    if opened.begun:
        piece = b"\n" + piece
    opened.begun = True
    counts.payload_bytes += len(piece)
    opened.digest.update(piece)
    if not opened.kept:
        return
    room = MAX_PAYLOAD_BYTES - opened.size
    opened.size += len(piece)
    if room > 0:
        opened.parts.append(piece[:room])


def _closed(opened: _Open, counts: Counts) -> Record:
    if opened.digest.hexdigest() != opened.expected:
        counts.damaged_payloads += 1
    if opened.size > MAX_PAYLOAD_BYTES:
        counts.shortened += 1
    return replace(opened.record, payload=b"".join(opened.parts))
