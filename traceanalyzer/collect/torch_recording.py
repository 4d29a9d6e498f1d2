"""A recording in one process, step by step: steps are timed without torch.profiler, recorded
lightly, then fully."""

import json
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.collect.eager import EAGER_WARMUP, Eager
from traceanalyzer.collect.host import cuda, environment
from traceanalyzer.collect.host.bounds import bounds_of, return_memory
from traceanalyzer.collect.host.files import write_json, write_trace
from traceanalyzer.collect.host.ranks import own_file, several_ranks
from traceanalyzer.collect.host.rescue import Rescue
from traceanalyzer.collect.module_names import ModuleNames
from traceanalyzer.collect.plan import LIGHT_WARMUP, UNSTEADY_SECONDS, CapturePlan
from traceanalyzer.collect.profilers.memory_history import MemoryHistory
from traceanalyzer.collect.profilers.other_profilers import (
    WATCH,
    ScriptProfilesError,
    end_without_destructors,
)
from traceanalyzer.collect.profilers.session import (
    ProfilerSession,
    full_profiler,
    light_profiler,
    teardown_is_safe,
)
from traceanalyzer.collect.steps.step_clock import StepClock
from traceanalyzer.collect.steps.units import DataTime

LIGHT = "traceanalyzer_light"
"""Key of a light recording's head: the times at which its steps ended, ns since the epoch."""
UNIT = "traceanalyzer_step"  # key of a recording's head: what ends a step
ATTEMPTS = 3
"""Recordings that a profiler of the script's may end before they hold a step; then we stay out."""
STEPS_REMEMBERED = 5  # the longest of the last ones bounds a recording: the first ones compile
STAYS_OUT = "the script runs a profiler of its own: nothing is recorded while that is on"
ENDED_EARLY = "the script began a profiler of its own: the recording ended there"


def _warn(note: str) -> None:
    warnings.warn(f"traceanalyzer: {note}", stacklevel=2)


class TorchRecording:
    """Phases of one process: wait, time without the profiler, record lightly, record, and again.
    `step` ends a step.

    The script's own profilers come first: while one is on nothing of ours runs, and ours ends when
    one begins."""

    def __init__(
        self,
        plan: CapturePlan,
        on_phase: Callable[[str], None] = lambda phase: None,
        on_note: Callable[[str], None] = _warn,
        unit: Callable[[], str] = lambda: "call of step()",
        first_steps_ms: Callable[[], list[float]] = list,
    ) -> None:
        self._plan = plan
        self._unit = unit
        self._first_steps_ms = first_steps_ms
        self._on_phase = on_phase
        self._on_note = on_note
        self._eager = Eager()
        self._modules = ModuleNames()
        self._rescue = Rescue(self.close, self._cut)
        self._measured: dict[str, Any] = {}
        self._clock: StepClock | None = None
        self._data = DataTime()
        self._allocator_calls: dict[str, int] = {}
        self._session: ProfilerSession | None = None
        self._cut_short = self._stepping = False
        self._deadline_s = float("inf")
        self._step_ended_s: float | None = None
        self._last_steps_s: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._files: list[Path] = []
        self._notes: list[str] = []
        self._lock = threading.RLock()
        self._part = self._attempts = self._kept = 0
        self._marks: list[int] = []
        self._timed = plan.unprofiled_steps == 0
        self._lightly = plan.light_steps == 0
        self._left = 1 if plan.first else plan.wait
        self._phase: Callable[[], None] = self._wait
        WATCH.install()
        self._history: MemoryHistory | None = None
        if plan.memory_snapshot:
            self._history = MemoryHistory(lambda: self._own("memory", ".pickle"))
            self._history.begin()
        if plan.on_signal:
            self._phase = self._idle
        elif plan.wait == 0 and not plan.first and not WATCH.busy():
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
        with self._lock:
            self._stepping = True
            try:
                if self._session is None:
                    self._step_unrecorded()
                else:
                    self._step_recorded(self._session)
            finally:
                self._stepping = False

    def _step_unrecorded(self) -> None:
        now = time.monotonic()
        if self._step_ended_s is not None:
            self._last_steps_s.append(now - self._step_ended_s)
        self._step_ended_s = now
        if not self.waiting and not self.finished:
            if not WATCH.on and WATCH.give_way is not None:
                WATCH.give_way()
            # a profiler of the script's is on: what was being timed beside it is timed again
            if WATCH.busy():
                self._note(STAYS_OUT)
                self._eager.end()
                self._clock = None
                self._data.remove()
                self._phase = self._begin
                return
        self._phase()

    def _step_recorded(self, session: ProfilerSession) -> None:
        if session.mine:
            if session.asked:
                self._end_early(ENDED_EARLY)
            else:
                self._phase()
        elif session.orphaned:
            self._lose("the thread that was recorded has ended: its recording is lost")

    def record_now(self) -> None:
        """Record at the next step, whatever has been recorded before."""
        if self._session is None:
            self._phase = self._begin

    def close(self) -> None:
        """End a recording in progress, keeping the steps it has. Safe to call at any time, and
        twice."""
        self._cut_short = True
        self._eager.end()
        self._keep_timing()
        self._end()

    def _keep_timing(self) -> None:
        """Write what was timed of steps that ended before there were enough."""
        if self._clock is None or self._timed or self._phase != self._time:
            return
        measured = self._clock.measured_so_far()
        self._clock = None
        self._data.remove()
        if measured is not None:
            write_json(self._own("unprofiled", ".json"), self._about(measured))

    def discard(self) -> None:
        """End and take back what was written: these were not the steps that the script is about."""
        self.close()
        for file in self._files:
            file.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Forget a recording without touching the profiler: this process is a fork of the one that
        records."""
        self._phase = self._idle
        self._data.remove()
        self._leave(forked=True)
        if WATCH.ours_seen:
            end_without_destructors()

    def _give_way(self) -> None:
        """The script begins a profiler of its own, which would end ours."""
        session = self._session
        if session is None:
            return
        if session.mine:
            with self._lock:
                self._end_early(ENDED_EARLY)
        elif not session.ask():
            with self._lock:
                self._lose("another thread of the script began a profiler: the recording is lost")

    def _cut(self, passed: str) -> None:
        """A bound is passed, between two steps or in another thread than the recorded one."""
        session = self._session
        if session is None or self._stepping or WATCH.inside_ours():
            return
        if session.mine:
            with self._lock:
                self._end_early(f"the recording was ended before its last step: {passed}")
        else:
            session.asked = True

    def _end_early(self, why: str) -> None:
        has_a_step = self._lightly and self._left < self._plan.active
        self._note(why)
        self._cut_short = True
        self._end()
        self._on_phase("recorded") if has_a_step else self._try_again()

    def _lose(self, note: str) -> None:
        self._note(note)
        self._leave()
        self._try_again()

    def _leave(self, *, forked: bool = False) -> None:
        session = self._session
        self._session = None
        self._modules.remove()
        if session is not None:
            session.leave(forked=forked)
        self._rescue.disarm(forked=forked)

    def _try_again(self) -> None:
        """Take back what has no whole step, and begin again at a step when no profiler is on."""
        for path in self._files[self._kept :]:
            path.unlink(missing_ok=True)
        del self._files[self._kept :]
        self._part -= self._lightly
        self._cut_short = False
        self._attempts += 1
        self._phase = self._begin if self._attempts < ATTEMPTS else self._idle
        self._on_phase("attached")

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)
            self._on_note(note)

    def _end(self, *, last: bool = False) -> None:
        self._phase = self._idle
        session = self._session
        self._session = None
        if session is None:
            return
        self._modules.remove()
        try:
            if session.mine:
                session.stop(last=last)
            else:
                self._note(
                    "the recorded thread never ended its recording, which only that "
                    "thread can: it is lost"
                )
                session.leave()
        finally:
            self._rescue.disarm()
            return_memory()

    def _write(self, profiler: Any) -> None:
        unfinished = f"ProfilerStep#{profiler.step_num}" if self._cut_short else None
        write_trace(profiler, self._own("trace", ".json.gz"), unfinished)
        if self._history is not None and cuda.in_use():
            self._history.write(self._own("memory", ".pickle"))

    def _write_light(self, profiler: Any) -> None:
        if not self._cut_short:
            write_trace(profiler, self._own("light", ".json.gz"))

    def _own(self, stem: str, suffix: str) -> Path:
        self._files.append(own_file(self._plan.path, stem, suffix, max(self._part, 1)))
        return self._files[-1]

    def _idle(self) -> None:
        """Nothing to do."""

    def _wait(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._begin()

    def _begin(self) -> None:
        # a training in an exit handler: nothing would end what begins now
        if not threading.main_thread().is_alive():
            self._phase = self._idle
        elif self._plan.first and not self._part:
            self._record()
        elif not self._timed:
            self._begin_timing()
        elif self._plan.first:
            self._phase = self._idle
            self._on_phase("recorded")
        elif not self._lightly and cuda.in_use():
            self._on_phase("recording")
            self._left = LIGHT_WARMUP + self._plan.light_steps
            self._marks = []
            self._start(light_profiler(self._plan, self._write_light), self._record_light_step)
        else:
            self._lightly = True
            self._record()

    def _begin_timing(self) -> None:
        self._on_phase("timing")
        if self._history is not None:
            self._history.pause()
        steps = self._plan.unprofiled_steps
        # they stop at the same step, or they would record different ones, not to be compared
        if several_ranks():
            self._clock = StepClock(max(steps // 2, 1), steps, exactly=True)
        else:
            self._clock = StepClock(steps, self._plan.unprofiled_most, seconds=UNSTEADY_SECONDS)
        self._data.install()
        self._allocator_calls = cuda.allocator_calls()
        self._clock.start()
        self._phase = self._time

    def _time(self) -> None:
        if self._clock is None or not self._clock.lap():
            return
        self._measured = self._about(self._clock.measured())
        self._clock = None
        self._data.remove()
        self._left = EAGER_WARMUP
        if self._plan.eager_steps and self._eager.begin():
            self._phase = self._time_eager
        else:
            self._end_timing()

    def _about(self, measured: dict[str, Any]) -> dict[str, Any]:
        """What was timed, with what it was timed of."""
        slowed = WATCH.seen and not (self._plan.first and teardown_is_safe())
        about = {"unit": self._unit(), "after_profiler": slowed}
        called = cuda.calls_since(self._allocator_calls)
        waited_ns, _ = self._data.take()
        if self._data.batches:
            about["loader_wait_ms"] = waited_ns / NS_PER_MS / measured["timed_steps"]
        more = {
            "from_first": self._plan.first,
            "first_steps_ms": self._first_steps_ms(),
            "allocator": called,
        }
        return measured | about | {name: each for name, each in more.items() if each}

    def _time_eager(self) -> None:
        """Steps without torch.compile, after the first ones, which load kernels that compiled code
        does without."""
        self._left -= 1
        if self._left == 0:
            self._clock = StepClock(self._plan.eager_steps, exactly=True)
            self._clock.start()
        elif self._clock is not None and self._clock.lap():
            self._eager.end()
            timed = self._clock.measured()
            self._measured |= {
                f"eager_{name}": timed[name] for name in ("low_ms", "high_ms", "steady")
            }
            self._measured["eager_step_ms"] = timed["step_time_ms"]
            self._clock = None
            self._end_timing()

    def _end_timing(self) -> None:
        write_json(self._own("unprofiled", ".json"), self._measured)
        self._timed = True
        self._begin()

    def _record_light_step(self) -> None:
        self._left -= 1
        if self._left > 0 and self._session is not None:
            self._session.step()
        if self._left <= self._plan.light_steps:
            self._marks.append(time.time_ns())
        if self._left > 0 or self._session is None:
            return
        self._session.say(LIGHT, json.dumps({"step_ends_ns": self._marks}))
        self._end()
        self._lightly = True
        self._record()

    def _record(self) -> None:
        self._on_phase("recording")
        environment.write_environment(self._plan)
        self._part += 1
        self._left = self._plan.warmup + self._plan.active
        if self._history is not None:
            self._history.begin()
        self._start(full_profiler(self._plan, self._write), self._profile)
        if self._plan.modules and not self._plan.stacks and self._session is not None:
            self._modules.install()

    def _start(self, profiler: Any, phase: Callable[[], None]) -> None:
        self._kept = len(self._files)
        try:
            self._session = ProfilerSession(profiler, self._give_way, self.close)
        except ScriptProfilesError:
            self._note(STAYS_OUT)
            self._part -= self._lightly
            self._phase = self._begin
            return
        self._session.say(UNIT, json.dumps(self._unit()))
        self._phase = phase
        longest_s = max(self._last_steps_s, default=None)
        bounds = bounds_of(self._left, longest_s, self._plan.time_limit)
        self._deadline_s = bounds.deadline_s
        self._rescue.arm(bounds)

    def _profile(self) -> None:
        self._left -= 1
        in_time = time.monotonic() < self._deadline_s
        if self._left > 0 and in_time and self._session is not None:
            self._session.step()
            return
        self._end(last=self._part >= self._plan.repeat)
        self._on_phase("recorded")
        if self._part < self._plan.repeat or not self._timed:
            self._left, self._phase = self._plan.wait, self._wait
