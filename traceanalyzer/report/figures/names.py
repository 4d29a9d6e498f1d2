"""Names of figures: the path of each in the report's JSON, `metrics.` left out."""

from dataclasses import replace

from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.report.model import Metrics, Report

SUMMARY = "summary."
OF_THE_SUMMARY = (SUMMARY, "headroom_ms.", "utilisation.", "throughput.")
"""Figures of the step that summary, findings and advice speak of."""
UNPROFILED = ("unprofiled", "syncs.unprofiled_")  # figures of the step without the profiler
IMPLIED = ("metrics.", "recorded.")
"""May stand before a name: the JSON has `metrics`; older versions named recorded figures so."""
SHORT = {
    "step_time_ms": "step_time_ms.mean",
    "step_ms": "summary.step_ms",
    "step": "summary.step_ms",
    "idle": "summary.idle_share",
    "gpu_idle": "summary.idle_share",
    "busy": "utilisation.gpu_busy_share",
    "gpu_busy": "utilisation.gpu_busy_share",
    "mfu": "utilisation.mfu",
}
"""What users call a figure of the step that the report speaks of, and its name."""
WITHOUT_PROFILER = {
    "step_time_ms.mean": "summary.step_ms",
    "step_time_ms.median": "summary.step_ms",
    "gpu_idle_share": "summary.idle_share",
    "gpu_busy_share": "utilisation.gpu_busy_share",
    "roofline.mfu": "utilisation.mfu",
    "syncs.gpu_idle_ms": "syncs.unprofiled_idle_ms",
}
"""Figures of the recorded step, and those that the summary's step has instead."""


def figure_name(written: str) -> str:
    """The name of a figure as somebody wrote it: `step_ms`, `metrics.budget_ms.idle`."""
    for prefix in IMPLIED:
        written = written.removeprefix(prefix)
    return SHORT.get(written, written)


def is_recorded(report: Report, name: str) -> bool:
    """Whether the figure is as recorded, or of nothing that a profiler changes; else it is of the
    step without the profiler."""
    if name.startswith(OF_THE_SUMMARY):
        return report.summary.basis == "recorded"
    return not name.startswith(UNPROFILED)


def in_the_summary(name: str) -> str | None:
    """The name of the summary's figure that goes with one of the recorded step; None without."""
    if name.startswith(("budget_ms.", "idle_ms.")):
        return SUMMARY + name
    return WITHOUT_PROFILER.get(name)


def with_parts(summary: Summary, metrics: Metrics) -> Summary:
    """The summary with the parts of its step."""
    step = metrics.unprofiled if summary.basis == "unprofiled" else metrics
    if summary.step_ms is None or step is None or step.budget_ms is None:
        return summary
    share = step.budget_ms.idle / summary.step_ms if summary.step_ms else None
    return replace(summary, budget_ms=step.budget_ms, idle_ms=step.idle_ms, idle_share=share)
