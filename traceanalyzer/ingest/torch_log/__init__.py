"""The structured log of torch.compile (`TORCH_TRACE`): what was compiled, how long it took, and what went wrong."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.ingest.detect import Abilities
from traceanalyzer.ingest.torch_log.read import is_log, is_torch_log, logs_beside, read_logs
from traceanalyzer.trace import Trace

__all__ = ["is_log", "logs_beside", "read_logs"]

ABILITIES = Abilities(
    name="log of torch.compile (`TORCH_TRACE`)",
    tells="compile time by stage, graph breaks, recompilations with their guards, caches, what to change",
    cannot="what they cost in a step; given with a trace it does",
    record="`TORCH_TRACE=FOLDER`, or `traceanalyzer collect torch --compile-log`",
)


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file begins as such a log does. `head`: its first bytes, decompressed."""
    return is_torch_log(head)


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but the log of each process. Raises EmptyRecordingError."""
    return [Trace(str(path), "torch_log", [], compile_logs=tuple(read_logs(path, progress)))]
