"""Lines of a file, gzip or not, of any length in bounded memory."""

from collections.abc import Iterator

from traceanalyzer.ingest.stream import ByteStream
from traceanalyzer.ingest.torch_log.records import MAX_LINE_BYTES
from traceanalyzer.trace.compile_log import Counts


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
        rest, held = [others[-1]], len(others[-1])
    if held:
        yield b"".join(rest).removesuffix(b"\r")
