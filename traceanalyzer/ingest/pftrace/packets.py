"""The packets of a Perfetto trace, one by one, in bounded memory."""

from collections.abc import Generator, Iterator

from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.protobuf.wire import BYTES, fields_before_damage
from traceanalyzer.ingest.stream import ByteStream

PACKET = 1
HEAD = bytes((PACKET << 3 | BYTES,))
_LONGEST_HEAD = 12
"""Bytes of the number and length before a packet, at most."""
_MOST_BYTES = 64 * MIB
"""No packet is longer: the longest are the names of all events, some 50 bytes each."""


class Packets:
    """The packets of a file; `damage` says why they end early, once they have."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.damage = ""

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        while piece := self._stream.read():
            rest = yield from self._of(rest + piece)
            if self.damage:
                return
        self.damage = self._stream.damage or ("the last packet is cut off" if rest else "")

    def _of(self, text: bytes) -> Generator[bytes, None, bytes]:
        """The whole packets of a text; returns what follows them."""
        done, cut = 0, False
        for number, size, start, end in fields_before_damage(text)[0]:
            cut = number == PACKET and start < end < start + size
            if number != PACKET or end != start + size:
                break
            done = end
            yield text[start:end]
        if not cut and len(text) - done > _LONGEST_HEAD:
            self.damage = "what follows is no packet"
        if len(text) - done > _MOST_BYTES:
            self.damage = f"what follows is longer than packets are ({_MOST_BYTES // MIB} MiB)"
        return text[done:]
