"""From the log of torch.compile, a trace, or both, to what is reported: the one way there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traceanalyzer.analysis.compile.bare import EMPTY
from traceanalyzer.analysis.compile.measure import measure_logs
from traceanalyzer.analysis.compile.shares import with_trace
from traceanalyzer.analysis.compile.steps import steps_use
from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.diagnosis.compile import diagnose_compile
from traceanalyzer.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.ingest.torch_log.read import log_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.diagnosis.compile import CompileDiagnosis
    from traceanalyzer.trace import Trace


def compile_report(log: Path, trace: Path | None = None) -> tuple[Compiled, CompileDiagnosis, list[dict[str, Any]]]:
    """What is reported of a log (or a folder of logs), with a trace or without, or of a trace alone; and the inputs.

    Raises TraceAnalyzerError.
    """
    if trace is None and not _is_log(log):
        return _of_trace(log)
    logs = read_logs(log)
    inputs: list[dict[str, Any]] = [
        {"path": each.path, "kind": "torch_log", "rank": each.rank, "devices": []} for each in logs
    ]
    if trace is None:
        compiled = measure_logs(logs)
        return compiled, diagnose_compile(compiled, None), inputs
    traces = _load(trace)
    recorded = _fitting(traces, logs)
    inputs += [{"path": recorded.path, "kind": recorded.source, "rank": recorded.rank, "devices": []}]
    compiled, step_ms = joined(logs, recorded)
    return compiled, diagnose_compile(compiled, step_ms), inputs


def compile_overlay(log: Path, trace: Path | None = None) -> str:
    """The compile work of a log as tracks for Perfetto, on the clock of the trace (of the epoch without one).

    Raises TraceAnalyzerError.
    """
    from traceanalyzer.report.compiled_overlay import overlay_json

    logs = read_logs(log)
    if trace is None:
        return overlay_json(logs, 0)
    recorded = _fitting(_load(trace), logs)
    if not recorded.epoch_ns:
        raise TraceAnalyzerError(f"{trace}: the trace has no wall clock, so compile work cannot be laid onto it")
    return overlay_json(logs, recorded.epoch_ns)


def joined(logs: Sequence[CompileLog], trace: Trace) -> tuple[Compiled, float | None]:
    """What logs and a trace say together, and the step without the profiler, ms."""
    m = Measurements(trace)
    replay = m.replay if len(trace.device_ops) else None
    chosen = _log_of(logs, trace)
    compiled = measure_logs(logs, chosen) if chosen is not None else EMPTY
    compiled = with_trace(compiled, chosen, m, replay) if len(trace.device_ops) else compiled
    timed = m.unprofiled_time
    step_ms = replay.base_ms if replay is not None else timed.step_ms if timed is not None else None
    return replace(compiled, steps=steps_use(compiled, m, step_ms)), step_ms


def _of_trace(path: Path) -> tuple[Compiled, CompileDiagnosis, list[dict[str, Any]]]:
    trace = _load(path)[0]
    compiled, step_ms = joined([], trace)
    inputs: list[dict[str, Any]] = [{"path": trace.path, "kind": trace.source, "rank": trace.rank, "devices": []}]
    return compiled, diagnose_compile(compiled, step_ms), inputs


def _is_log(path: Path) -> bool:
    try:
        log_files(path)
    except UnreadableInputError as error:
        from traceanalyzer.ingest.detect import is_recording

        if path.is_file() and is_recording(path):
            return False
        raise error from None
    return True


def _load(path: Path) -> list[Trace]:
    from traceanalyzer.ingest import load

    traces = [trace for trace in load([path]).traces if trace.source != "timing_log"]
    if not traces:
        raise TraceAnalyzerError(f"{path}: not a trace; give a Kineto trace or an Nsight Systems export of the program")
    return traces


def _fitting(traces: Sequence[Trace], logs: Sequence[CompileLog]) -> Trace:
    """The trace of a rank that has a log; the first where ranks do not tell."""
    ranks = {log.rank for log in logs}
    return next((trace for trace in traces if trace.rank in ranks), traces[0])


def _log_of(logs: Sequence[CompileLog], trace: Trace) -> CompileLog | None:
    """The log of the trace's process: the one that has its graphs, else of its rank, else of the process that compiled
    most."""
    if not logs:
        return None
    texts = set(trace.strings)
    graphs = [
        sum(f"## Call CompiledFxGraph {e.key} ##" in texts for c in log.compilations for e in c.caches) for log in logs
    ]
    if max(graphs):
        # Of several starts that made the same graphs the last is the one that is likely to have been recorded.
        return max(zip(graphs, range(len(logs)), logs, strict=True), key=lambda one: one[:2])[2]
    of_rank = [log for log in logs if log.rank == trace.rank]
    return max(of_rank or logs, key=lambda log: len(log.compilations))
