"""Messages that stand alone, or in a log without steps: an allocation that failed, recompilations
and graph breaks of torch.compile, what allocators, communication loggers and benchmarks print at
their end."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.ingest.messages import averages
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
    TextKind("watchdog", watchdog.holds, watchdog.told),
    TextKind("out_of_memory", out_of_memory.holds, out_of_memory.told),
    TextKind("torch_console", console.holds, console.told),
    TextKind("torch_console", inductor.holds, inductor.told),
    TextKind("memory_stats", memory_stats.holds, memory_stats.told),
    TextKind("memory_stats", memory_stats.around_holds, memory_stats.around_told),
    TextKind("comms_log", deepspeed_comms.holds, deepspeed_comms.told),
    TextKind("printed_averages", mlperf.holds, mlperf.told),
    TextKind("xla_metrics", xla_metrics.holds, xla_metrics.told),
    TextKind("printed_averages", averages.holds, averages.told),
)


def recognise(head: bytes, path: Path) -> bool:
    """Whether it has such a message. `head`: its first bytes, decompressed."""
    return text_kind(head, KINDS) is not None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but what the message tells. Raises UnreadableInputError."""
    return read_text(path, KINDS, progress)
