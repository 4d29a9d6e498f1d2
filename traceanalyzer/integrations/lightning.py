"""Records a run of Lightning's Trainer, the report into its loggers: `Trainer(...,
callbacks=[RecordCallback()])`."""

import importlib
import sys
from pathlib import Path
from typing import Any

from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.integrations import trackers
from traceanalyzer.integrations.recorder import TrainerRecording

# Lightning under its two names; the program's own is the one that is loaded.
_name = next(
    (name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules),
    "lightning.pytorch",
)
Callback: Any = importlib.import_module(_name).Callback


class RecordCallback(TrainerRecording, Callback):  # type: ignore[misc]  # whose class is only known when it runs
    """Records some steps of a training into `folder` (`traceanalyzer` below the trainer's root by
    default) and writes `report.html`, `.md` and `.json` there.

    A step is one of the optimizer. The key figures and the report go to the trainer's loggers for
    Weights & Biases, MLflow and TensorBoard, unless `log` is False. `options` are those of
    `traceanalyzer.collect.torch_profiler.record` (`wait`, `active`, `stacks`, `memory`, ...). An
    error of ours is a warning and does not end the training."""

    _steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record."""
        self._begin(
            trainer.default_root_dir, lambda report, pages: self._log(trainer, report, pages)
        )
        self._steps = trainer.global_step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A batch has ended: a step, where the optimizer has made one."""
        if self._recorder is not None and trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self._recorder.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep what was recorded, and log its report."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training failed: what was recorded is kept."""
        self.on_train_end(trainer, pl_module)

    def _log(self, trainer: Any, report: NotebookReport, pages: Path) -> None:
        for logger in trainer.loggers if self._wanted else ():
            name = type(logger).__name__
            if name == "WandbLogger":
                trackers.log_to_wandb(report, logger.experiment, files=pages)
            elif name == "MLFlowLogger":
                trackers.log_to_mlflow(report, logger.run_id, files=pages, client=logger.experiment)
            elif name == "TensorBoardLogger":
                trackers.log_to_tensorboard(report, logger.experiment, trainer.global_step)
