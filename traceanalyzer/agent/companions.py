"""The questions on what is recorded beside a trace: snapshots of GPU memory, logs of torch.compile."""

from typing import Any

from traceanalyzer.agent.answer import (
    NAMES_ARE_DATA,
    fitted_answer,
    one_line,
    rounded_figure,
    sourced_figure,
)
from traceanalyzer.agent.sources import Sources
from traceanalyzer.agent.told import quoted_sentence
from traceanalyzer.analysis.memory.growth import Growth
from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.diagnosis.compile.judged import CompileAdvice
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.diagnosis.memory import MemoryFinding, MemoryRecommendation
from traceanalyzer.replay.compile.model import BreakRow, RecompileRow

SHOWN_SITES = 8
SHOWN_ADVICE = 6
SHOWN_ROWS = 10
BYTES = "bytes of GPU memory"
NO_LOG = "cannot be known: no log of torch.compile; set TORCH_TRACE to a folder and run again"
NO_STEP = "cannot be known: give the trace of the same run"


def memory(sources: Sources, path: str, trace: str = "") -> str:
    """What fills GPU memory at the peak, by line; whether it leaks; what to change. path: a memory
    snapshot of PyTorch, or a folder with one; trace: the recording made with it, for step times."""
    report = sources.memory(path, trace)
    step_ms = report.traced.step_ms
    return fitted_answer(
        headline=quoted_sentence(report.headline),
        step=sourced_figure(
            step_ms, "ms per step", NO_STEP if step_ms is None else "mean of the trace's steps"
        ),
        devices=[_device(device) for device in report.memory],
        sites=[
            {
                "device": device.device,
                "name": one_line(site.site),
                "category": site.category,
                "phase": site.phase,
                "bytes": site.bytes,
                "allocations": site.allocations,
            }
            for device in report.memory
            for site in device.sites[:SHOWN_SITES]
        ],
        findings=[_memory_finding(found) for found in report.findings[:SHOWN_ADVICE]],
        changes=[_memory_advice(advice) for advice in report.recommendations[:SHOWN_ADVICE]],
        spoils=[quoted_sentence(note) for note in report.notes],
        how="the allocator's own history; sites are those at the peak; categories are inferred",
        names=NAMES_ARE_DATA,
    )


def compile(sources: Sources, path: str, trace: str = "") -> str:  # noqa: A001 (the command's name)
    """What torch.compile cost, where graphs break, what recompiles and why. path: a structured log
    (TORCH_TRACE) or the folder of them, or a recording or capture folder; trace: the recording of
    the logged run, for what a break costs a step."""
    report = sources.compiled(path, trace)
    compiled = report.compiled
    diagnosis = report.diagnosis
    logged = compiled.source != "trace"
    step_ms = compiled.steps.step_ms
    return fitted_answer(
        headline=quoted_sentence(diagnosis.headline or "Nothing was compiled."),
        compile_time=sourced_figure(
            compiled.compile_s, "s", "time in compilations, by the log" if logged else NO_LOG
        ),
        step=sourced_figure(
            step_ms, "ms per step", NO_STEP if step_ms is None else "steady, without the profiler"
        ),
        graphs=compiled.graphs,
        graph_breaks=[_break(row) for row in compiled.graph_breaks[:SHOWN_ROWS]]
        if logged
        else None,
        recompiles=compiled.recompiles,
        recompilations=[_recompilation(row) for row in compiled.recompile_reasons[:SHOWN_ROWS]]
        if logged
        else None,
        runs_eager_since=[one_line(name) for name in compiled.runs_eager_since],
        findings=[_compile_finding(found) for found in diagnosis.findings[:SHOWN_ADVICE]],
        changes=[_compile_advice(advice) for advice in diagnosis.recommendations[:SHOWN_ADVICE]],
        spoils=[quoted_sentence(note) for note in compiled.notes],
        how="the log of torch.compile; what a break costs a step is read from the trace",
        names=NAMES_ARE_DATA,
    )


def _device(device: MemoryOfDevice) -> dict[str, Any]:
    where = "most that was allocated at once"
    return {
        "device": device.device,
        "peak": sourced_figure(device.peak_bytes, BYTES, where),
        "peak_phase": device.peak_phase,
        "reserved": sourced_figure(device.reserved_bytes, BYTES, "most that was reserved"),
        "at_peak_bytes": {name: size for name, size in device.at_peak.items() if size},
        "growth": _growth(device.growth),
        "out_of_memory": None if device.oom is None else device.oom.verdict,
    }


def _growth(growth: Growth) -> dict[str, Any]:
    how = f"slope over {growth.steps} steps"
    if growth.bytes_per_step is None:
        how = "cannot be known: too few steps; record 20"
    return {
        "verdict": growth.verdict,
        "grows": sourced_figure(growth.bytes_per_step, "bytes per step", how),
        "range_bytes": [rounded_figure(growth.low), rounded_figure(growth.high)],
        "where": [
            {"name": one_line(site.site), "bytes_per_step": rounded_figure(site.bytes_per_step)}
            for site in growth.sites[:SHOWN_SITES]
        ],
    }


def _memory_finding(found: MemoryFinding) -> dict[str, Any]:
    known = {"id": found.id, "device": found.device, "severity": found.severity}
    return {
        **known,
        "title": quoted_sentence(found.title),
        "headroom_bytes": found.headroom_bytes,
    }


def _memory_advice(advice: MemoryRecommendation) -> dict[str, Any]:
    how = quoted_sentence(advice.basis)
    return {
        "id": advice.id,
        "device": advice.device,
        "do": quoted_sentence(advice.action),
        "predicted_peak": sourced_figure(advice.predicted_peak_bytes, BYTES, how),
        "saved_bytes": advice.saved_bytes,
        "predicted_step_ms": rounded_figure(advice.predicted_step_ms),
    }


def _break(row: BreakRow) -> dict[str, Any]:
    return {
        "where": one_line(row.location),
        "reason": quoted_sentence(row.reason),
        "times": row.count,
        "whole_function_eager": row.whole_function_eager,
        "per_step": rounded_figure(row.per_step),
        "do": quoted_sentence(row.remedy),
    }


def _recompilation(row: RecompileRow) -> dict[str, Any]:
    return {
        "where": one_line(row.location),
        "guard": one_line(row.guard),
        "times": row.count,
        "refused": row.refused,
        "do": quoted_sentence(row.remedy),
    }


def _compile_finding(found: Finding) -> dict[str, Any]:
    return {
        "id": found.id,
        "severity": found.severity,
        "title": quoted_sentence(found.title),
        "headroom_ms": rounded_figure(found.headroom_ms),
    }


def _compile_advice(advice: CompileAdvice) -> dict[str, Any]:
    how = quoted_sentence(advice.basis)
    return {
        "id": advice.id,
        "do": quoted_sentence(advice.action),
        "predicted": sourced_figure(advice.predicted_step_ms, "ms per step", how),
        "range_ms": [rounded_figure(advice.low_ms), rounded_figure(advice.high_ms)],
        "predicted_compile_s": rounded_figure(advice.predicted_compile_s),
    }
