"""What a recording cannot tell, and which recording would."""

from typing import NamedTuple

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown

FEW_STEPS = 3
"""Fewer tell nothing of how much steps vary."""


class Unknown(NamedTuple):
    """A question that the recording leaves open."""

    question: str
    because: str
    record: str


def unknowns(report: Report, m: Measurements) -> list[Unknown]:
    """The open questions of a measured recording, the most important first."""
    trace, collected = m.trace, m.trace.collected
    found: list[tuple[bool, Unknown]] = [
        (trace.only_step_times, Unknown("where the time of a step goes", "a log of step times has no events", _TORCH)),
        (
            not trace.only_step_times and not collected.device,
            Unknown("what the GPU does", "device activities were not recorded", _TORCH),
        ),
        (
            not trace.only_step_times and not collected.api,
            Unknown("why the GPU is idle", "launches and waits of the CPU were not recorded", _TORCH),
        ),
        (
            breakdown.whole(report) == "recording",
            Unknown("how long a step takes", "no steps were found", "call profiler.step() once per step, or " + _TORCH),
        ),
        (
            report.metrics.step_time_ms is not None
            and breakdown.whole(report) == "step"
            and report.metrics.step_time_ms.count < FEW_STEPS,
            Unknown("how much steps vary", "too few steps were recorded", _with("--active 5")),
        ),
        (
            report.metrics.unprofiled_source != "measured" and not trace.only_step_times,
            Unknown(
                "the step without the profiler, measured",
                "only the profiled step was recorded",
                _TORCH + " (times it first)",
            ),
        ),
        (
            not trace.only_step_times and not collected.stacks,
            Unknown("the source line of a wait or a gap", "Python stacks were not recorded", _with("--stacks")),
        ),
        (
            not trace.only_step_times and not collected.shapes,
            Unknown("sizes of matmuls, FLOP and roofline", "input shapes were not recorded", _with("--shapes")),
        ),
        (
            trace.memory is None,
            Unknown("what fills GPU memory", "there is no memory snapshot", _with("--memory-snapshot")),
        ),
        (
            _ranks_missing(report),
            Unknown("who waits for whom", "not every rank of the run is here", "the recordings of all ranks"),
        ),
        (
            not m.linked.knowledge.counters and not trace.only_step_times,
            Unknown("measured use of each kernel's resources", "hardware counters were not read", _NCU),
        ),
    ]
    return [unknown for is_open, unknown in found if is_open]


_TORCH = "traceanalyzer collect torch -- python train.py"
_NCU = "traceanalyzer collect ncu --trace TRACE -- python train.py, then --ncu"


def _with(option: str) -> str:
    return f"traceanalyzer collect torch {option} -- python train.py"


def _ranks_missing(report: Report) -> bool:
    sizes = [item.world_size for item in report.inputs if item.world_size]
    return bool(sizes) and max(sizes) > len(report.inputs)
