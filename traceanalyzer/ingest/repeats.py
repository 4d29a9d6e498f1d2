"""Repeats of a profiler's schedule: several recordings of one process, one after the other, in one
folder. One of them is read; they are no ranks of a run."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.base.reading import reading

_PART = regex(r"\.part(\d{1,9})(?=\.)")
"""As `collect torch --repeat` calls those after the first."""
_HANDLER = regex(r"^(.+_\d{1,10})\.(\d{10,20})\.pt\.trace\.json(?:\.gz)?$")
"""As torch.profiler's `tensorboard_trace_handler` does: host, process, and when it was written."""


def one_repeat(recordings: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The recordings with one repeat of each process (`reading().iteration`, else the last that all
    have), and a sentence that says which. Raises UnreadableInputError."""
    processes: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    for path in recordings:
        name, when = _process_and_time(path)
        processes[name].append((when, path))
    repeated = [sorted(files) for files in processes.values() if len(files) > 1]
    if not repeated:
        return list(recordings), []
    most = max(map(len, repeated))
    wanted = reading().iteration or min(map(len, repeated))
    if wanted > most:
        raise UnreadableInputError(
            f"{recordings[0].parent}: no repeat {wanted}; there are 1 to {most}"
        )
    alone = {files[0][1] for files in processes.values() if len(files) == 1}
    taken = alone | {files[wanted - 1][1] for files in repeated if len(files) >= wanted}
    which = (
        f"Repeat {wanted} of {most} was read (the schedule's `repeat`): --iteration N takes another, "
        "`compare` sets them side by side."
    )
    return [path for path in recordings if path in taken], [which]


def _process_and_time(path: Path) -> tuple[str, int]:
    """What the recordings of one process share in their names, and a number that orders them."""
    written = _HANDLER.match(path.name)
    if written is not None:
        return written[1], int(written[2])
    part = _PART.search(path.name)
    return _PART.sub("", path.name), int(part[1]) if part else 1
