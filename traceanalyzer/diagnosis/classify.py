"""The bottleneck class: which part of the step's wall-clock time is the largest.

The step's budget, its idle time taken apart by cause and its compute time taken apart by what usually limits
the kernels, is a partition of the step. The class is the largest part (compute and memory compete as one:
the device is the bottleneck; then the larger of the two names it). Confidence is the margin over the second
largest part, discounted for thin evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.finding import BottleneckClass, Summary
from traceanalyzer.diagnosis.shares import Shares, missing_kernels, rated_share, step_shares
from traceanalyzer.diagnosis.timing import timing_summary

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

MIN_DEVICE_OPS = 10
"""A recording without repeated steps and with fewer device ops than this is not classified."""
TOO_MANY_MISSING = 0.1
"""With more of the launches' kernels missing, what looks idle may have been busy."""
MAX_CONFIDENCE = 0.95
BASE_CONFIDENCE = 0.5
"""Confidence of a verdict whose margin over the runner-up is nil."""
NO_STEPS_FACTOR = 0.7
"""Without steps, start-up and shutdown are part of the figures."""
ONE_STEP_FACTOR = 0.8
"""One step may be unlike the others."""
TWO_STEPS_FACTOR = 0.9
"""Two that agree may do so by chance."""
DAMAGED_FACTOR = 0.8
"""What is missing from a damaged recording may have been the cause."""
DAMAGED_SHARE = 0.01
"""Share of events lost from which the recording counts as damaged."""
BY_CLASS_FACTOR = 0.9
"""Compute or memory is told from kernel names where FLOPs, bytes or the GPU's limits are not known."""
RATED_SHARE = 0.9
"""Share of the compute time from which the roofline, not the names, tells compute from memory."""


def classify(m: Measurements) -> Summary:
    """The verdict on a process."""
    if m.trace.source == "timing_log":
        return timing_summary(m)
    shares = step_shares(m)
    reason = _too_thin(m, shares)
    if shares is None or reason:
        return Summary("inconclusive", 0.0, f"Inconclusive: {reason}")
    parts = {
        "device": shares.device,
        "communication": shares.communication,
        "transfer": shares.transfer,
        "launch": shares.launch,
        "sync": shares.sync,
        "input": shares.input,
        "host": shares.host,
        "unexplained": shares.unexplained,
    }
    (top, share), (_, second) = sorted(parts.items(), key=lambda item: -item[1])[:2]
    confidence = min(MAX_CONFIDENCE, BASE_CONFIDENCE + share - second) * _evidence_factor(m)
    if top == "unexplained":
        text = f"Inconclusive: the GPU idles {share:.0%} of the step for reasons this recording does not show."
        return Summary("inconclusive", 0.0, text)
    bottleneck = _name(top, shares)
    if top == "device" and rated_share(m) < RATED_SHARE:
        confidence *= BY_CLASS_FACTOR
    return Summary(bottleneck, round(confidence, 2), _headline(m, bottleneck, shares))


def _name(top: str, shares: Shares) -> BottleneckClass:
    if top == "device":
        return "compute" if shares.compute >= shares.memory else "memory"
    return top  # type: ignore[return-value]  # the keys of `parts` but device and unexplained are classes


def _too_thin(m: Measurements, shares: Shares | None) -> str:
    """Why there can be no verdict; empty if there can."""
    if not len(m.trace.device_ops):
        return "the recording holds no GPU work."
    if shares is None or not m.steady_ops.any():
        return "none of the recorded GPU work belongs to a measured step."
    if m.steps.steady_count == 1 and m.steady_ops.sum() < MIN_DEVICE_OPS:
        return f"only {int(m.steady_ops.sum())} GPU operations were recorded."
    if missing_kernels(m) > TOO_MANY_MISSING:
        return f"the kernels of {missing_kernels(m):.0%} of the launches are not in the recording."
    return ""


def _evidence_factor(m: Measurements) -> float:
    steps, health = m.steps, m.trace.health
    factor = {1: ONE_STEP_FACTOR, 2: TWO_STEPS_FACTOR}.get(steps.steady_count, 1.0)
    if not steps.found:
        factor = NO_STEPS_FACTOR
    factor *= 1.0 - missing_kernels(m)
    if health.truncated or health.lost > DAMAGED_SHARE * max(health.events, 1):
        factor *= DAMAGED_FACTOR
    return factor


_REASONS: dict[BottleneckClass, str] = {
    "compute": "the GPU computes {device:.0%} of {step}, mostly in kernels whose ceiling is arithmetic",
    "memory": "the GPU computes {device:.0%} of {step}, mostly in kernels whose ceiling is memory bandwidth",
    "communication": "communication that no computation hides takes {communication:.0%} of {step}",
    "transfer": "memory copies that nothing hides take {transfer:.0%} of {step}",
    "launch": "the GPU waits {launch:.0%} of {step} for the host to issue work",
    "sync": "the GPU idles {sync:.0%} of {step} because the host kept waiting for it and queued nothing ahead",
    "input": "the GPU waits {input:.0%} of {step} for input data",
    "host": "the GPU waits {host:.0%} of {step} for host work between launches",
}


def _headline(m: Measurements, bottleneck: BottleneckClass, shares: Shares) -> str:
    what = "the step" if m.steps.found else "the recording"
    step = f"{what} ({m.mean_step_ms:.3g} ms)"
    values = {name: getattr(shares, name) for name in ("communication", "transfer", "launch", "sync", "input", "host")}
    reason = _REASONS[bottleneck].format(step=step, device=shares.device, **values)
    return f"{bottleneck.capitalize()}-bound: {reason}."
