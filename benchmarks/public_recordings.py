"""Public recordings that nothing was tuned to: `python -m benchmarks.public_recordings PATH...`.

Prints a row for each input: the unit of its step, what share of the recording the steps are, the
class, the first finding. Whether they are right is for a reader to judge; docs/accuracy/programs.md has
the judgement.
"""

import sys
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.report.model import Report

UNITS = {
    "profiler_step": "profiler step",
    "nvtx": "NVTX range",
    "periodicity": "period",
    "none": "none",
}


def row(path: Path) -> str:
    """The row of one input."""
    name = path.name.partition(".")[0]
    try:
        report = ta.analyze(path)
    except TraceAnalyzerError as error:
        return f"| {name} | refused: {error} | | | |"
    metrics = report.metrics
    summary = report.summary
    unit = UNITS.get(metrics.step_source) or _unit(report)
    if metrics.step_time_ms is not None:
        unit = f"{metrics.step_time_ms.count} x {unit}, {metrics.step_time_ms.mean:.3g} ms"
    share = metrics.coverage.steps_share if metrics.coverage else None
    first = report.findings[0] if report.findings else None
    found = (
        ""
        if first is None
        else f"`{first.id}`" + (f", {first.headroom_ms:.3g} ms" if first.headroom_ms else "")
    )
    covered = "" if share is None else f"{share:.0%}"
    return f"| {name} | {unit} | {covered} | {summary.bottleneck} ({summary.confidence:.0%}) | {found} |"


def _unit(report: Report) -> str:
    """What an annotation that became the step is."""
    steps = report.tables.get("steps", [])
    name = steps[-1].name if steps else ""
    return {"step": "optimizer step"}.get(name.partition(" ")[0], f"`{name[:40]}`")


if __name__ == "__main__":
    print("| recording | step | covers | class | first finding |\n| --- | --- | --- | --- | --- |")
    for argument in sys.argv[1:]:
        print(row(Path(argument)))
