"""Key figures, verdict and pages of a report in an experiment tracker: Weights & Biases, MLflow,
TensorBoard."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.report.outline import opening

PREFIX = "traceanalyzer/"
"""Before the name of each figure, so that a tracker shows them as one group."""


def tracked_figures(report: NotebookReport) -> dict[str, float]:
    """The figures of a run that are worth a chart, by name; one that the recording cannot tell is
    left out. `_ms` are milliseconds a step, `_share` and `mfu` 0 to 1. The step and its parts are
    without the profiler where `summary.basis` is `unprofiled`. `best_*` are what the first
    recommendation promises."""
    metrics = report.metrics
    summary = report.summary
    best = next((one for one in report.recommendations if one.predicted_step_ms is not None), None)
    idle = summary.idle_ms
    found: dict[str, Any] = {
        "step_ms": summary.step_ms,
        "recorded_step_ms": getattr(metrics.step_time_ms, "mean", None),
        "kernels_per_step": metrics.kernels_per_step,
        "mfu": getattr(metrics.utilisation, "mfu", None),
        "confidence": summary.confidence,
        "best_step_ms": getattr(best, "predicted_step_ms", None),
        "best_speedup": getattr(best, "predicted_speedup", None),
    }
    if summary.budget_ms is not None:
        found |= {f"{name}_ms": value for name, value in vars(summary.budget_ms).items()}
        found["idle_share"] = summary.idle_share
    found |= {f"idle_{name}_ms": value for name, value in (vars(idle) if idle else {}).items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def log_to_wandb(report: NotebookReport, run: Any = None, *, files: Path | None = None) -> None:
    """Put the key figures into the summary of a Weights & Biases run (the active one), the pages
    into an artifact. Neither adds a step to the run's history. `files` is a folder of pages that
    were written already. Raises TraceAnalyzerError where no run is active."""
    import wandb

    run = wandb.run if run is None else run
    if run is None:
        raise TraceAnalyzerError(
            "no run of Weights & Biases is active: call wandb.init() first, or give the run"
        )
    run.summary.update(_named(report) | {f"{PREFIX}verdict": opening.verdict(report)})
    with _pages(report, files) as folder:
        artifact = wandb.Artifact(
            f"traceanalyzer-{run.id}", type="report", description=report.summary.headline
        )
        for page in sorted(folder.glob("report.*")):
            artifact.add_file(str(page))
        run.log_artifact(artifact)


def log_to_mlflow(
    report: NotebookReport,
    run_id: str | None = None,
    *,
    files: Path | None = None,
    client: Any = None,
) -> None:
    """Put the key figures into an MLflow run (the active one, also one that has ended), the pages
    into its artifacts. `files` as for `log_to_wandb`; `client` is an MlflowClient, where the run is
    on another server than the active one. Raises TraceAnalyzerError where no run is active."""
    import mlflow
    from mlflow.entities import Metric, RunTag

    active = None if run_id else mlflow.active_run()
    run_id = active.info.run_id if active else run_id
    if run_id is None:
        raise TraceAnalyzerError(
            "no MLflow run is active: call mlflow.start_run() first, or give run_id"
        )
    client = client or mlflow.MlflowClient()
    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0) for name, value in _named(report).items()]
    client.log_batch(run_id, metrics, tags=[RunTag(f"{PREFIX}verdict", opening.verdict(report))])
    with _pages(report, files) as folder:
        for page in sorted(folder.glob("report.*")):
            client.log_artifact(run_id, str(page), "traceanalyzer")


def log_to_tensorboard(report: NotebookReport, writer: Any, step: int = 0) -> None:
    """Write the key figures as scalars, the report as text; `writer` is a SummaryWriter (PyTorch,
    tensorboardX)."""
    for name, value in _named(report).items():
        writer.add_scalar(name, value, step)
    writer.add_text(f"{PREFIX}report", report.to_markdown(), step)
    writer.flush()


def _named(report: NotebookReport) -> dict[str, float]:
    return {PREFIX + name: value for name, value in tracked_figures(report).items()}


@contextmanager
def _pages(report: NotebookReport, written: Path | None) -> Iterator[Path]:
    """The folder that holds the report's pages; a temporary one where they were not written yet."""
    if written is not None:
        yield written
        return
    with tempfile.TemporaryDirectory() as folder:
        save_pages(report, Path(folder))
        yield Path(folder)


def save_pages(report: NotebookReport, folder: Path) -> None:
    """Write `report.html`, `report.md` and `report.json` into the folder. Raises
    TraceAnalyzerError."""
    for suffix in ("html", "md", "json"):
        report.save(folder / f"report.{suffix}")
