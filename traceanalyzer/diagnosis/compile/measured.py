"""What is known of torch.compile in a process, by its trace, its logs, or both; and what the report
says of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.analysis.groups.first_steps import saved_of
from traceanalyzer.base import NS_PER_MS, digits
from traceanalyzer.diagnosis.compile import judged
from traceanalyzer.diagnosis.compile.answer import OnCompile
from traceanalyzer.diagnosis.compile.judged import CompileAdvice, CompileDiagnosis, number_of
from traceanalyzer.diagnosis.finding import AtStart, Recommendation
from traceanalyzer.replay.compile.measure import headline_log, measure_logs
from traceanalyzer.replay.compile.model import EMPTY
from traceanalyzer.replay.compile.shares import with_trace
from traceanalyzer.replay.compile.steps import StopwatchTimes, with_steps, with_stopwatch

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.replay.compile.model import Compiled
    from traceanalyzer.trace import Trace
    from traceanalyzer.trace.compile_log import CompileLog

UNTIMED = StopwatchTimes()


class CompiledBy(NamedTuple):
    """What was measured, the log of the trace's own process, and the step without the profiler,
    ms."""

    compiled: "Compiled"
    log: "CompileLog | None"
    step_ms: float | None


def compiled_by(
    m: "Measurements", logs: "Sequence[CompileLog]", stopwatch: StopwatchTimes = UNTIMED
) -> CompiledBy:
    """What logs and a trace say together; either may be missing."""
    if m.trace.is_companion:
        log = headline_log(logs)
        return CompiledBy(with_stopwatch(measure_logs(logs, log), stopwatch), log, None)
    chosen = log_of(logs, m.trace)
    compiled = EMPTY if chosen is None else measure_logs(logs, chosen)
    replay = None
    if len(m.trace.device_ops):
        replay = m.replay
        compiled = with_trace(compiled, chosen, m.rated, replay)
    timed = m.unprofiled_time
    if stopwatch.step_ms is None and timed is not None:
        stopwatch = replace(stopwatch, step_ms=timed.step_ms)
    watch = m.trace.stopwatch
    if stopwatch.eager_step_ms is None and watch is not None and watch.eager_ns is not None:
        reach_ms = saved_of(watch)[1] / NS_PER_MS
        stopwatch = replace(stopwatch, eager_step_ms=watch.eager_ns / NS_PER_MS, reach_ms=reach_ms)
    step_ms = replay.base_ms if replay is not None else stopwatch.step_ms
    return CompiledBy(with_steps(compiled, chosen, m.timed, step_ms, stopwatch), chosen, step_ms)


def log_of(logs: "Sequence[CompileLog]", trace: "Trace") -> "CompileLog | None":
    """The log of the trace's process: the one with its graphs, else of its rank, else that which
    compiled most."""
    if not logs:
        return None
    texts = set(trace.strings)
    call = "## Call CompiledFxGraph {} ##"
    graphs = [
        sum(call.format(e.key) in texts for c in log.compilations for e in c.caches) for log in logs
    ]
    if max(graphs):
        # Of several starts that made the same graphs the last is the one that is likely to have
        # been recorded.
        last = max(range(len(logs)), key=lambda i: (graphs[i], i))
        return logs[last]
    return max(
        [log for log in logs if log.rank == trace.rank] or logs,
        key=lambda log: len(log.compilations),
    )


def told_of(m: "Measurements") -> OnCompile:
    """What a report on time says of what was compiled. Its headroom is part of what other findings
    have."""
    measured = compiled_by(m, m.trace.compile_logs)
    diagnosis = diagnose_compile(measured.compiled, measured.step_ms)
    advice = [_recommended(one, measured.compiled.compile_s) for one in diagnosis.recommendations]
    findings = [replace(one, headroom_ms=None) for one in diagnosis.findings]
    return OnCompile(diagnosis.headline, findings, advice)


def _recommended(advice: CompileAdvice, now_s: float | None) -> Recommendation:
    """The advice as a report on time has it; `now_s`: seconds in compilations today."""
    after_s = advice.predicted_compile_s
    at_start = None if after_s is None else AtStart(now_s, after_s, advice.low_s, advice.high_s)
    return Recommendation(
        advice.id,
        advice.cls,
        advice.action,
        advice.predicted_step_ms,
        advice.predicted_speedup,
        advice.basis,
        advice.remedy,
        advice.low_ms,
        advice.high_ms,
        at_start=at_start,
    )


def diagnose_compile(compiled: "Compiled", step_ms: float | None) -> CompileDiagnosis:
    """Judge what was measured; `step_ms` is the step without the profiler, where a trace tells."""
    pairs = [
        *judged.breaks(compiled, step_ms),
        *judged.recompiles(compiled),
        *judged.recompiled_regions(compiled),
        *judged.cudagraphs(compiled, step_ms),
        *judged.cache(compiled),
        *judged.autotune(compiled),
        *judged.failures(compiled),
        *judged.ranks(compiled),
    ]
    pairs.sort(key=lambda pair: -(pair[0].headroom_ms or 0.0))
    findings = [finding for finding, _ in pairs]
    advice = [advice for _, given in pairs for advice in given]
    advice.sort(
        key=lambda one: float("inf") if one.predicted_step_ms is None else one.predicted_step_ms
    )
    return CompileDiagnosis(compile_headline(compiled), findings, advice)


def _how_many(number: int, what: str) -> str:
    return number_of(number, what) if number else f"no {what}"


def compile_headline(compiled: "Compiled") -> str:
    """The answer in two sentences."""
    sentences = [f"Compilation failed: {error}." for error in compiled.errors[:1]]
    if compiled.compile_s is not None:
        most = max(compiled.stages_s, key=lambda stage: compiled.stages_s[stage], default="")
        sentences.append(
            f"{digits(compiled.compile_s)} s of compilation for {number_of(compiled.graphs or 0, 'graph')}"
            + (
                f", most of it {most} ({digits(compiled.stages_s[most])} s)."
                if compiled.compile_s
                else "."
            )
        )
        broken = _how_many(sum(row.count for row in compiled.graph_breaks), "graph break")
        end = "; the recompile limit was hit." if compiled.recompile_limit_hit else "."
        again = _how_many(compiled.recompiles or 0, "recompilation")
        sentences.append(f"{broken[0].upper()}{broken[1:]} and {again}{end}")
    use = compiled.trace
    if use is not None and use.compiled_share is not None:
        sentences.append(f"{use.compiled_share:.0%} of the step's GPU time is compiled.")
    return " ".join(sentences)
