"""Answers that were worked out before. An answer belongs to all that it depends on: the recordings,
what was read with them, the question with its options, and the program as it is. It is text without
code, and what would not come back as it was is not kept."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import TypeVar

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.cache.identity import content_digest, program_state
from traceanalyzer.ingest.cache.store import (
    ANSWER,
    MOST_TEXT_BYTES,
    get_text,
    has,
    place,
    put_text,
)
from traceanalyzer.trace import Run, Table, Trace

Answer = TypeVar("Answer")
Encode = Callable[[Answer], str]
Decode = Callable[[bytes], Answer]


def answered_once(
    run: Run,
    question: tuple[object, ...],
    make: Callable[[], Answer],
    encode: Encode[Answer],
    decode: Decode[Answer],
) -> Answer:
    """The answer to a question about a run: the kept one, else what `make` returns. A question is
    known by its `repr`. `encode` gives the answer as text, from which `decode` makes it again, or
    raises ValueError, TraceAnalyzerError."""
    key = _key(run, question)
    kept = None if key is None else get_text(key)
    if kept is not None:
        with suppress(ValueError, TypeError, TraceAnalyzerError):
            return decode(kept)
    answer = make()
    if key is not None:
        with suppress(ValueError, TypeError, TraceAnalyzerError):
            data = encode(answer).encode()
            if len(data) <= MOST_TEXT_BYTES and _comes_back(answer, data, encode, decode):
                put_text(key, data)
    return answer


def _comes_back(
    answer: Answer, data: bytes, encode: Encode[Answer], decode: Decode[Answer]
) -> bool:
    """Whether an answer is the same when it is read from its text. Raises what `decode` does."""
    again = decode(data)
    return again == answer and encode(again).encode() == data


def is_answered(run: Run, question: tuple[object, ...]) -> bool:
    """Whether there is a kept answer to a question about a run, sound or not."""
    key = _key(run, question)
    return key is not None and has(key, ANSWER)


def _key(run: Run, question: tuple[object, ...]) -> str | None:
    """Digest of all that the answer depends on; None where that cannot be said, or nothing is
    kept."""
    traces = (*run.traces, *run.logs)
    kept = all(
        trace.kept_as and trace.memory is None and not trace.compile_logs for trace in traces
    )
    if not (traces and kept and reading().cache and place()):
        return None
    facts = list(map(_facts, traces))
    depends_on = (program_state("."), question, run.failures, len(run.traces), facts)
    return content_digest(
        depends_on,
        [times.tobytes() for trace in traces for times in vars(trace.step_timings).values()],
    )


def _facts(trace: Trace) -> dict[str, object]:
    """What is known beside the tables, of which `kept_as` tells."""
    known = {f.name: getattr(trace, f.name) for f in fields(trace) if f.name != "strings"}
    return {name: value for name, value in known.items() if not isinstance(value, Table)}
