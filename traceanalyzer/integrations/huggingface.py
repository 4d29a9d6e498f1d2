"""Records a run of the Hugging Face Trainer, and puts the report where the Trainer logs.

from traceanalyzer.integrations.huggingface import RecordCallback

Trainer(..., callbacks=[RecordCallback()])
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.integrations import trackers
from traceanalyzer.integrations.recorder import TrainingRecorder

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class RecordCallback(TrainerCallback):  # type: ignore[misc]  # checked without transformers
    """Records some steps of a training into `folder` (below `output_dir` by default) and writes
    `report.html`, `.md` and `.json` there.

    A step is one of the optimizer. The key figures and the report go to Weights & Biases, MLflow and TensorBoard where
    `report_to` names them, unless `log` is False. `options` are those of `traceanalyzer.collect.torch_profiler.record`
    (`wait`, `active`, `stacks`, `memory`, ...). An error of ours is a warning and does not end the training.
    """

    def __init__(self, folder: str | Path | None = None, *, log: bool = True, **options: Any) -> None:
        self._folder, self._wanted, self._options = folder, log, options
        self._recorder: TrainingRecorder | None = None
        self._mlflow_run: str | None = None

    @property
    def report(self) -> NotebookReport | None:
        """The report, once the recording has been read; on rank 0."""
        return self._recorder.report if self._recorder else None

    def on_train_begin(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Begin to record."""
        folder = self._folder or Path(args.output_dir) / "traceanalyzer"
        self._recorder = TrainingRecorder(
            folder, lambda report, pages: self._log(args, state, report, pages), **self._options
        )
        self._recorder.begin()

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """A step of the optimizer has ended."""
        if self._recorder is None:
            return
        if self._mlflow_run is None and "mlflow" in args.report_to:
            active = sys.modules["mlflow"].active_run()  # its own callback ends the run before ours is called
            self._mlflow_run = active.info.run_id if active else None
        self._recorder.step()

    def on_train_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Keep what was recorded, and log its report."""
        if self._recorder is not None:
            self._recorder.end()

    def _log(self, args: "TrainingArguments", state: "TrainerState", report: NotebookReport, pages: Path) -> None:
        if not self._wanted:
            return
        if "wandb" in args.report_to:
            trackers.log_to_wandb(report, files=pages)
        if "mlflow" in args.report_to:
            trackers.log_to_mlflow(report, self._mlflow_run, files=pages)
        if "tensorboard" in args.report_to:
            from torch.utils.tensorboard import SummaryWriter

            with SummaryWriter(str(_events_folder(args.output_dir))) as writer:
                trackers.log_to_tensorboard(report, writer, state.global_step)


def _events_folder(output_dir: str) -> Path:
    """Where this process's TensorBoard callback writes: the folder of its newest events file."""
    root = Path(os.environ.get("TENSORBOARD_LOGGING_DIR") or output_dir).expanduser()
    files = root.rglob(f"events.out.tfevents.*.{os.getpid()}.*")
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    return newest.parent if newest else root / "traceanalyzer"
