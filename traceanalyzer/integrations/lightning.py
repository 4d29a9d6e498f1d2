"""Records a run of Lightning's Trainer, and puts the report into its loggers.

from traceanalyzer.integrations.lightning import RecordCallback

Trainer(..., callbacks=[RecordCallback()])
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.integrations import trackers
from traceanalyzer.integrations.recorder import TrainingRecorder

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""Lightning under its two names; the program's own is the one that is loaded."""
_name = next((name for name in PACKAGES if name in sys.modules), PACKAGES[0])
Callback: Any = importlib.import_module(_name).Callback


class RecordCallback(Callback):  # type: ignore[misc]  # whose class is only known when it runs
    """Records some steps of a training into `folder` (`traceanalyzer` below the trainer's root by default) and writes
    `report.html`, `.md` and `.json` there.

    A step is one of the optimizer. The key figures and the report go to the trainer's loggers for Weights & Biases,
    MLflow and TensorBoard, unless `log` is False. `options` are those of `traceanalyzer.collect.torch_profiler.record`
    (`wait`, `active`, `stacks`, `memory`, ...). An error of ours is a warning and does not end the training.
    """

    def __init__(self, folder: str | Path | None = None, *, log: bool = True, **options: Any) -> None:
        super().__init__()
        self._folder, self._wanted, self._options = folder, log, options
        self._recorder: TrainingRecorder | None = None
        self._steps = 0

    @property
    def report(self) -> NotebookReport | None:
        """The report, once the recording has been read; on rank 0."""
        return self._recorder.report if self._recorder else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record."""
        folder = self._folder or Path(trainer.default_root_dir) / "traceanalyzer"
        self._recorder = TrainingRecorder(
            folder, lambda report, pages: self._log(trainer, report, pages), **self._options
        )
        self._recorder.begin()
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A batch has ended: a step, where the optimizer has made one."""
        if self._recorder is not None and trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self._recorder.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep what was recorded, and log its report."""
        if self._recorder is not None:
            self._recorder.end()

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
