"""From the log of torch.compile, a trace, or both, to what is reported."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.diagnosis.compile.measured import UNTIMED, compiled_by, diagnose_compile
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.ingest.torch_log import holds_logs, read_logs
from traceanalyzer.replay.compile.measure import headline_log, measure_logs
from traceanalyzer.replay.compile.steps import StopwatchTimes, with_stopwatch
from traceanalyzer.report.compile.figures import logs_of
from traceanalyzer.report.compile.strip import CompileReport, strip_of
from traceanalyzer.trace import Run, Trace
from traceanalyzer.trace.compile_log import CompileLog


def logs_and_run(
    place: Path,
    trace: str | None,
    load: Callable[[str], Run],
    progress: Callable[[float], None] | None = None,
) -> tuple[list[CompileLog], Run | None]:
    """The logs at a place, and the run of a trace that goes with them; of a recording or a capture
    the run, and the logs that were recorded into the capture. Raises TraceAnalyzerError."""
    if trace:
        return read_logs(place, progress), load(trace)
    if not place.exists() or holds_logs(place):
        return read_logs(place, progress), None
    if place.is_file() and not is_recording(place):
        return read_logs(place, progress), None
    run = load(str(place))
    return logs_of(one.path for one in run.traces), run


def compile_report(
    logs: Sequence[CompileLog], run: Run | None = None, stopwatch: StopwatchTimes = UNTIMED
) -> CompileReport:
    """The report on logs, and on a run of the same program. Raises TraceAnalyzerError where the run
    has no trace."""
    inputs = [
        dict[str, Any](
            path=log.path,
            kind="torch_log",
            rank=log.rank,
            devices=[],
        )
        for log in logs
    ]
    if run is None:
        log = headline_log(logs)
        compiled = with_stopwatch(measure_logs(logs, log), stopwatch)
        return CompileReport(
            inputs, compiled, diagnose_compile(compiled, None), strip_of(log, None)
        )
    trace = fitting(run, logs)
    inputs.append({"path": trace.path, "kind": trace.source, "rank": trace.rank, "devices": []})
    return logs_with_trace(logs, measure(trace), stopwatch, inputs)


def logs_with_trace(
    logs: Sequence[CompileLog],
    m: Measurements,
    stopwatch: StopwatchTimes = UNTIMED,
    inputs: Sequence[dict[str, Any]] = (),
) -> CompileReport:
    """What logs and a trace say together."""
    compiled, chosen, step_ms = compiled_by(m, logs, stopwatch)
    timed = None if m.trace.is_companion else m.timed
    return CompileReport(
        list(inputs), compiled, diagnose_compile(compiled, step_ms), strip_of(chosen, timed)
    )


def compile_part(logs: Sequence[CompileLog], measured: MeasuredRanks) -> CompileReport | None:
    """What the logs of torch.compile in a capture say, of the rank that its report speaks of; None
    without one."""
    return logs_with_trace(logs, measured.critical) if logs else None


def fitting(run: Run, logs: Sequence[CompileLog]) -> Trace:
    """The trace of a rank that has a log; the first where ranks do not tell. Raises
    TraceAnalyzerError."""
    traces = [trace for trace in run.traces if not (trace.only_step_times or trace.is_companion)]
    if not traces:
        path = run.traces[0].path if run.traces else "the run"
        raise TraceAnalyzerError(
            f"{path}: no trace; give a Kineto trace or an Nsight Systems export of the program"
        )
    ranks = {log.rank for log in logs}
    return next((trace for trace in traces if trace.rank in ranks), traces[0])
