"""Records a run of the Hugging Face Trainer, and puts the report where the Trainer logs:
`Trainer(..., callbacks=[RecordCallback()])`."""

import os
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.integrations import trackers
from traceanalyzer.integrations.recorder import TrainerRecording


class RecordCallback(TrainerRecording, TrainerCallback):  # type: ignore[misc]  # checked without transformers
    """Records some steps of a training into `folder` (below `output_dir` by default) and writes
    `report.html`, `.md` and `.json` there.

    A step is one of the optimizer. The key figures and the report go to Weights & Biases, MLflow
    and TensorBoard where `report_to` names them, unless `log` is False. `options` are those of
    `traceanalyzer.collect.torch_profiler.record` (`wait`, `active`, `stacks`, `memory`, ...). An
    error of ours is a warning and does not end the training."""

    _mlflow_run: str | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        self._begin(args.output_dir, lambda report, pages: self._log(args, state, report, pages))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step of the optimizer has ended."""
        if self._recorder is None:
            return
        if self._mlflow_run is None and "mlflow" in args.report_to:
            active = sys.modules[
                "mlflow"
            ].active_run()  # its own callback ends the run before ours is called
            self._mlflow_run = active.info.run_id if active else None
        self._recorder.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep what was recorded, and log its report."""
        self._end()

    def _log(self, args: Any, state: Any, report: NotebookReport, pages: Path) -> None:
        if not self._wanted:
            return
        if "wandb" in args.report_to:
            trackers.log_to_wandb(report, files=pages)
        if "mlflow" in args.report_to:
            trackers.log_to_mlflow(report, self._mlflow_run, files=pages)
        if "tensorboard" in args.report_to:
            from torch.utils.tensorboard import SummaryWriter

            # Where this process's own TensorBoard callback writes: the folder of its newest events
            # file.
            root = Path(os.environ.get("TENSORBOARD_LOGGING_DIR") or args.output_dir).expanduser()
            files = root.rglob(f"events.out.tfevents.*.{os.getpid()}.*")
            newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
            with SummaryWriter(str(newest.parent if newest else root / "traceanalyzer")) as writer:
                trackers.log_to_tensorboard(report, writer, state.global_step)
