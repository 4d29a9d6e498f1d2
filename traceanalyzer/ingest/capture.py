"""What lies beside a trace in a capture directory, and timing logs of the same run, joined with the
trace.

A capture (`traceanalyzer collect`) holds `trace.rank{N}.json.gz` and, if not missing,
`timings.rank{N}.jsonl`, `unprofiled.rank{N}.json`, `light.rank{N}.json.gz`, `nvml.rank{N}.jsonl`,
`memory.rank{N}.pickle`, `environment.json`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from traceanalyzer.base import TraceAnalyzerError, regex
from traceanalyzer.base.files import note_read
from traceanalyzer.ingest import conditions
from traceanalyzer.ingest.cache.beside import (
    CAPTURES,
    ENVIRONMENT,
    LIGHT,
    MEMORY,
    NVML,
    UNPROFILED,
    named_like_a_capture,
)
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.ingest.side_files import json_lines, json_object
from traceanalyzer.ingest.unprofiled import (
    contradiction,
    light_of,
    pauses_left_out,
    stopwatch_of,
    unsettled,
)
from traceanalyzer.trace import Run, Trace
from traceanalyzer.trace.snapshot import Snapshot

_RANK = regex(r"\.(rank(\d{1,9})(?:\.\w+)*?)\.(?:json|jsonl|sqlite|xplane\.pb)(?:\.gz)?$")
"""The middle of a capture's file names: `rank0`, `rank0.part2`, `rank0.pid123`."""
MAX_SNAPSHOT_BYTES = 64 << 20
"""Larger memory snapshots take longer than the analysis of a trace; they have a command of their
own."""


_REPLAY = regex(r"GraphLaunch")
_CAPTURE = regex(r"^capture_\d|StreamBeginCapture")
_ITERATION = regex(r"execute_|step\[|prefill\[|decode\[|\[Executor\]")
"""Marks of an iteration of a serving engine."""
_BATCH = regex(r"capture_(\d+_[a-z_]+)", re.IGNORECASE)
_OF_RANK = regex(r"rank[-_.]?(\d{1,9})", re.IGNORECASE)
NOTED = frozenset(("schema_version", "step_time_ms"))
"""What `collect` writes into an `environment.json`, and into an `unprofiled.rank{N}.json`."""
MAX_NOTE_BYTES = 1 << 20  # they have some kilobytes: what is larger may be anything
MAX_BYTES = 64 << 20
"""Larger ones take longer to read than most recordings that they would name kernels of: they have
to be given."""


def with_side_files(run: Run) -> Run:
    """The run with its timing logs, and what lies beside its recordings or is given with them. A
    run of timing logs alone stays as it is, and so does one of snapshots; logs of torch.compile
    alone are one."""
    given = [trace for trace in run.traces if trace.is_companion]
    logs = [trace for trace in run.traces if trace.only_step_times]
    recordings = with_captures(
        [trace for trace in run.traces if not trace.is_companion and not trace.only_step_times]
    )
    if not recordings:
        recordings = logs
        logs = []
    environment_of = cache(_environment)
    joined = [
        _with_neighbours(trace, *environment_of(Path(trace.path).parent)) for trace in recordings
    ]
    joined = _with("step_timings", logs, joined)
    traces, more = with_companions(joined, given) if given else (joined, ())
    return replace(run, traces=tuple(traces), logs=(*logs, *more))


def with_companions(
    traces: list[Trace], given: list[Trace]
) -> tuple[list[Trace], tuple[Trace, ...]]:
    """The traces with the snapshot of their rank and all logs of torch.compile, and those that were
    joined. Without traces the snapshots are, without these the logs."""
    every = tuple(chain.from_iterable(trace.compile_logs for trace in given))
    snapshots = [trace for trace in given if not trace.compile_logs]
    receivers = _with("memory", snapshots, traces) or snapshots or given[:1]
    left = [trace for trace in given if trace not in receivers]
    return [replace(trace, compile_logs=every) for trace in receivers], tuple(left)


def _with(name: str, others: list[Trace], traces: list[Trace]) -> list[Trace]:
    """The traces with what the snapshot or timing log of their rank (or of none) has, where there
    is one."""
    result = []
    for trace in traces:
        alike = [other for other in others if _may_be_one_rank(other, trace)]
        if len(alike) == 1:
            trace = replace(trace, **{name: getattr(alike[0], name)})
        result.append(trace)
    return result


def _may_be_one_rank(a: Trace, b: Trace) -> bool:
    return a.rank == b.rank or None in (a.rank, b.rank)


def _with_neighbours(trace: Trace, stated: dict[str, Any], notes: tuple[str, ...]) -> Trace:
    """The trace with what `environment.json` states, and with what else is beside it."""
    path = Path(trace.path)
    trace = replace(trace, **stated)
    if not trace.only_step_times:
        trace, more = _with_unprofiled(trace, path)
        notes = (*notes, *more)
    samples = _beside(path, trace.rank, NVML, ".jsonl")
    if samples is not None:
        sampled = json_lines(samples)
        found = (*trace.conditions, *conditions.sampled_conditions(sampled))
        trace = replace(trace, loads=conditions.sampled_loads(sampled), conditions=found)
    snapshot = _beside(path, trace.rank, MEMORY, ".pickle")
    if snapshot is not None:
        memory, more = _snapshot(note_read(snapshot))
        trace = replace(trace, memory=memory)
        notes = (*notes, *more)
    return replace(trace, health=replace(trace.health, notes=(*trace.health.notes, *notes)))


def _snapshot(path: Path) -> tuple[Snapshot | None, tuple[str, ...]]:
    from traceanalyzer.ingest.memory import read_snapshot

    try:
        if path.stat().st_size > MAX_SNAPSHOT_BYTES:
            return None, (f"{path.name} is large: `traceanalyzer analyze {path.name}` reads it.",)
        return read_snapshot(path), ()
    except (TraceAnalyzerError, OSError) as error:
        return None, (f"{path.name} was left out: {error}",)


def _environment(folder: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `environment.json` states, and what is wrong with it."""
    path = folder / ENVIRONMENT
    known = json_object(path) if path.is_file() else {}
    notes = (
        (f"{ENVIRONMENT} cannot be read: the conditions of the recording are not known.",)
        if known is None
        else ()
    )
    values = known or {}
    stated = {
        "conditions": conditions.environment_conditions(values),
        "amounts": conditions.stated_amounts(values),
    }
    stated |= {
        "ceilings": conditions.measured_ceilings(values),
        "batch_size": conditions.stated_batch_size(values),
    }
    return stated, notes


def _with_unprofiled(trace: Trace, path: Path) -> tuple[Trace, tuple[str, ...]]:
    """The trace with what its capture knows of the step without the profiler, and what is wrong
    with that."""
    lightly = _beside(path, trace.rank, LIGHT, ".json.gz")
    file = _beside(path, trace.rank, UNPROFILED, ".json")
    light = light_of(lightly) if lightly is not None and lightly != path else None
    if file is None:
        return replace(trace, light=light), ()
    values = json_object(file) or {}
    stopwatch = stopwatch_of(values)
    if stopwatch is None:
        return replace(trace, light=light), (
            f"{file.name} holds no step time: what the profiler cost is not known.",
        )
    fed = replace(trace, stopwatch=stopwatch).may_have_waited_for_workers
    against = contradiction(stopwatch, light, fed=fed)
    step_ns = stopwatch.step_ns if against is None else None
    note = against or unsettled(stopwatch) or pauses_left_out(values, stopwatch)
    return replace(trace, light=light, stopwatch=stopwatch, unprofiled_step_ns=step_ns), (
        note,
    ) if note else ()


def is_neighbour(path: Path) -> bool:
    """Whether a file is the light recording beside a capture's trace: no recording of a rank of its
    own."""
    named = _RANK.search(path.name)
    if named is None or not path.name.startswith(f"{LIGHT}."):
        return False
    return any(
        (path.parent / f"trace.{named[1]}{suffix}").is_file() for suffix in (".json", ".json.gz")
    )


def states_conditions(path: Path) -> bool:
    """Whether a file is what a capture says of its recordings, by its name: read with them, and
    named among them where a shell lists the folder."""
    return path.name == ENVIRONMENT or path.name.startswith(f"{UNPROFILED}.")


def is_note(path: Path) -> bool:
    """Whether a file is what a capture says of its recordings, by its name and by what is in it:
    no reader has to be asked."""
    if not states_conditions(path) or path.stat().st_size > MAX_NOTE_BYTES:
        return False
    return not NOTED.isdisjoint(json_object(path) or ())


def _beside(path: Path, rank: int | None, stem: str, suffix: str) -> Path | None:
    """The file of a capture that belongs to a recording: of the same process, else of the same
    rank."""
    named = _RANK.search(path.name)
    names = [named[1], f"rank{named[2]}"] if named else [f"rank{rank or 0}"]
    files = [path.parent / f"{stem}.{name}{suffix}" for name in names]
    return next((file for file in files if file.is_file()), None)


# Recordings of the capture of a server's CUDA graphs: with those that replay them they name what is
# in these. vLLM (`graph_capture_rank_0.TIME.pt.trace.json.gz`) and SGLang
# (`capture_32_FULL.json.gz`) write them as they start.


def with_captures(recordings: list[Trace]) -> list[Trace]:
    """The recordings that replay CUDA graphs, with those that are of the capture of graphs and
    nothing else; all as they are where either is missing."""
    captures = captures_among(recordings)
    if not captures:
        return recordings
    replaying = [one for one in _replaying(recordings) if one not in captures]
    return [
        replace(one, captures=captures) if one in replaying else one
        for one in recordings
        if one not in captures
    ]


def captures_among(recordings: list[Trace]) -> tuple[Trace, ...]:
    """The recordings of captures of graphs which others of them replay; empty without such."""
    captures = tuple(one for one in recordings if _is_capture_beside(one, recordings))
    if not captures:
        return ()
    others = [one for one in recordings if one not in captures]
    return captures if _replaying(others) else ()


def _is_capture_beside(trace: Trace, recordings: list[Trace]) -> bool:
    """Whether a recording is of the capture of graphs and nothing else: it replays none, or (once
    each is captured, to warm up) no iteration, beside a recording of its rank that only replays."""
    if not _captures(trace):
        return False
    if not _replaying([trace]):
        return True
    return not any(map(_ITERATION.match, trace.strings)) and any(
        _may_be_one_rank(one, trace) and not _captures(one) for one in _replaying(recordings)
    )


def captures_nearby(recordings: list[Trace], read: Callable[[Path], list[Trace]]) -> list[Trace]:
    """Recordings of captures that lie near those that replay graphs and hold no capture; none where
    some were given, or where it is not certain which of several belongs to a recording."""
    if any(map(_only_captures, recordings)):
        return []
    alone = [one for one in _replaying(recordings) if not _captures(one)]
    found: list[Trace] = []
    for path in dict.fromkeys(path for one in alone for path in _near(one)):
        with suppress(TraceAnalyzerError, OSError):
            found += filter(_only_captures, read(path))
    return found


def _replaying(recordings: list[Trace]) -> list[Trace]:
    return [trace for trace in recordings if any(map(_REPLAY.search, trace.strings))]


def _captures(trace: Trace) -> bool:
    return any(map(_CAPTURE.search, trace.strings))


def _only_captures(trace: Trace) -> bool:
    return _captures(trace) and not _replaying([trace])


def _near(trace: Trace) -> list[Path]:
    """The files that are named as captures of its rank: one, or one for each batch."""
    ranks = [(file, _OF_RANK.search(file.name)) for file in _named_so(Path(trace.path))]
    of_rank = [
        file
        for file, rank in ranks
        if trace.rank is None or rank is None or int(rank[1]) == trace.rank
    ]
    batches = {found and found[1] for found in (_BATCH.search(file.name) for file in of_rank)}
    return of_rank if len(batches) == len(of_rank) else []


def _named_so(path: Path) -> Iterator[Path]:
    with suppress(TraceAnalyzerError, OSError):
        for folder in filter(Path.is_dir, (path.parent, path.parent / CAPTURES)):
            for file in sorted(folder.iterdir()):
                named = (
                    file.name != path.name and named_like_a_capture(file.name) and file.is_file()
                )
                if named and file.stat().st_size <= MAX_BYTES and is_recording(file):
                    yield file
