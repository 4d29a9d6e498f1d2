"""Compile work as events in Chrome's trace format."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from traceanalyzer.base import NS_PER_US, TraceAnalyzerError
from traceanalyzer.replay.compile.stages import stage_of
from traceanalyzer.report.compile.build import fitting
from traceanalyzer.report.json import without_unseen
from traceanalyzer.trace import Run
from traceanalyzer.trace.compile_log import CompileLog

FIRST_PID = 1_900_000_000  # process ids that no recording has: the tracks stand apart from its own


def compile_tracks(logs: Sequence[CompileLog], run: Run | None = None) -> str:
    """Events in Chrome's trace format, on the clock of the run's trace (of the epoch without one).
    Raises TraceAnalyzerError where the trace has no wall clock."""
    trace = None if run is None else fitting(run, logs)
    if trace is not None and not trace.epoch_ns:
        raise TraceAnalyzerError(
            f"{trace.path}: the trace has no wall clock, so compile work cannot be laid onto it"
        )
    # A time of the log less this is a time of the trace.
    epoch_ns = 0 if trace is None else trace.epoch_ns or 0
    events = [
        event
        for number, log in enumerate(logs)
        for event in _compile_events(log, FIRST_PID + number, epoch_ns)
    ]
    # Kineto's own base: Perfetto then shows both files on one clock.
    tracks = {"schemaVersion": 1, "baseTimeNanoseconds": epoch_ns, "traceEvents": events}
    return without_unseen(orjson.dumps(tracks)).decode()


def _compile_events(log: CompileLog, pid: int, epoch_ns: int) -> Iterator[dict[str, Any]]:
    rank = "" if log.rank is None else f" rank {log.rank}"
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"torch.compile{rank}"}}
    threads = {
        thread: number
        for number, thread in enumerate(dict.fromkeys(span.thread for span in log.spans), 1)
    }
    for span in log.spans:
        yield {
            "ph": "X",
            "cat": "compile",
            "name": span.name,
            "pid": pid,
            "tid": threads[span.thread],
            "ts": (span.start_ns - epoch_ns) / NS_PER_US,
            "dur": (span.end_ns - span.start_ns) / NS_PER_US,
            "args": {
                "compile id": span.compile_id,
                "stage": stage_of(span.name),
                "kernel": span.kernel,
            },
        }
