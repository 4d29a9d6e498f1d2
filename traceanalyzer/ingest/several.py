"""Several recordings read at once: by this process and by others, each file by one of them, the largest first.

A file is asked for when a process is free, so no more than `jobs` are being read at any moment, and no more than there
is memory for. What another process
cannot hand over (a damaged file, a log), or was reading when it died, is read by this one: traces and errors are those
of reading one file after the other.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.files import note_read
from traceanalyzer.ingest.cache.kept import kept_traces
from traceanalyzer.ingest.file_worker import answered, request_of
from traceanalyzer.ingest.free_memory import free_bytes, most_at_once, needed_bytes
from traceanalyzer.ingest.processes import LEAST_BYTES, Process, running
from traceanalyzer.ingest.stream import text_bytes
from traceanalyzer.reading import Reading, reading, reading_as
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Outcome: TypeAlias = list[Trace] | TraceAnalyzerError

WORKER = "traceanalyzer.ingest.file_worker"
_PATIENCE_S = 2.0
"""For a process that is told to end, and may have files to remove."""
_LOOK_S = 0.1


class Files:
    """Files to be read, and what became of each. `read` reads one here; `progress` is called with the bytes done and
    the bytes of all."""

    def __init__(
        self,
        sizes: dict[Path, int],
        read: Callable[[Path, Callable[[float], None] | None], list[Trace]],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._sizes, self._read, self._progress = sizes, read, progress
        self._todo = deque(sorted(sizes, key=lambda path: sizes[path], reverse=True))
        self._found: dict[Path, Outcome] = {}

    def outcomes(self, *, alone: bool = False) -> list[Outcome]:
        """The traces of each file, or why it cannot be read, in the order of the files. `alone`: without help."""
        readers = 1 if alone else readers_of(self._not_kept())
        each = max(reading().jobs // readers, 1)
        with reading_as(jobs=each), self._helped(readers - 1, reading()) as threads:
            while (path := self._next()) is not None:
                self._read_here(path)
            self._wait_for(threads)
        for path in self._sizes:
            if path not in self._found:
                self._read_here(path)
        return [self._found[path] for path in self._sizes]

    def _not_kept(self) -> deque[Path]:
        """The files that have to be read: there is no kept model of them."""
        if len(self._sizes) > 1:
            for path in self._sizes:
                if (traces := kept_traces(path)) is not None:
                    self._found[path] = traces
                    self._todo.remove(path)
        return self._todo

    @contextmanager
    def _helped(self, helpers: int, way: Reading) -> Iterator[list[threading.Thread]]:
        """Threads that have files read by a process each; neither is left when the block ends."""
        threads: list[threading.Thread] = []
        try:
            with running(WORKER, [()] * helpers, _PATIENCE_S) as processes:
                threads += [threading.Thread(target=self._have_read, args=(one, way)) for one in processes]
                for thread in threads:
                    thread.start()
                yield threads
        finally:
            for thread in threads:
                thread.join()

    def _have_read(self, process: Process, way: Reading) -> None:
        """Have files read by a process until there are no more, or it has died."""
        requests, answers = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
        with suppress(OSError, ValueError, MemoryError):  # ValueError: the pipe was closed because this is over
            while (path := self._next()) is not None:
                requests.write(request_of(path, way))
                requests.flush()
                traces = answered(answers, path)
                if traces is not None:
                    self._found[note_read(path)] = traces

    def _read_here(self, path: Path) -> None:
        try:
            self._found[path] = self._read(path, self._share_of(path) if self._progress else None)
        except TraceAnalyzerError as error:
            self._found[path] = error
        self._report(0)

    def _wait_for(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)
                self._report(0)

    def _next(self) -> Path | None:
        try:
            return self._todo.popleft()
        except IndexError:
            return None

    def _share_of(self, path: Path) -> Callable[[float], None]:
        return lambda share: self._report(int(share * self._sizes[path]))

    def _report(self, begun: int) -> None:
        """`begun`: bytes done of the file that is being read here."""
        if self._progress is not None:
            # a copy: the threads add to it
            self._progress(begun + sum(self._sizes[path] for path in tuple(self._found)), sum(self._sizes.values()))


def readers_of(paths: Iterable[Path]) -> int:
    """How many processes read these files, this one included: each has enough to read to be worth its start, and there
    is memory for all of them."""
    if reading().jobs < 2 or not sys.executable:
        return 1
    files = list(paths)
    texts = list(map(text_bytes, files))
    worth = max(min(reading().jobs, len(files), sum(texts) // LEAST_BYTES), 1)
    return worth if worth == 1 else min(worth, most_at_once(map(needed_bytes, files, texts), free_bytes()))
