"""The callbacks in the real trainers: a training of a small model on the CPU is recorded, read and
logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("wandb")
pytest.importorskip("transformers")

PLAN: dict[str, Any] = {"wait": 1, "unprofiled_steps": 2, "warmup": 1, "active": 2}
STEPS = 16


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}


def rows() -> list[dict[str, torch.Tensor]]:
    return [{"x": torch.rand(8), "labels": torch.rand(1)} for _ in range(2 * STEPS)]


def train(folder: Path, callback: Any, report_to: Any = "none", **options: Any) -> None:
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=2,
        report_to=report_to,
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        **options,
    )
    Trainer(model=Model(), args=args, train_dataset=rows(), callbacks=[callback]).train()


def test_hugging_face(tmp_path: Path) -> None:
    from traceanalyzer.integrations.huggingface import RecordCallback

    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    callback = RecordCallback(**PLAN)
    train(tmp_path, callback, "tensorboard")
    capture = tmp_path / "traceanalyzer"
    assert {"report.html", "report.md", "report.json", "trace.rank0.json.gz"} <= {
        f.name for f in capture.iterdir()
    }
    assert callback.report is not None
    assert callback.report.inputs[0].kind == "kineto"
    [events] = {
        file.parent for file in tmp_path.rglob("events.out.tfevents.*")
    }  # the Trainer's own folder
    kept = EventAccumulator(str(events))
    kept.Reload()
    assert "traceanalyzer/report/text_summary" in kept.Tags()["tensors"]
    assert "train/train_loss" in kept.Tags()["scalars"]


def test_hugging_face_with_mlflow_whose_run_ends_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traceanalyzer.integrations.huggingface import RecordCallback

    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    train(tmp_path, RecordCallback(**PLAN), "mlflow")
    [run] = mlflow.MlflowClient(tracking_uri=(tmp_path / "runs").as_uri()).search_runs(["0"])
    assert "traceanalyzer/verdict" in run.data.tags


def test_an_error_of_ours_does_not_end_the_training(tmp_path: Path) -> None:
    from traceanalyzer.integrations.huggingface import RecordCallback

    (tmp_path / "file").write_text("no folder")
    with pytest.warns(UserWarning, match="traceanalyzer: no report of this run"):
        train(tmp_path, RecordCallback(tmp_path / "file" / "capture", **PLAN))


def test_a_training_that_is_too_short_says_so(tmp_path: Path) -> None:
    from traceanalyzer.integrations.huggingface import RecordCallback

    with pytest.warns(UserWarning, match="ended before the steps that were to be recorded"):
        train(tmp_path, RecordCallback(wait=1000))


def lightning_training(folder: Path, callback: Any, **options: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = lightning.Trainer(
        default_root_dir=str(folder),
        max_epochs=1,
        accelerator="cpu",
        callbacks=[callback],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **options,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(rows(), batch_size=2))


def test_lightning_with_its_loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from traceanalyzer.integrations.lightning import RecordCallback

    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    store = (tmp_path / "runs").as_uri()
    board = loggers.TensorBoardLogger(tmp_path / "board")
    tracked = loggers.MLFlowLogger(tracking_uri=store)
    wandb = loggers.WandbLogger(save_dir=str(tmp_path), offline=True)
    callback = RecordCallback(**PLAN)
    lightning_training(tmp_path, callback, logger=[board, tracked, wandb])
    assert callback.report is not None
    assert (tmp_path / "traceanalyzer" / "report.html").exists()
    kept = EventAccumulator(board.log_dir)
    kept.Reload()
    assert "traceanalyzer/report/text_summary" in kept.Tags()["tensors"]
    run = mlflow.MlflowClient(tracking_uri=store).get_run(tracked.run_id)
    assert "traceanalyzer/verdict" in run.data.tags
    assert "traceanalyzer/verdict" in dict(wandb.experiment.summary)
    wandb.experiment.finish()


def test_a_step_is_one_of_the_optimizer(tmp_path: Path) -> None:
    from traceanalyzer.integrations.lightning import RecordCallback

    callback = RecordCallback(**PLAN, log=False)
    lightning_training(tmp_path, callback, logger=False, accumulate_grad_batches=2)
    assert callback._recorder is not None
    assert callback._steps == STEPS // 2
