"""Messages that stand alone, or in a log without steps: an allocation that failed, recompilations
and graph breaks of torch.compile, what allocators, communication loggers and benchmarks print at
their end."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.ingest.messages import averages, nccl_log
from traceanalyzer.ingest.texts import (
    console,
    deepspeed_comms,
    inductor,
    memory_stats,
    out_of_memory,
    watchdog,
)
from traceanalyzer.ingest.texts.benchmarks import mlperf, xla_metrics
from traceanalyzer.ingest.texts.reading import TextKind, read_text, text_kind
from traceanalyzer.trace import Trace

KINDS = (
    TextKind("watchdog", watchdog.recognise, watchdog.summarise),
    TextKind("out_of_memory", out_of_memory.recognise, out_of_memory.summarise),
    TextKind(nccl_log.SOURCE, nccl_log.recognise, nccl_log.summarise),
    TextKind("torch_console", console.recognise, console.summarise),
    TextKind("torch_console", inductor.recognise, inductor.summarise),
    TextKind("memory_stats", memory_stats.recognise, memory_stats.summarise),
    TextKind("memory_stats", memory_stats.recognise_around, memory_stats.summarise_around),
    TextKind("comms_log", deepspeed_comms.recognise, deepspeed_comms.summarise),
    TextKind("printed_averages", mlperf.recognise, mlperf.summarise),
    TextKind("xla_metrics", xla_metrics.recognise, xla_metrics.summarise),
    TextKind("printed_averages", averages.recognise, averages.summarise),
)


def recognise(head: bytes, path: Path) -> bool:
    """Whether it has such a message. `head`: its first bytes, decompressed."""
    return text_kind(head, KINDS) is not None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but what the message tells. Raises UnreadableInputError."""
    return read_text(path, KINDS, progress)
