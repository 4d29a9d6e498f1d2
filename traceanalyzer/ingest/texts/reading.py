"""Reads a text of one of some kinds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from traceanalyzer.base import UnreadableInputError, dataclass
from traceanalyzer.base.limits import MIB, limits
from traceanalyzer.ingest.plain.nccl import nccl_log, nccl_sentence
from traceanalyzer.ingest.plain.text import UTF16, plain_text
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace import Health, PastedText, ProfilerRow, Trace
from traceanalyzer.trace.nccl import NcclLog

_HEAD = 65_536
"""Bytes within which a text has to show what it is."""


@dataclass(frozen=True, eq=False)
class TextKind:
    """One kind of text: its source, how it is recognised, and what it tells."""

    source: str
    recognise: Callable[[str], bool]
    summarise: Callable[[str, Path], PastedText | None] | None = None
    rows: Callable[[str], list[ProfilerRow]] | None = None


def text_kind(head: bytes, kinds: Sequence[TextKind]) -> TextKind | None:
    """The kind of text that begins like this; None where it is none of these."""
    if b"\0" in head[:_HEAD] and not head.startswith(UTF16):
        return None
    return _kind_of(plain_text(head[:_HEAD]), kinds)


def _kind_of(text: str, kinds: Sequence[TextKind]) -> TextKind | None:
    return next((kind for kind in kinds if kind.recognise(text)), None)


def read_text(
    path: Path, kinds: Sequence[TextKind], progress: Callable[[float], None] | None
) -> list[Trace]:
    """A `Trace` with nothing in it but what the text tells. Raises UnreadableInputError."""
    data = bytearray()
    with open_stream(path, progress, log=True) as stream:
        for piece in stream:
            data += piece
            if len(data) > limits().side:
                raise UnreadableInputError(
                    f"{path}: larger than {limits().side // MIB} MiB; raise --limit side=BYTES"
                )
    kind = text_kind(bytes(data[:_HEAD]), kinds)
    text = plain_text(bytes(data))
    if kind is not None and kind.rows is not None:
        rows = tuple(kind.rows(text))
        if rows:
            health = Health(events=len(rows))
            return [Trace(str(path), kind.source, [], profiler_rows=rows, health=health)]
    if kind is not None and kind.summarise is not None:
        pasted = kind.summarise(text, path)
        if pasted is not None:
            health = Health(events=text.count("\n") + 1)
            log = nccl_log(text)
            return [
                Trace(
                    str(path),
                    kind.source,
                    [],
                    pasted=_with_nccl(pasted, kind, log),
                    health=health,
                    nccl=log,
                )
            ]
    raise UnreadableInputError(f"{path}: a text without figures; paste all of it")


def _with_nccl(pasted: PastedText, kind: TextKind, log: NcclLog | None) -> PastedText:
    """A text of another kind with what NCCL's lines in it say."""
    if log is None or kind.source == "nccl_log":
        return pasted
    return replace(pasted, notes=(*pasted.notes, f"NCCL: {nccl_sentence(log)}"))
