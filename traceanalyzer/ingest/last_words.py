"""What a log of steps says beside them: errors at its end, why the run ended, and how NCCL connects its
ranks."""

import re
from dataclasses import replace
from pathlib import Path

from traceanalyzer.base import regex
from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.formats import FORMATS
from traceanalyzer.ingest.plain.nccl import nccl_log, nccl_sentence
from traceanalyzer.ingest.plain.text import plain_text
from traceanalyzer.trace import Trace
from traceanalyzer.trace.engines import ENDS_WITH_ERROR

SOURCES = ("watchdog", "out_of_memory")
"""The messages that end a run."""
_ENGINE_DIED = regex(
    r"EngineDeadError|EngineCore encountered (?:a fatal error|an issue)|AsyncEngineDeadError|Scheduler hit an exception"
)
"""vLLM's words, and SGLang's."""
_GOES_ON = regex(r"\bgen(?:eration)? throughput(?: \(token/s\))?: (?!0\.0+\b)\d")
"""A server that gives tokens: it survived the errors above."""
_ERROR = regex(r"\b((?:\w{1,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): [^\n]{1,160})")
LOOKED_AT = 65_536
"""Bytes at the end of a log: the traces of several ranks."""
LOOKED_AT_FIRST = 4 * MIB
"""Bytes at the beginning: NCCL writes about 10 kB a rank."""


def with_last_words(traces: list[Trace], path: Path) -> list[Trace]:
    """The traces of a file; of a log of steps the first of them with the errors that it ends
    with, and with what NCCL wrote."""
    if not any(trace.only_step_times for trace in traces):
        return traces
    try:
        words = _last_words(path)
        log = nccl_log(_first_words(path))
    except OSError:  # a pipe, which is read only once
        return traces
    if not words and log is None:
        return traces
    first, *others = traces
    of_nccl = () if log is None else (f"NCCL: {nccl_sentence(log)}",)
    health = replace(first.health, notes=(*words, *of_nccl, *first.health.notes))
    return [replace(first, health=health, nccl=log), *others]


def _first_words(path: Path) -> str:
    """The beginning of a file, where NCCL's lines are: ranks are connected before the first step."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return plain_text(file.read(LOOKED_AT_FIRST))


def _last_words(path: Path) -> tuple[str, ...]:
    """Sentences on the errors at the end of a file; compressed ones say nothing."""
    if not path.is_file():
        return ()
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOOKED_AT))
        text = file.read(LOOKED_AT).decode("utf-8", "replace")
    text = text[_last_end(_GOES_ON, text) :]
    messages = next(form for form in FORMATS if form.name == "messages")
    kinds = [kind for kind in messages.module.KINDS if kind.source in SOURCES]
    found = (kind.summarise(text, path) for kind in kinds if kind.recognise(text))
    words = [f"{text.what}: {text.tells}" for text in found if text]
    if _ENGINE_DIED.search(text):
        why, *others = words or [_error(text)]
        words = [f"The engine died. {why}".rstrip(), *others]
    return tuple(f"{ENDS_WITH_ERROR} {word}" for word in words)


def _last_end(pattern: re.Pattern[str], text: str) -> int:
    """Where the last match of a pattern ends; 0 without one."""
    return max((match.end() for match in pattern.finditer(text)), default=0)


def _error(text: str) -> str:
    """The last error that is not the engine's death itself, as a sentence; empty where none is printed."""
    errors = [
        match[1].rstrip(". ")
        for match in _ERROR.finditer(text)
        if not _ENGINE_DIED.search(match[1])
    ]
    return f"{errors[-1]}." if errors else ""
