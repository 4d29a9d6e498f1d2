"""What lies beside a trace in a capture directory, and timing logs of the same run, joined with the trace.

A capture (`traceanalyzer collect`) holds `trace.rank{N}.json.gz`, `timings.rank{N}.jsonl`, `unprofiled.rank{N}.json`,
`nvml.rank{N}.jsonl`, `memory.rank{N}.pickle` and one `environment.json`. All but the trace may be missing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traceanalyzer.figures import NS_PER_MS
from traceanalyzer.ingest.conditions import environment_conditions, measured_ceilings, sampled_conditions
from traceanalyzer.ingest.memory_snapshot import memory_conditions

if TYPE_CHECKING:
    from traceanalyzer.trace import Ceilings, Condition, Run, Trace

ENVIRONMENT = "environment.json"
_RANK = re.compile(r"\.(rank(\d+)(?:\.\w+)*?)\.(?:json|jsonl|sqlite)(?:\.gz)?$")
"""The middle of a capture's file names: `rank0`, `rank0.part2`, `rank0.pid123`."""


class Environment(NamedTuple):
    """What `environment.json` states, and what is wrong with it."""

    conditions: tuple[Condition, ...] = ()
    ceilings: Ceilings | None = None
    notes: tuple[str, ...] = ()


def join(run: Run) -> Run:
    """The run with its timing logs and what lies beside its recordings. A run of timing logs alone stays as it is."""
    logs = [trace for trace in run.traces if trace.source == "timing_log"]
    recordings = [trace for trace in run.traces if trace.source != "timing_log"]
    environments: dict[Path, Environment] = {}
    if not recordings:
        return replace(run, traces=tuple(_with_neighbours(log, environments) for log in logs))
    joined = [_with_log(_with_neighbours(trace, environments), logs) for trace in recordings]
    return replace(run, traces=tuple(joined), logs=tuple(logs))


def _with_log(trace: Trace, logs: list[Trace]) -> Trace:
    """The trace with the timing log of its rank; the only log of a run with one trace is its own."""
    mine = [log for log in logs if log.rank == trace.rank or None in (log.rank, trace.rank)]
    if len(mine) != 1:
        return trace
    return replace(trace, step_timings=mine[0].step_timings)


def _with_neighbours(trace: Trace, environments: dict[Path, Environment]) -> Trace:
    path = Path(trace.path)
    folder = path.parent
    if folder not in environments:
        environments[folder] = _environment(folder)
    conditions, ceilings, notes = environments[folder]
    if trace.source != "timing_log":
        unprofiled, more = _unprofiled(path, trace.rank)
        trace, notes = replace(trace, unprofiled_step_ns=unprofiled), (*notes, *more)
    samples = _beside(path, trace.rank, "nvml", ".jsonl")
    if samples is not None:
        conditions = (*conditions, *sampled_conditions(_lines(samples)))
    snapshot = _beside(path, trace.rank, "memory", ".pickle")
    if snapshot is not None:
        allocator, more = memory_conditions(snapshot)
        conditions, notes = (*conditions, *allocator), (*notes, *more)
    health = replace(trace.health, notes=(*trace.health.notes, *notes))
    return replace(trace, conditions=conditions, ceilings=ceilings, health=health)


def _environment(folder: Path) -> Environment:
    path = folder / ENVIRONMENT
    if not path.is_file():
        return Environment()
    values = _object(path)
    if values is None:
        return Environment(notes=(f"{ENVIRONMENT} cannot be read: the conditions of the recording are not known.",))
    return Environment(environment_conditions(values), measured_ceilings(values))


def _unprofiled(path: Path, rank: int | None) -> tuple[int | None, tuple[str, ...]]:
    """Step time without the profiler, ns, and what is wrong with the file that says it."""
    file = _beside(path, rank, "unprofiled", ".json")
    if file is None:
        return None, ()
    time = (_object(file) or {}).get("step_time_ms")
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 < time < float("inf"):
        return None, (f"{file.name} holds no step time: what the profiler cost is not known.",)
    return round(time * NS_PER_MS), ()


def _beside(path: Path, rank: int | None, stem: str, suffix: str) -> Path | None:
    """The file of a capture that belongs to a recording: of the same process, else of the same rank."""
    named = _RANK.search(path.name)
    names = [named[1], f"rank{named[2]}"] if named else [f"rank{rank or 0}"]
    files = [path.parent / f"{stem}.{name}{suffix}" for name in names]
    return next((file for file in files if file.is_file()), None)


def _object(path: Path) -> dict[str, Any] | None:
    try:
        values = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return values if isinstance(values, dict) else None


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line; damaged lines (a killed writer's last one) are left out."""
    result = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(value, dict):
            result.append(value)
    return result
