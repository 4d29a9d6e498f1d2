"""What a log of steps says beside them: errors at its end, why the run ended, and how NCCL connects its
ranks."""

from dataclasses import replace
from pathlib import Path

from traceanalyzer.base.limits import MIB
from traceanalyzer.ingest.formats import FORMATS
from traceanalyzer.ingest.plain.nccl import nccl_log, nccl_sentence
from traceanalyzer.ingest.plain.text import plain_text
from traceanalyzer.trace import Trace

SOURCES = ("watchdog", "out_of_memory")
"""The messages that end a run."""
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
    messages = next(form for form in FORMATS if form.name == "messages")
    kinds = [kind for kind in messages.module.KINDS if kind.source in SOURCES]
    found = (kind.summarise(text, path) for kind in kinds if kind.recognise(text))
    return tuple(f"The log ends with an error. {text.what}: {text.tells}" for text in found if text)
