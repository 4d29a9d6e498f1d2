"""The verdict on a recording of the CPU alone: a first trial on a laptop, or a program without a
GPU."""

from traceanalyzer.base import span
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.rules.evidence import top_operators
from traceanalyzer.trace.run import TORCH_PROFILER

SHOWN_OPERATORS = 3
SHOWN_SHARE = 0.01  # of the step: phases below it are not in the sentence


def is_cpu_alone(m: Measurements) -> bool:
    """Whether steps of a program were recorded that gave a GPU nothing to do. Where the recorder
    saw a GPU, or the file is cut off, its work is missing instead."""
    launched = m.launches is not None and bool(m.launches.launch_calls)
    missing = bool(m.trace.devices) or m.trace.health.truncated or launched
    of_pytorch = m.trace.source in TORCH_PROFILER  # others are there for the GPU
    return m.timed.device is None and m.timed.steps.known and of_pytorch and not missing


def cpu_summary(m: Measurements) -> Summary | None:
    """What the CPU spends the step on, by phase and by operator; None where neither is known."""
    phases = _phases(m)
    operators = _operators(m)
    if not phases and not operators:
        return None
    step = f"each {span(m.mean_step_ms)} step as recorded"
    parts = [
        f"{phases} of {step}" if phases else f"{step} is the CPU's",
        *([f"largest operators: {operators}"] if operators else []),
    ]
    text = f"No GPU work was recorded: {'; '.join(parts)}."
    return Summary("inconclusive", 0.0, text, m.step.basis, m.step.step_ms)


def _phases(m: Measurements) -> str:
    """The phases by their share of the recorded step."""
    step_ms = m.mean_step_ms
    known = {} if m.phase_times is None or not step_ms else m.phase_times.host_ms()
    shares = {name: ms / step_ms for name, ms in known.items()}
    longest = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in longest if share >= SHOWN_SHARE)


def _operators(m: Measurements) -> str:
    """The operators with the most time of their own in a step."""
    steps = m.timed.steps.steady_count
    rows = top_operators(m)[:SHOWN_OPERATORS]
    return ", ".join(f"{row.name} {span(row.ms / steps)}" for row in rows)
