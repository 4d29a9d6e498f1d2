"""CUDA memory snapshots, read safely: interpreted, never unpickled."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.ingest.detect import Abilities
from traceanalyzer.ingest.memory.snapshot import PROTO, read_snapshot
from traceanalyzer.trace import Trace

ABILITIES = Abilities(
    name="CUDA memory snapshot (a pickle)",
    tells="what fills GPU memory at its peak by line, what grows, why it ran out, what would free it",
    cannot="anything of time; given with a trace what a remedy costs in time",
    record="`torch.cuda.memory._dump_snapshot`, or `traceanalyzer collect torch --memory-snapshot`",
)
_KEYS = (b"segments", b"device_traces")


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is a pickle with the keys of a snapshot. `head`: its first bytes, decompressed."""
    return head.startswith(PROTO) and any(key in head for key in _KEYS)


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but the snapshot. Raises RefusedSnapshotError."""
    return [Trace(str(path), "memory_snapshot", [], memory=read_snapshot(path, progress))]
