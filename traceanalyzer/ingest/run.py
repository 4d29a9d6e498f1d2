"""From paths to a `Run`: every recording in them, with its rank, and what could not be read."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, regex
from traceanalyzer.ingest import mangled
from traceanalyzer.ingest.cache.models import read_once
from traceanalyzer.ingest.capture import (
    captures_among,
    captures_nearby,
    states_conditions,
    with_side_files,
)
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.folders import (
    broken_in,
    iteration_in,
    nothing_in,
    read_files,
    recordings_in,
)
from traceanalyzer.ingest.formats import RANKLESS_SOURCES
from traceanalyzer.ingest.last_words import with_last_words
from traceanalyzer.ingest.repeats import one_repeat
from traceanalyzer.ingest.stream import cannot_open
from traceanalyzer.trace import Failure, Run, Trace

_RANK_IN_NAME = regex(r"(?:^|[^a-z])(?:rank|r)[-_=.]?(\d{1,9})(?![a-z0-9])", re.IGNORECASE)
"""`rank0`, `rank_1`, `rank-2`, `r3` as a word of a file name."""


def load(
    paths: Sequence[str | Path],
    *,
    progress: Callable[[int, int], None] | None = None,
    pattern: str | None = None,
) -> Run:
    """Read every recording in the paths (files, or folders of them) as one run, ordered by rank.

    `progress` is called with the bytes done and the bytes of all files; `pattern` is a regular
    expression with named groups for the lines of timing logs that are of no known kind. A file that
    cannot be read is in `Run.failures`; where none can, its error is raised (UnreadableInputError,
    EmptyRecordingError)."""
    files, failures, notes = _files([Path(path) for path in paths], pattern)
    sizes = {path: _size(path) for path in files}
    outcomes = read_files(
        sizes, partial(_read, pattern=pattern), progress, alone=pattern is not None
    )
    traces: list[Trace] = []
    errors: list[TraceAnalyzerError] = []
    for path, outcome in zip(files, outcomes, strict=True):
        if not isinstance(outcome, TraceAnalyzerError):
            traces += outcome if len(files) == 1 else _named_by_file(outcome, path)
            continue
        errors.append(outcome)
        if not states_conditions(path):
            reason = " ".join(str(outcome).split())
            failures.append(Failure(str(path), reason, rank_in_name(path)))
    if not traces:
        raise _nothing_read(paths, failures, errors)
    ordered = sorted(_numbered(traces), key=_place_in_run)
    first, *others = _with_rank_notes(ordered)
    nearby = captures_nearby(traces, partial(_read, progress=None, pattern=None))
    return with_side_files(Run((reduce(_noted, notes, first), *others, *nearby), tuple(failures)))


def _named_by_file(traces: list[Trace], path: Path) -> list[Trace]:
    """The traces of one of several files; one alone is of the rank in the file's name."""
    return [_ranked(trace, path) for trace in traces] if len(traces) == 1 else traces


def _place_in_run(trace: Trace) -> tuple[bool, int, str]:
    """Ranks in order, then what has none."""
    return (trace.rank is None, trace.rank or 0, trace.path)


def _files(paths: list[Path], pattern: str | None) -> tuple[list[Path], list[Failure], list[str]]:
    """The files to read, folders replaced by the recordings in them, each file once; and what was
    left out."""
    files: dict[Path, None] = {}
    failures = []
    notes = list[str]()
    for path in paths:
        if not path.is_dir():
            files[path] = None
            continue
        try:
            inside = recordings_in(path, pattern)
            taken, note = one_repeat(inside) if inside else iteration_in(path, pattern)
            notes += note
            inside = inside or taken
            what = (
                "it begins like no known recording: damaged, or something else; copy or "
                "export it again"
            )
            failures += [
                Failure(str(file), what, rank_in_name(file)) for file in broken_in(path, inside)
            ]
        except OSError as error:
            failures.append(Failure(str(path), str(cannot_open(path, error))))
            continue
        if not inside:
            failures.append(Failure(str(path), nothing_in(path)))
        files.update(dict.fromkeys(taken))
    return list(files), failures, notes


def _read(path: Path, progress: Callable[[float], None] | None, pattern: str | None) -> list[Trace]:
    """The traces of one file; whatever goes wrong in a reader is an error about the file, never a
    traceback."""

    def read() -> list[Trace]:
        traces = list(map(_legible, detect(path, pattern).read(path, progress)))
        return with_last_words(traces, path)

    try:
        return read() if pattern is not None else read_once(path, read)
    except OSError as error:
        raise cannot_open(path, error) from error


def _legible(trace: Trace) -> Trace:
    """The trace with names of functions as they are written in the program's source."""
    if not any(text.startswith(mangled.PREFIX) for text in trace.strings):
        return trace
    return replace(trace, strings=list(map(mangled.demangled, trace.strings)))


def _ranked(trace: Trace, path: Path) -> Trace:
    """The trace with the rank that its file's name tells, where the recording itself does not."""
    rank = rank_in_name(path) if trace.rank is None else None
    return trace if rank is None else replace(trace, process=replace(trace.process, rank=rank))


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name tells."""
    found = _RANK_IN_NAME.findall(path.name)
    return int(found[-1]) if found else None


def _numbered(traces: list[Trace]) -> list[Trace]:
    """Traces of several files of recorders that know no ranks, numbered by host, file and process
    over all of them."""
    unknown = [trace for trace in traces if trace.rank is None or trace.process.numbered]
    files = {trace.path for trace in traces}
    if (
        len(files) < 2
        or len(unknown) < len(traces)
        or {trace.source for trace in traces} - RANKLESS_SOURCES
    ):
        return traces
    ordered = sorted(
        traces, key=lambda trace: (trace.process.place[0], trace.path, trace.process.place)
    )
    numbered = [
        replace(t, process=replace(t.process, rank=i, numbered=True)) for i, t in enumerate(ordered)
    ]
    note = (
        f"No recording says its rank: the {len(numbered)} processes are numbered by host, file "
        "and process id."
    )
    return [_noted(numbered[0], note), *numbered[1:]]


def _with_rank_notes(traces: list[Trace]) -> list[Trace]:
    """A health note on every trace whose rank another one claims too."""
    captures = captures_among(traces)
    claims = Counter(trace.rank for trace in traces if trace not in captures)
    del claims[None]
    return [
        trace
        if claims[trace.rank] < 2
        else _noted(trace, f"{claims[trace.rank]} recordings claim rank {trace.rank}.")
        for trace in traces
    ]


def _noted(trace: Trace, note: str) -> Trace:
    return replace(trace, health=replace(trace.health, notes=(*trace.health.notes, note)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _nothing_read(
    paths: Sequence[str | Path], failures: list[Failure], errors: list[TraceAnalyzerError]
) -> TraceAnalyzerError:
    if not paths:
        return UnreadableInputError("no input: give a recording or a folder of them")
    if len(failures) <= 1 and errors:
        return errors[0]
    more = (
        f" (and {len(failures) - 1} more inputs that cannot be read)" if len(failures) > 1 else ""
    )
    return UnreadableInputError(failures[0].message + more)
