"""Folders that are named as recordings, and several recordings read at the same time: by this
process and by others.

A process takes the next file, the largest first, when it is free: no more than `jobs` are being
read at any moment, and no more than there is memory for. What another process cannot read, or was
reading when it died, is read by this one: traces and errors are those of reading one file after the
other."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, regex
from traceanalyzer.base.files import may_read, note_read
from traceanalyzer.base.parallel import LEAST_BYTES, free_memory_bytes, most_at_once
from traceanalyzer.base.parallel.children import WorkQueue, children, shared_queue
from traceanalyzer.base.reading import reading, reading_as
from traceanalyzer.ingest.cache.beside import ENVIRONMENT
from traceanalyzer.ingest.cache.models import kept_traces
from traceanalyzer.ingest.capture import is_neighbour, is_note
from traceanalyzer.ingest.detect import is_companion, is_recording, is_snapshot
from traceanalyzer.ingest.foreign import SQLITE_MAGIC
from traceanalyzer.ingest.stream import text_bytes
from traceanalyzer.trace import Trace

DEEPEST = 6  # TensorBoard keeps its traces three folders down (`RUN/plugins/profile/TIME`)
MOST_FOLDERS = 200  # folders that are looked into; more is a home, not a log
MOST_PROBED = 20  # files that are opened in each of them to find one recording, and in all
MOST_OPENED = 300
NAMED = 6
ITERATION = regex(r"(?:iteration|iter|step)[-_]?(\d{1,18})", re.IGNORECASE)
_DIGITS = regex(r"\d+")
_SHOWN = regex(r"[^.]").match


_STARTED_BYTES = 60 * 10**6  # an interpreter with numpy and the readers

Outcome: TypeAlias = list[Trace] | TraceAnalyzerError
Read: TypeAlias = Callable[[Path, Callable[[float], None] | None], list[Trace]]


class MemoryShare(NamedTuple):
    """What is taken besides, of the file's bytes, decompressed; `export`: of Nsight Systems."""

    text: float
    export: float


READ = MemoryShare(
    0.6, 2.0
)  # while it is read. Measured: 0.35 of a trace of 155 MB, 1.4 to 1.9 of exports
ANALYZED = MemoryShare(
    1.0, 8.0
)  # from start to exit. Measured: 0.7 to 0.8 of traces, 3.6 to 7.6 of exports


def recordings_in(
    folder: Path, pattern: str | None = None, known: Callable[[Path], bool] = lambda file: False
) -> list[Path]:
    """The recordings that lie in a folder itself, else its snapshots and logs of torch.compile, by
    name; those that are `known` are not looked into. Raises OSError."""
    # what is hidden was not recorded to be read: notes of a program, or of a file system
    files = [file for file in sorted(folder.iterdir()) if _SHOWN(file.name) and file.is_file()]
    found = [
        file
        for file in files
        if not is_neighbour(file)
        and not is_note(file)
        and (known(file) or is_recording(file, pattern))
    ]
    return found or list(filter(is_companion, files))


def snapshot_in(path: Path) -> Path:
    """The memory snapshot in a folder; a file as it is. Raises UnreadableInputError where there is
    none, or more than one."""
    if not path.is_dir():
        return path
    found = list(filter(is_snapshot, sorted(path.iterdir())))
    if not found:
        raise UnreadableInputError(
            f"{path}: no memory snapshot in this folder; `collect torch --memory-snapshot` records one; "
            "`traceanalyzer analyze` has what a trace says of memory"
        )
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise UnreadableInputError(f"{path}: several snapshots; name one: {names}")
    return found[0]


def iteration_in(folder: Path, pattern: str | None = None) -> tuple[list[Path], list[str]]:
    """The recordings of one iteration (`reading().iteration`, else the newest that has any) where
    each has a folder of its own, as torchtitan writes them, and which one that is. Raises OSError,
    UnreadableInputError."""
    matches = ((ITERATION.fullmatch(one.name), one) for one in folder.iterdir())
    folders = [(found, one) for found, one in matches if found is not None and one.is_dir()]
    named = {int(found[1]): one for found, one in folders}
    wanted = reading().iteration
    if named and wanted is not None and wanted not in named:
        raise UnreadableInputError(
            f"{folder}: no iteration {wanted}; there are {', '.join(map(str, sorted(named)))}"
        )
    for number in sorted(named, reverse=True) if wanted is None else named.keys() & {wanted}:
        inside = recordings_in(named[number], pattern)
        if not inside:
            continue
        if len(named) == 1:
            return inside, []
        which = (
            f"{named[number].name} was read, of {len(named)} iterations: --iteration N "
            "takes another."
        )
        return inside, [which]
    return [], []


def broken_in(folder: Path, recordings: Sequence[Path]) -> list[Path]:
    """Files of a folder that are named like its recordings, numbers aside, but unreadable. Raises
    OSError."""
    names = set(map(_numberless, recordings))
    known = set(recordings)
    return [
        file
        for file in sorted(folder.iterdir())
        if file not in known and _numberless(file) in names
    ]


def _numberless(file: Path) -> str:
    """Its name without its numbers, compressed or not."""
    return _DIGITS.sub("#", file.name.removesuffix(".gz"))


def nothing_in(folder: Path) -> str:
    """Why a folder cannot be read, naming the folders in it that can."""
    inside = sorted(_with_recordings(folder))
    if not inside:
        capture = _capture_without_recording(folder)
        if capture:
            return capture
        return (
            f"{folder}: no recording in this folder or below it; name the folder that holds "
            "traces or exports"
        )
    shown = ", ".join(map(str, inside[:NAMED]))
    more = f" and {len(inside) - NAMED} more" if len(inside) > NAMED else ""
    return (
        f"{folder}: no recording in this folder itself; name one of those below it: {shown}{more}"
    )


def _capture_without_recording(folder: Path) -> str:
    """What a capture holds in which no step was recorded, and how to record one; empty where the
    folder is no capture."""
    if not (folder / ENVIRONMENT).is_file():
        return ""
    timed = sorted(file.name for file in folder.glob("unprofiled.*.json"))
    held = " and ".join([ENVIRONMENT, *timed[:1]])
    return (
        f"{folder}: a capture without a recording ({held} alone): the program ended before one "
        "began; run it longer, or record sooner: collect torch --wait 2 --unprofiled-steps 5"
    )


def _with_recordings(folder: Path) -> Iterator[Path]:
    """The folders below that hold recordings; links are not followed."""
    left = MOST_OPENED
    for top, names, files in islice(os.walk(folder), MOST_FOLDERS):
        where = Path(top)
        if len(where.relative_to(folder).parts) >= DEEPEST:
            names.clear()
        names[:] = sorted(filter(_SHOWN, names))
        with suppress(OSError):  # what has no size, as in /proc, may have no end
            paths = map(where.joinpath, sorted(files)[:MOST_PROBED])
            sound = [
                file for file in paths if where != folder and file.is_file() and file.stat().st_size
            ]
            left -= len(sound)
            if left >= 0 and any(map(is_recording, sound)):
                yield where


def read_files(
    sizes: dict[Path, int],
    read: Read,
    progress: Callable[[int, int], None] | None,
    *,
    alone: bool = False,
) -> list[Outcome]:
    """The traces of each file, or why it cannot be read, in the order of the files, given with
    their sizes. `read` reads one; `progress` is called with the bytes done and the bytes of all;
    `alone`: without help."""
    # files in the cache need no worker
    models = ((path, kept_traces(path)) for path in sizes if len(sizes) > 1)
    outcomes: dict[Path, Outcome] = {path: kept for path, kept in models if kept}
    todo = sorted(sizes.keys() - outcomes.keys(), key=str)
    todo.sort(key=sizes.__getitem__, reverse=True)
    progress = progress or (lambda done, total: None)
    total = sum(sizes.values())

    def read_here(path: Path) -> None:
        left = sum(
            sizes[other] for other in todo[todo.index(path) :]
        )  # those before it are taken for read

        def done(share: float) -> None:
            progress(total - left + int(share * sizes[path]), total)

        try:
            outcomes[path] = read(path, done)
        except TraceAnalyzerError as error:
            outcomes[path] = error

    readers = 1 if alone else readers_of(todo)
    with reading_as(jobs=max(reading().jobs // readers, 1)), shared_queue(len(todo)) as numbers:
        with children(partial(_read_apart, todo, numbers, read), readers - 1) as helpers:
            for number in numbers:
                read_here(todo[number])
            outcomes |= {
                note_read(todo[number]): made
                for helper in helpers
                for number, made in helper.values()
            }
        for path in todo:
            if path not in outcomes:
                read_here(path)
    progress(total, total)
    return [outcomes[path] for path in sizes]


def _read_apart(
    todo: Sequence[Path], numbers: WorkQueue, read: Read
) -> Iterator[tuple[int, list[Trace]]]:
    """In another process: the files that this one is free for, by number."""
    for number in numbers:
        with suppress(TraceAnalyzerError):  # it is read again, for the error
            yield number, read(todo[number], None)


def readers_of(paths: Sequence[Path]) -> int:
    """How many processes read these files, this one included: each has enough to read to be worth
    its start, and there is memory for all of them."""
    if reading().jobs < 2 or not sys.executable:
        return 1
    texts = list(map(text_bytes, paths))
    worth = max(min(reading().jobs, len(paths), sum(texts) // LEAST_BYTES), 1)
    return (
        worth
        if worth == 1
        else min(worth, most_at_once(map(needed_bytes, paths, texts), free_memory_bytes()))
    )


def needed_bytes(path: Path, text: int, share: MemoryShare = READ) -> int:
    """The memory that a process needs for a file of so many bytes of text."""
    try:
        with may_read(path).open("rb") as file:
            is_export = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except (OSError, UnreadableInputError):
        return 0
    return _STARTED_BYTES + int((share.export if is_export else share.text) * text)
