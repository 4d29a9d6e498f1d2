"""What a recording cannot tell, and which recording would."""

from typing import NamedTuple

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown
from traceanalyzer.trace import Collected

FEW_STEPS = 3
"""Fewer tell nothing of how much steps vary."""
EVERYTHING = Collected(device=True, api=True, shapes=True, stacks=True)
"""A log of step times has other questions."""


class Unknown(NamedTuple):
    """A question that the recording leaves open."""

    question: str
    because: str
    record: str


def unknowns(report: Report, m: Measurements) -> list[Unknown]:
    """The open questions of a measured recording, the most important first."""
    events, steps, whole = not m.trace.only_step_times, report.metrics.step_time_ms, breakdown.whole(report)
    collected = m.trace.collected if events else EVERYTHING
    is_open = {
        _TIME: not events,
        _DEVICE: not collected.device,
        _IDLE: not collected.api,
        _STEP: whole == "recording",
        _VARIANCE: steps is not None and whole == "step" and steps.count < FEW_STEPS,
        _UNPROFILED: events and report.metrics.unprofiled_source != "measured",
        _LINE: not collected.stacks,
        _SIZES: not collected.shapes,
        _MEMORY: m.trace.memory is None,
        _RANKS: _ranks_missing(report),
        _COUNTERS: events and not m.linked.knowledge.counters,
    }
    return [unknown for unknown, yes in is_open.items() if yes]


def _ranks_missing(report: Report) -> bool:
    sizes = [item.world_size for item in report.inputs if item.world_size]
    return bool(sizes) and max(sizes) > len(report.inputs)


def _with(option: str) -> str:
    return f"traceanalyzer collect torch {option} -- python train.py"


_TORCH = "traceanalyzer collect torch -- python train.py"
_NCU = "traceanalyzer collect ncu --trace TRACE -- python train.py, then --ncu"

_TIME = Unknown("where the time of a step goes", "a log of step times has no events", _TORCH)
_DEVICE = Unknown("what the GPU does", "device activities were not recorded", _TORCH)
_IDLE = Unknown("why the GPU is idle", "launches and waits of the CPU were not recorded", _TORCH)
_STEP = Unknown("how long a step takes", "no steps were found", f"call profiler.step() once per step, or {_TORCH}")
_VARIANCE = Unknown("how much steps vary", "too few steps were recorded", _with("--active 5"))
_UNPROFILED = Unknown(
    "the step without the profiler, measured", "only the profiled step was recorded", f"{_TORCH} (times it first)"
)
_LINE = Unknown("the source line of a wait or a gap", "Python stacks were not recorded", _with("--stacks"))
_SIZES = Unknown("sizes of matmuls, FLOP and roofline", "input shapes were not recorded", _with("--shapes"))
_MEMORY = Unknown("what fills GPU memory", "there is no memory snapshot", _with("--memory-snapshot"))
_RANKS = Unknown("who waits for whom", "not every rank of the run is here", "the recordings of all ranks")
_COUNTERS = Unknown("measured use of each kernel's resources", "hardware counters were not read", _NCU)
