"""Answers that were worked out before: kept beside the models of their recordings, so that the same question about the
same recordings is answered without working it out again.

An answer belongs to all that it depends on: the recordings, what lies beside them, the question with its options, and
the program as it is. It is text without code, a checksum covers every byte, and what would not come back as it was is
not kept.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.cache.folder import place
from traceanalyzer.ingest.cache.identity import digest_of, program
from traceanalyzer.ingest.cache.texts import has_text, keep_text, kept_text
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

MOST_ANSWER_BYTES = 2 * MIB
"""Every gap of a long recording takes longer to keep than to find again."""


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
    kept = kept_text(folder, name)
    if kept is not None:
        try:
            return decode(kept)
        except (ValueError, TypeError, TraceAnalyzerError):
            pass
    answer = make()
    _keep(folder, name, answer, encode, decode)
    return answer


def is_answered(run: Run, question: tuple[object, ...]) -> bool:
    """Whether there is a kept answer to a question about a run, sound or not."""
    folder = place() if reading().cache else None
    name = None if folder is None else _name(run, question)
    return folder is not None and name is not None and has_text(folder, name)


def _name(run: Run, question: tuple[object, ...]) -> str | None:
    """Digest of all that the answer depends on; None where that cannot be told."""
    traces = (*run.traces, *run.logs)
    if not traces or any(trace.kept_as is None or trace.memory is not None for trace in traces):
        return None
    told = (program("."), question, run.failures, len(run.traces), [_facts(trace) for trace in traces])
    timings = [trace.step_timings for trace in traces]
    return digest_of(told, [getattr(timing, f.name).tobytes() for timing in timings for f in fields(timing)])


def _facts(trace: Trace) -> dict[str, object]:
    """What is known of a trace beside its tables, of which `kept_as` tells."""
    values = {f.name: getattr(trace, f.name) for f in fields(trace) if f.name != "strings"}
    return {name: value for name, value in values.items() if not isinstance(value, Table)}


def _keep(folder: Path, name: str, answer: Answer, encode: Encode[Answer], decode: Decode[Answer]) -> None:
    try:
        text = encode(answer)
        if len(text) > MOST_ANSWER_BYTES:
            return
        data = text.encode()
        again = decode(data)
        if again == answer and encode(again) == text:
            keep_text(folder, name, data)
    except (ValueError, TypeError, TraceAnalyzerError):
        return
