"""Key figures in the real trackers, offline, read back by their own means."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.recorded import ROOT
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.integrations import trackers


@pytest.fixture(scope="module")
def report() -> ta.NotebookReport:
    return ta.analyze(ROOT / "sample_traces/sync_bound")


def test_the_figures_are_those_of_the_report(report: ta.NotebookReport) -> None:
    figures = trackers.tracked_figures(report)
    assert figures["step_ms"] == report.summary.step_ms
    parts = [
        figures[f"{name}_ms"]
        for name in ("compute", "exposed_communication", "exposed_copy", "idle")
    ]
    assert sum(parts) == pytest.approx(figures["step_ms"], rel=1e-3)
    idle = [
        value
        for name, value in figures.items()
        if name.startswith("idle_") and name.endswith("_ms") and name != "idle_ms"
    ]
    assert sum(idle) == pytest.approx(figures["idle_ms"], rel=1e-3)
    assert figures["idle_share"] == pytest.approx(figures["idle_ms"] / figures["step_ms"])
    assert figures["best_step_ms"] == report.recommendations[0].predicted_step_ms


def test_what_a_log_of_step_times_cannot_tell_is_left_out() -> None:
    figures = trackers.tracked_figures(ta.analyze(ROOT / "sample_traces/timing_irregular"))
    assert figures["recorded_step_ms"] > 0
    assert "compute_ms" not in figures
    assert "mfu" not in figures


def test_wandb(report: ta.NotebookReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(TraceAnalyzerError, match=r"wandb\.init"):
        trackers.log_to_wandb(report)
    with wandb.init(project="test", dir=str(tmp_path)) as run:
        trackers.log_to_wandb(report)
        summary = dict(run.summary)
        assert run.step == 0  # no step was added to the history
    assert summary["traceanalyzer/step_ms"] == report.summary.step_ms
    assert summary["traceanalyzer/verdict"].startswith("sync")
    assert list(tmp_path.rglob("*.wandb"))


def test_mlflow(report: ta.NotebookReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with pytest.raises(TraceAnalyzerError, match=r"start_run"):
        trackers.log_to_mlflow(report)
    with mlflow.start_run() as run:
        pass
    trackers.log_to_mlflow(report, run.info.run_id)  # also after its end
    kept = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert kept.metrics["traceanalyzer/step_ms"] == report.summary.step_ms
    assert kept.tags["traceanalyzer/verdict"].startswith("sync")
    pages = {
        Path(one.path).name
        for one in mlflow.MlflowClient().list_artifacts(run.info.run_id, "traceanalyzer")
    }
    assert pages == {"report.html", "report.md", "report.json"}


def test_tensorboard(report: ta.NotebookReport, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        trackers.log_to_tensorboard(report, writer, step=7)
    kept = EventAccumulator(str(tmp_path))
    kept.Reload()
    [scalar] = kept.Scalars("traceanalyzer/step_ms")
    assert (scalar.step, scalar.value) == (7, pytest.approx(report.summary.step_ms))
    [text] = kept.Tensors("traceanalyzer/report/text_summary")
    assert b"## Recommendations" in text.tensor_proto.string_val[0]
