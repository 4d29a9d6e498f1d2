"""Marks the chosen steps for NVIDIA's profilers (`collect nsys`, `ncu`): switches them on and off, a range a step."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from traceanalyzer.collect.host import cuda, environment
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.host.rescue import write_json
from traceanalyzer.collect.steps.step_clock import StepClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.collect.plan import Plan


class ProfilerRange:
    """Wait, time without capture, then `cudaProfilerStart`, `warmup + active` steps, `cudaProfilerStop`."""

    def __init__(
        self,
        plan: Plan,
        on_phase: Callable[[str], None] = lambda phase: None,
        unit: Callable[[], str] = lambda: "call of step()",
    ) -> None:
        self._plan = plan
        self._on_phase = on_phase
        self._unit = unit
        self._clock = StepClock(plan.unprofiled_steps, plan.unprofiled_most) if plan.unprofiled_steps else None
        self._step = 0
        self._timing = False
        self._now = False
        self._capture_from = 0
        self._range_open = False
        self.finished = False

    @property
    def waiting(self) -> bool:
        """Whether the end of the next step is only counted."""
        return not self._now and self._step + 1 < self._plan.wait

    def step(self) -> None:
        """A step has ended."""
        self._step += 1
        if self.finished:
            return
        if self._range_open:
            self._next_range()
        elif self._step < self._plan.wait and not self._now:
            return
        elif self._clock is None:
            self._start()
        elif not self._timing:
            self._timing = True
            self._clock.start()
        elif self._clock.lap():
            about = {"unit": self._unit(), "after_profiler": False}
            write_json(own_file(self._plan.path, "unprofiled", ".json"), self._clock.measured() | about)
            self._clock = None
            self._start()

    def record_now(self) -> None:
        """Capture from the next step on."""
        self._clock, self._now, self.finished = None, True, False

    def close(self) -> None:
        """Switch the capture off."""
        self.finished = True
        if self._range_open:
            self._range_open = False
            self._switch(on=False)
            atexit.unregister(self.close)
            self._on_phase("recorded")

    def discard(self) -> None:
        """End; what nsys has captured stays its own."""
        self.close()

    def abandon(self) -> None:
        """Forget the capture, which is another process's."""
        self.finished, self._range_open = True, False
        atexit.unregister(self.close)

    def _start(self) -> None:
        if not cuda.in_use():
            raise RuntimeError("the script does not use CUDA, there is nothing to capture (--whole-run captures all)")
        self._on_phase("recording")
        environment.write(self._plan)
        self._range_open = True
        self._capture_from = self._step
        atexit.register(self.close)
        self._switch(on=True)
        self._push()

    def _next_range(self) -> None:
        import torch

        torch.cuda.nvtx.range_pop()
        if self._step - self._capture_from >= self._plan.warmup + self._plan.active:
            self.close()
        else:
            self._push()

    def _push(self) -> None:
        import torch

        torch.cuda.nvtx.range_push(f"step {self._step}")

    def _switch(self, *, on: bool) -> None:
        import torch

        cuda.synchronize()
        runtime = torch.cuda.cudart()
        runtime.cudaProfilerStart() if on else runtime.cudaProfilerStop()
