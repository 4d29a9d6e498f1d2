"""Recordings of the capture of a server's CUDA graphs: with the recordings that replay them they name what is in those.

vLLM (`graph_capture_rank_0.TIME.pt.trace.json.gz`) and SGLang (`capture_32_FULL.json.gz`) write them as they start."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.trace import Trace

_REPLAY, _CAPTURE = re.compile(r"GraphLaunch"), re.compile(r"^capture_\d|StreamBeginCapture")
_NAMED = re.compile(r"(?:^|[^a-z])capture(?![a-z])", re.IGNORECASE)
_BATCH = re.compile(r"capture_(\d+_[a-z_]+)", re.IGNORECASE)
_OF_RANK = re.compile(r"rank[-_.]?(\d{1,9})", re.IGNORECASE)
MAX_BYTES = 64 << 20
"""Larger ones take longer to read than most recordings that they would name kernels of: they have to be given."""


def with_captures(recordings: list[Trace]) -> list[Trace]:
    """The recordings that replay CUDA graphs, with those that are of the capture of graphs and nothing else; all as
    they are where either is missing."""
    replaying, captures = _replaying(recordings), tuple(filter(_only_captures, recordings))
    if not replaying or not captures:
        return recordings
    return [replace(one, captures=captures) if one in replaying else one for one in recordings if one not in captures]


def captures_nearby(recordings: list[Trace], read: Callable[[Path], list[Trace]]) -> list[Trace]:
    """Recordings of captures that lie near those that replay graphs and hold no capture; none where some were given,
    or where it is not certain which of several belongs to a recording."""
    if any(map(_only_captures, recordings)):
        return []
    alone = [one for one in _replaying(recordings) if not any(map(_CAPTURE.search, one.strings))]
    found: list[Trace] = []
    for path in dict.fromkeys(path for one in alone for path in _near(one)):
        with suppress(TraceAnalyzerError, OSError):
            found += filter(_only_captures, read(path))
    return found


def _replaying(recordings: list[Trace]) -> list[Trace]:
    return [trace for trace in recordings if any(map(_REPLAY.search, trace.strings))]


def _only_captures(trace: Trace) -> bool:
    return any(map(_CAPTURE.search, trace.strings)) and not _replaying([trace])


def _near(trace: Trace) -> list[Path]:
    """The files that are named as captures of its rank: one, or one for each batch."""
    mine = [
        file
        for file in _named_so(Path(trace.path))
        if trace.rank is None or (rank := _OF_RANK.search(file.name)) is None or int(rank[1]) == trace.rank
    ]
    batches = {found and found[1] for found in (_BATCH.search(file.name) for file in mine)}
    return mine if len(batches) == len(mine) else []


def _named_so(path: Path) -> Iterator[Path]:
    with suppress(TraceAnalyzerError, OSError):
        for folder in filter(Path.is_dir, (path.parent, path.parent / "capture_traces")):
            for file in sorted(folder.iterdir()):
                named = file.name != path.name and _NAMED.search(file.name) and file.is_file()
                if named and file.stat().st_size <= MAX_BYTES and is_recording(file):
                    yield file
