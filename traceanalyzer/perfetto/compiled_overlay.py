"""Compile work as tracks for Perfetto, one for each thread that compiled, on the clock of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.analysis.compile.stages import stage_of
from traceanalyzer.compiled import fitting, load_traces
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.torch_log import read_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from traceanalyzer.ingest.torch_log import CompileLog

FIRST_PID = 1_900_000_000
"""Process ids that no recording has: the tracks stand apart from its own."""
_NS_PER_US = 1e3


def compile_overlay(log: Path, trace: Path | None = None) -> str:
    """The compile work of a log as tracks for Perfetto, on the clock of the trace (of the epoch without one).

    Raises TraceAnalyzerError.
    """
    logs = read_logs(log)
    if trace is None:
        return overlay_json(logs, 0)
    recorded = fitting(load_traces(trace), logs)
    if not recorded.epoch_ns:
        raise TraceAnalyzerError(f"{trace}: the trace has no wall clock, so compile work cannot be laid onto it")
    return overlay_json(logs, recorded.epoch_ns)


def overlay_json(logs: Sequence[CompileLog], epoch_ns: int) -> str:
    """Events in Chrome's trace format; a time of the log less `epoch_ns` is a time of the trace."""
    events = [event for number, log in enumerate(logs) for event in _events(log, FIRST_PID + number, epoch_ns)]
    # Kineto's own base: Perfetto then shows both files on one clock.
    return orjson.dumps({"schemaVersion": 1, "baseTimeNanoseconds": epoch_ns, "traceEvents": events}).decode()


def _events(log: CompileLog, pid: int, epoch_ns: int) -> Iterator[dict[str, Any]]:
    rank = "" if log.rank is None else f" rank {log.rank}"
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"torch.compile{rank}"}}
    threads = _numbers(span.thread for span in log.spans)
    for span in log.spans:
        yield {
            "ph": "X",
            "cat": "compile",
            "name": span.name,
            "pid": pid,
            "tid": threads[span.thread],
            "ts": (span.start_ns - epoch_ns) / _NS_PER_US,
            "dur": (span.end_ns - span.start_ns) / _NS_PER_US,
            "args": {"compile id": span.compile_id, "stage": stage_of(span.name), "kernel": span.kernel},
        }


def _numbers(threads: Iterable[int]) -> dict[int, int]:
    return {thread: number for number, thread in enumerate(dict.fromkeys(threads), 1)}
