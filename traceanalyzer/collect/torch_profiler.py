"""Records torch.profiler for chosen steps, after timing some steps without it.

    with record("capture", active=4) as recording:
        for batch in loader:
            train_step(batch)
            recording.step()

Every capture so carries its own truth: `unprofiled.rank{N}.json` beside `trace.rank{N}.json.gz`.
"""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from traceanalyzer.collect import cuda, environment
from traceanalyzer.collect.export import write_json, write_trace
from traceanalyzer.collect.memory_history import MemoryHistory
from traceanalyzer.collect.plan import ACTIVE, UNPROFILED_STEPS, WAIT, WARMUP, Plan
from traceanalyzer.collect.ranks import current_rank, own_file
from traceanalyzer.collect.rescue import Rescue
from traceanalyzer.collect.step_clock import StepClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")

DRAIN_SECONDS = 5.0
"""How long a recording that is cut short waits for the device. A collective whose peer died never ends."""


class TorchRecording:
    """Phases of one process: wait, time without the profiler, record, and again. `step` ends a step."""

    def __init__(self, plan: Plan, on_phase: Callable[[str], None] = lambda phase: None) -> None:
        self._plan = plan
        self._on_phase = on_phase
        self._clock: StepClock | None = None
        self._profiler: Any = None
        self._rescue = Rescue(self.close)
        self._deadline = float("inf")
        self._cut_short = False
        self._files: list[Path] = []
        self._part = 0
        self._timed = plan.unprofiled_steps == 0
        self._left = plan.wait
        self._phase: Callable[[], None] = self._wait
        self._history: MemoryHistory | None = None
        if plan.memory_snapshot:
            self._history = MemoryHistory(lambda: self._own("memory", ".pickle"))
            self._history.begin()
        if plan.on_signal:
            self._phase = self._idle
        elif plan.wait == 0:
            self._begin()

    @property
    def finished(self) -> bool:
        """Whether nothing more will be recorded."""
        return self._phase == self._idle

    @property
    def waiting(self) -> bool:
        """Whether the end of the next step is only counted."""
        return self._left > 1 and self._phase == self._wait

    def step(self) -> None:
        """A step has ended."""
        self._phase()

    def record_now(self) -> None:
        """Record at the next step, whatever has been recorded before."""
        if self._profiler is None:
            self._phase = self._begin

    def close(self) -> None:
        """End a recording in progress, keeping the steps it has. Safe to call at any time, and twice."""
        self._cut_short = True
        self._end()

    def _end(self) -> None:
        self._phase = self._idle
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        try:
            _stop(profiler)
        finally:
            self._rescue.disarm()

    def discard(self) -> None:
        """End and take back what was written: these were not the steps that the script is about."""
        self.close()
        for file in self._files:
            file.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Forget a recording without touching the profiler: this process is a fork of the one that records."""
        self._phase = self._idle
        self._profiler = None
        self._rescue.disarm()

    def _write(self, profiler: Any) -> None:
        unfinished = f"ProfilerStep#{profiler.step_num}" if self._cut_short else None
        write_trace(profiler, self._own("trace", ".json.gz"), unfinished)
        if self._history is not None and cuda.in_use():
            self._history.write(self._own("memory", ".pickle"))

    def _own(self, stem: str, suffix: str) -> Path:
        file = own_file(self._plan.path, stem, suffix, max(self._part, 1))
        self._files.append(file)
        return file

    def _idle(self) -> None:
        """Nothing to do."""

    def _wait(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._begin()

    def _begin(self) -> None:
        if self._timed:
            self._record()
            return
        self._on_phase("timing")
        if self._history is not None:
            self._history.pause()
        self._clock = StepClock(self._plan.unprofiled_steps)
        self._clock.start()
        self._phase = self._time

    def _time(self) -> None:
        if self._clock is None or not self._clock.lap():
            return
        write_json(self._own("unprofiled", ".json"), self._clock.measured())
        self._clock, self._timed = None, True
        self._record()

    def _record(self) -> None:
        self._on_phase("recording")
        environment.write(self._plan)
        self._part += 1
        self._left = self._plan.warmup + self._plan.active
        if self._history is not None:
            self._history.begin()
        profiler = _profiler(self._plan, self._write)
        if self._plan.time_limit is not None:
            self._deadline = time.monotonic() + self._plan.time_limit
        profiler.start()
        self._profiler = profiler
        self._phase = self._profile
        self._rescue.arm()

    def _profile(self) -> None:
        self._left -= 1
        if self._left > 0 and time.monotonic() < self._deadline:
            self._profiler.step()
            return
        self._end()
        self._on_phase("recorded")
        if self._part < self._plan.repeat:
            self._left = self._plan.wait
            self._phase = self._wait


def _profiler(plan: Plan, write: Callable[[Any], None]) -> Any:
    """A torch.profiler that calls `write` when it has been stopped."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    return profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=plan.warmup, active=plan.active, repeat=1),
        on_trace_ready=write,
        record_shapes=plan.shapes,
        with_stack=plan.stacks,
        profile_memory=plan.memory,
        with_modules=plan.modules,
        experimental_config=_experimental_config(),
    )


def _experimental_config() -> Any:
    """Switch on what the analysis uses and this PyTorch has: CUDA sync events (2.1), no Python event tree (2.11)."""
    from torch._C._profiler import _ExperimentalConfig

    for wanted in ({"enable_cuda_sync_events": True, "trace_only": True}, {"enable_cuda_sync_events": True}):
        try:
            return _ExperimentalConfig(**wanted)
        except TypeError:
            continue
    return None


def _stop(profiler: Any) -> None:
    """Stop the profiler; where the device hangs, without the wait for it that torch does first."""
    import torch

    _close_step(profiler)
    if cuda.wait_at_most(DRAIN_SECONDS):
        profiler.stop()
        return
    waiting = torch.cuda.synchronize
    torch.cuda.synchronize = lambda device=None: None
    try:
        profiler.stop()
    finally:
        torch.cuda.synchronize = waiting


def _close_step(profiler: Any) -> None:
    """End the last `ProfilerStep` now, so that waiting for the device and stopping are not part of the step."""
    annotation = getattr(profiler, "step_rec_fn", None)
    if annotation is not None:
        profiler.step_rec_fn = None
        annotation.__exit__(None, None, None)


@contextmanager
def record(
    folder: str | Path,
    *,
    wait: int = WAIT,
    warmup: int = WARMUP,
    active: int = ACTIVE,
    repeat: int = 1,
    shapes: bool = True,
    stacks: bool = False,
    memory: bool = False,
    modules: bool = False,
    time_limit: float | None = None,
    unprofiled_steps: int = UNPROFILED_STEPS,
) -> Iterator[TorchRecording]:
    """Record into a capture directory; call `.step()` at the end of each step.

    The first `wait` steps are left out, `unprofiled_steps` are timed without the profiler, `warmup` are profiled
    and thrown away, `active` are kept; `repeat` cycles. `time_limit` (seconds) ends a recording at the next step.
    Raises FileExistsError if the folder holds a capture of this rank.
    """
    recording = _begin(
        folder,
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        shapes=shapes,
        stacks=stacks,
        memory=memory,
        modules=modules,
        time_limit=time_limit,
        unprofiled_steps=unprofiled_steps,
    )
    try:
        yield recording
    finally:
        recording.close()


def record_calls(folder: str | Path, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a step function: each call is a step. Options as for `record`.

    What is being recorded when the script ends is kept.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        begin = functools.cache(lambda: _begin(folder, **options))

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            recording = begin()
            result = function(*args, **kwargs)
            recording.step()
            return result

        return call

    return decorate


def _begin(folder: str | Path, **options: Any) -> TorchRecording:
    plan = Plan(folder=str(folder), **options)
    if list(plan.path.glob(f"trace.rank{current_rank()}.*")):
        raise FileExistsError(f"{folder} holds a capture already: give another folder")
    plan.path.mkdir(parents=True, exist_ok=True)
    return TorchRecording(plan)
