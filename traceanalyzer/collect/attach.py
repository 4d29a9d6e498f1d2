"""Ties a recorder to the steps of the script in this process, once the script has imported torch
(or JAX).

Nothing here may change what the script does: a failure of ours is reported and ends the recording,
no more."""

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.collect.host import cuda, forks, progress
from traceanalyzer.collect.on_import import on_import
from traceanalyzer.collect.plan import CapturePlan

if TYPE_CHECKING:
    from traceanalyzer.collect.profilers.jax_trace import JaxSteps
    from traceanalyzer.collect.profilers.profiler_range import ProfilerRange
    from traceanalyzer.collect.steps.step_finder import StepFinder
    from traceanalyzer.collect.steps.step_function import FunctionCalls
    from traceanalyzer.collect.steps.step_series import StepSeriesFile
    from traceanalyzer.collect.torch_recording import TorchRecording

    Finder = FunctionCalls | JaxSteps | StepFinder
    Recorder = ProfilerRange | StepSeriesFile | TorchRecording

FIRST_STEPS = 10  # steps of a process that are timed one by one, by the host's clock


class Attached:
    """A recorder and a step finder at work in this process."""

    def __init__(self, plan: CapturePlan) -> None:
        self._plan = plan
        self._steps = 0
        self._ends: list[int] = []
        self._phase = "attached"
        self._notes: list[str] = []
        self._captured = False  # whether steps were recorded that were none of a training
        self._finder: Finder
        if plan.step_on:
            from traceanalyzer.collect.steps.step_function import FunctionCalls

            self._finder = FunctionCalls(plan.step_on, self._step, self._entered)
        elif plan.recorder == "jax":
            from traceanalyzer.collect.profilers.jax_trace import JaxSteps

            self._finder = JaxSteps(self._step, self._begin_now, lambda: self._recorder.close())
        else:
            from traceanalyzer.collect.steps.step_finder import StepFinder

            self._finder = StepFinder(self._step, self._start_over, self._entered, self._fail)
        self._recorder = self._new_recorder()

    def begin(self) -> None:
        """Start looking for steps, or where the recording waits for a signal, for that."""
        if not self._plan.on_signal:
            self._look()
        atexit.register(self._report)
        forks.in_each_child(self._forked)
        main = threading.current_thread() is threading.main_thread()
        # without the option it is the script's: libraries look whether somebody has it
        if self._plan.on_signal and main and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, self._asked)
        self._report()

    def _step(self) -> None:
        try:
            self._count_step()
        except Exception as error:
            self._fail(error)
        if self._recorder.finished:
            self._finder.rest()
            if self._plan.leave:
                self._leave_program()

    def _leave_program(self) -> None:
        """The program runs for the recording alone, and ends with it."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(0)

    def _count_step(self) -> None:
        # what is called while a CUDA graph is captured runs later; to ask costs microseconds
        if not self._recorder.waiting and cuda.capturing():
            return
        self._steps += 1
        if 0 < len(self._ends) <= min(self._plan.wait, FIRST_STEPS):
            self._ends.append(time.perf_counter_ns())
        self._recorder.step()

    def _entered(self) -> None:
        """The first step begins; what began before a training that follows an evaluation is not
        known."""
        if self._steps or self._ends:
            return
        self._ends.append(time.perf_counter_ns())
        if self._plan.first:
            try:
                self._recorder.record_now()
                self._recorder.step()
            except Exception as error:
                self._fail(error)

    def _first_steps_ms(self) -> list[float]:
        """How long each first step took on the host; empty where they are recorded, or their
        beginning was not seen."""
        if self._plan.first:
            return []
        return [(end - begin) / NS_PER_MS for begin, end in pairwise(self._ends)]

    def _start_over(self) -> None:
        if not self._steps:
            return
        self._ends.clear()
        self._captured |= self._phase in ("recording", "recorded")
        with suppress(OSError):  # a file that is gone already
            self._recorder.discard()
        self._recorder = self._new_recorder()
        if self._plan.on_signal:
            self._recorder.record_now()
        self._steps = 0
        self._enter("attached")

    def _begin_now(self) -> None:
        self._recorder.record_now()
        self._step()

    def _new_recorder(self) -> "Recorder":
        plan = self._plan

        def unit() -> str:
            return self._finder.unit

        if plan.recorder == "timing":
            from traceanalyzer.collect.steps.step_series import StepSeriesFile

            return StepSeriesFile(plan, self._enter)
        if plan.recorder in ("nsys", "ncu", "rocprofv3", "jax"):
            from traceanalyzer.collect.profilers.profiler_range import ProfilerRange

            return ProfilerRange(plan, self._enter, unit, self._captured)
        from traceanalyzer.collect.torch_recording import TorchRecording

        return TorchRecording(plan, self._enter, self._note, unit, self._first_steps_ms)

    def _note(self, note: str) -> None:
        self._notes.append(note)
        self._report()

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._report()

    def _report(self) -> None:
        with suppress(OSError):
            progress.report(self._plan.path, self._phase, self._steps, self._notes)

    def _fail(self, error: Exception) -> None:
        self._finder.remove()
        with suppress(Exception):
            self._recorder.close()
        self._enter(f"failed: {type(error).__name__}: {error}")

    def _asked(self, number: int, frame: Any) -> None:
        self._finder.remove()
        self._recorder.record_now()
        self._look()

    def _look(self) -> None:
        try:
            self._finder.install()
        except Exception as error:
            self._fail(error)

    def _forked(self) -> None:
        self._finder.remove()
        self._recorder.abandon()
        atexit.unregister(self._report)


def attach_on_import() -> None:
    """Attach this process as its environment says, as soon as it has imported torch, or JAX where
    that is recorded."""
    plan = CapturePlan.from_environment()
    if plan is not None:
        on_import(plan.library, lambda: Attached(plan).begin())
