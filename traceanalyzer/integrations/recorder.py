"""What the callbacks share: a training is recorded by plan, read in a process of its own, put into
its trackers.

Nothing that fails here ends the training: it is one warning, and nothing more is recorded."""

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.host.ranks import current_rank
from traceanalyzer.collect.torch_profiler import begin_recording
from traceanalyzer.collect.torch_recording import TorchRecording
from traceanalyzer.comparison.notebook import NotebookReport, shown
from traceanalyzer.report.read import report_from_json

P = ParamSpec("P")
ANALYZE = """
import sys, pathlib
import traceanalyzer as ta
from traceanalyzer.integrations.trackers import save_pages
save_pages(ta.analyze(sys.argv[1]), pathlib.Path(sys.argv[1]))
"""
"""Run in a process of its own: the training keeps its memory, and is not forked."""
PATIENCE_S = 300  # how long the end of a training waits for its report


def _harmless(method: Callable[P, None]) -> Callable[P, None]:
    """The method of a recorder; an error in it is a warning, and the recorder does nothing from
    then on."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        recorder: Any = args[0]
        if recorder.failed:
            return
        try:
            method(*args, **kwargs)
        except Exception as error:  # whatever it is, it is not the training's
            recorder.failed = True
            warnings.warn(f"traceanalyzer: no report of this run ({error})", stacklevel=3)

    return call


class TrainingRecorder:
    """A recording of one training run: `begin`, `step` after each step, `end`; `log` gets the
    report on rank 0. `options` are those of `traceanalyzer.collect.torch_profiler.record`."""

    def __init__(
        self, folder: str | Path, log: Callable[[NotebookReport, Path], None], **options: Any
    ) -> None:
        self.folder = Path(folder)
        self.failed = False
        self.report: NotebookReport | None = None
        self._log = log
        self._options = options
        self._recording: TorchRecording | None = None
        self._reading: subprocess.Popen[bytes] | None = None

    @_harmless
    def begin(self) -> None:
        """The first step is about to begin."""
        if self._recording is None:
            self._recording = begin_recording(self.folder, **self._options)

    @_harmless
    def step(self) -> None:
        """A step has ended. When the last one to be recorded has, the recording is read beside the
        training."""
        if self._recording is None or self._reading is not None:
            self._note_report()
        elif self._recording.finished:  # one step later: by now the other ranks have written theirs
            self._read()
        else:
            self._recording.step()

    @_harmless
    def end(self) -> None:
        """The training ends: what was recorded so far is kept, and the report is waited for."""
        if self._recording is None:
            return
        self._recording.close()
        if self._reading is None:
            self._read()
        if self._reading is not None:
            self._reading.wait(PATIENCE_S)
            self._note_report()
        elif current_rank() == 0:
            raise TraceAnalyzerError(
                "it ended before the steps that were to be recorded; see `wait` and `active`"
            )

    def _read(self) -> None:
        if current_rank() == 0 and any(self.folder.glob("trace.rank*")):
            command = [sys.executable, "-c", ANALYZE, str(self.folder)]
            self._reading = subprocess.Popen(  # noqa: S603
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )

    def _note_report(self) -> None:
        """Hand the report on as soon as it is there."""
        reading = self._reading
        if reading is None or self.report is not None or reading.poll() is None:
            return
        if reading.returncode:
            _, errors = reading.communicate()
            raise TraceAnalyzerError(errors.decode(errors="replace").strip().rpartition("\n")[2])
        self.report = shown(report_from_json((self.folder / "report.json").read_bytes()))
        self._log(self.report, self.folder)


class TrainerRecording:
    """What callbacks of trainers have in common."""

    _recorder: TrainingRecorder | None = None

    def __init__(
        self, folder: str | Path | None = None, *, log: bool = True, **options: Any
    ) -> None:
        super().__init__()
        self._folder = folder
        self._wanted = log
        self._options = options

    @property
    def report(self) -> NotebookReport | None:
        """The report, once the recording has been read; on rank 0."""
        return self._recorder.report if self._recorder else None

    def _begin(self, root: str | Path, log: Callable[[NotebookReport, Path], None]) -> None:
        self._recorder = TrainingRecorder(
            self._folder or Path(root) / "traceanalyzer", log, **self._options
        )
        self._recorder.begin()

    def _end(self) -> None:
        if self._recorder is not None:
            self._recorder.end()
