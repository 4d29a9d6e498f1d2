"""Answers that were worked out before: kept beside the models of their recordings, so that the same question about the
same recordings is answered without working it out again.

An answer belongs to all that it depends on: the recordings, what lies beside them, the question with its options, and
the program as it is. It is text without code, a checksum covers every byte, and what would not come back as it was is
not kept.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.cache.folder import ANSWER, MOST_BYTES, made, make_room, opened, place
from traceanalyzer.ingest.cache.identity import program
from traceanalyzer.limits import MIB
from traceanalyzer.reading import reading
from traceanalyzer.trace import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer.trace import Run, Trace

    Encode = Callable[["Answer"], str]
    Decode = Callable[[bytes], "Answer"]

Answer = TypeVar("Answer")

MAGIC = b"TAanswer\x01"
MOST_ANSWER_BYTES = 16 * MIB
"""A longer answer (every gap of a long recording) takes about as long to read as to work out."""
LEAST_FREE_BYTES = 256 * MIB
"""Of the disk: the cache never fills it."""
_DIGEST_BYTES = 20


def answered_once(
    run: Run, question: tuple[object, ...], make: Callable[[], Answer], encode: Encode[Answer], decode: Decode[Answer]
) -> Answer:
    """The answer to a question about a run: the kept one, else what `make` returns. `question` is told by its `repr`.

    `encode` gives it as text, from which `decode` makes the same value again, or raises ValueError or
    TraceAnalyzerError.
    """
    folder = place() if reading().cache else None
    name = None if folder is None else _name(run, question)
    if folder is None or name is None:
        return make()
    kept = _kept(folder, name)
    if kept is not None:
        try:
            return decode(kept)
        except (ValueError, TypeError, TraceAnalyzerError):
            pass
    answer = make()
    _keep(folder, name, answer, encode, decode)
    return answer


def _name(run: Run, question: tuple[object, ...]) -> str | None:
    """Digest of all that the answer depends on; None where that cannot be told."""
    traces = (*run.traces, *run.logs)
    if not traces or any(trace.kept_as is None or trace.memory is not None for trace in traces):
        return None
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    told = (program("."), question, run.failures, len(run.traces), [_facts(trace) for trace in traces])
    digest.update(repr(told).encode("utf-8", "surrogateescape"))
    for trace in traces:
        for f in fields(trace.step_timings):
            digest.update(getattr(trace.step_timings, f.name).tobytes())
    return digest.hexdigest()


def _facts(trace: Trace) -> dict[str, object]:
    """What is known of a trace beside its tables, of which `kept_as` tells."""
    values = {f.name: getattr(trace, f.name) for f in fields(trace) if f.name != "strings"}
    return {name: value for name, value in values.items() if not isinstance(value, Table)}


def _kept(folder: Path, name: str) -> bytes | None:
    try:
        with opened(folder, name, ANSWER) as (file, size):
            head = MAGIC + bytes.fromhex(name)
            if not len(head) + _DIGEST_BYTES <= size <= MOST_ANSWER_BYTES:
                return None
            data = file.read(size)
    except OSError:
        return None
    text = data[len(head) + _DIGEST_BYTES :]
    return text if data == head + _checksum(text) + text else None


def _keep(folder: Path, name: str, answer: Answer, encode: Encode[Answer], decode: Decode[Answer]) -> None:
    try:
        text = encode(answer)
        data = text.encode()
        again = decode(data)
        if len(data) > MOST_ANSWER_BYTES // 2 or again != answer or encode(again) != text:
            return
        with made(folder, name, ANSWER) as file:
            if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
                raise OSError("the disk is nearly full")
            file.write(MAGIC + bytes.fromhex(name) + _checksum(data) + data)
        make_room(folder, MOST_BYTES)
    except (OSError, ValueError, TypeError, TraceAnalyzerError):
        return


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
