"""The step times of a report: recorded, and the one that the report speaks of."""

import dataclasses

from traceanalyzer.report.model import Report

NO_STEPS = ("none", "recording")
EPOCHS = "logged_epochs"


ITERATION_OF = "iteration of "  # how a step's unit begins where it is one of a server


def figure_unit(report: Report) -> str:
    """What the figures are of: `step`, `iteration` of a server, `epoch` of a log that times nothing
    smaller, or `recording` where no steps were found."""
    if report.metrics.step_source == EPOCHS:
        return "epoch"
    if report.metrics.step_source in NO_STEPS:
        return "recording"
    is_of_server = (report.metrics.step_unit or "").startswith(ITERATION_OF)
    return "iteration" if is_of_server else "step"


def recorded_ms(report: Report) -> float | None:
    """Mean recorded step, of the whole recording where there are no steps."""
    metrics = report.metrics
    if metrics.step_time_ms is not None:
        return metrics.step_time_ms.mean
    return sum(dataclasses.astuple(metrics.budget_ms)) if metrics.budget_ms is not None else None


def step_ms(report: Report) -> float | None:
    """The step that the report speaks of: without the profiler where that is known, else as
    recorded."""
    summary = report.summary
    return (
        summary.step_ms
        if summary.basis == "unprofiled" and summary.step_ms is not None
        else recorded_ms(report)
    )
