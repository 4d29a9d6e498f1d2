"""Which figures of two recordings compare where they were not recorded alike.

Every recorder slows the host by its own amount, and sees it in its own way. The step by a stopwatch,
GPU time and numbers of calls compare whatever recorded them; the host's times do not."""

import dataclasses
from collections.abc import Iterable

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.base import dataclass, metric
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.opening import TIMING_LOG

BESIDE = frozenset((TIMING_LOG, "memory_snapshot", "torch_log"))
"""What is read beside a recording: it records no events."""
SAME_RECORDER = {"pftrace": "kineto"}  # one recorder, written in another form
NAMES = {
    "kineto": "torch.profiler",
    "nsys": "Nsight Systems",
    "xplane": "JAX's profiler",
}
COSTLY = ("shapes", "stacks", "memory")  # what costs the host time where it is recorded
ANY_CAUSE = "all"
"""The cause of idle time where two recorders tell it: each sees another part of the host."""
HOST_FIGURES = ("gpu_busy_share", "launches.launch_mean_us", "host.", "roofline.mfu")
"""Figures that the cost of recording is part of."""
OTHER_RECORDER = (
    "the step without the profiler, GPU time and numbers of calls compare. Recorded step times, "
    "host times and causes of idle time do not, and are left out"
)
ONLY_STEP = "the step without the profiler compares, nothing else does"
OTHER_COST = "host times do not compare, and are left out"


@dataclass(frozen=True)
class RecordedApart:
    """How two recordings were made otherwise."""

    is_other_tool: bool = metric("whether two recorders made them")
    sentence: str = metric("what compares and what does not")
    left_out: list[str] = metric(
        "figures that do not compare, by the beginning of their path in `metrics`"
    )


def recorded_apart(a: Report, b: Report) -> RecordedApart | None:
    """What the two were recorded with, where figures depend on it; None where that is the same."""
    tools = recorder_of(a), recorder_of(b)
    if tools[0] != tools[1]:
        if TIMING_LOG in tools:
            side = "AB"[tools.index(TIMING_LOG)]
            return RecordedApart(True, f"{side} is a log of step times: {ONLY_STEP}.", [""])
        named = [NAMES.get(tool, tool) for tool in tools]
        sentence = f"A was recorded by {named[0]}, B by {named[1]}: {OTHER_RECORDER}."
        return RecordedApart(True, sentence, [*HOST_FIGURES])
    options = _costly(a), _costly(b)
    if None not in options and options[0] != options[1]:
        named = [", ".join(each or ()) or "neither" for each in options]
        sentence = f"A was recorded with {named[0]}, B with {named[1]}: {OTHER_COST}."
        return RecordedApart(False, sentence.replace("with neither", "with less"), [*HOST_FIGURES])
    return None


def are_of_two_tools(a: Report, b: Report) -> bool:
    """Whether two recorders made them."""
    return recorder_of(a) != recorder_of(b)


def recorder_of(report: Report) -> str:
    """The kind of what recorded events; of a log alone that of the log."""
    kinds = {SAME_RECORDER.get(item.kind, item.kind) for item in report.inputs}
    return "+".join(sorted(kinds - BESIDE or kinds))


def hosts_compare(a: Report, b: Report) -> bool:
    """Whether times of both hosts are of the same kind: one recorder with the same options, and its
    cost taken out in the same way."""
    same_source = a.metrics.unprofiled_source == b.metrics.unprofiled_source
    return same_source and recorded_apart(a, b) is None


def _costly(report: Report) -> tuple[str, ...] | None:
    if any(item.collected is None for item in report.inputs):
        return None
    collected = {name for item in report.inputs for name in item.collected or ()}
    return tuple(name for name in COSTLY if name in collected)


def timed_by_log(report: Report) -> Report:
    """The report of a log of step times alone, whose step a stopwatch measured without a profiler;
    any other as it is."""
    if recorder_of(report) != TIMING_LOG:
        return report
    metrics = dataclasses.replace(
        report.metrics,
        unprofiled_step_time_ms=recorded_ms(report),
        unprofiled_source="measured",
    )
    return dataclasses.replace(report, metrics=metrics)


def idle_as_one(parts: Iterable[StepPart]) -> list[StepPart]:
    """The parts, with idle time of any cause and place as one."""
    return [
        dataclasses.replace(part, cls=ANY_CAUSE, op=None, shapes=None, kernel=None)
        if part.part == "idle"
        else part
        for part in parts
    ]
