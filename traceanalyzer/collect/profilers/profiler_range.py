"""Switches a profiler on and off around the chosen steps, and marks each: NVIDIA's from inside
(`collect nsys`, `ncu`), AMD's (`collect rocprofv3`) and JAX's (`collect jax`)."""

import atexit
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.host import cuda, environment
from traceanalyzer.collect.host.files import write_json
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.profilers.jax_trace import JaxProfiler
from traceanalyzer.collect.profilers.operator_names import OperatorNames
from traceanalyzer.collect.steps.step_clock import StepClock


class CudaProfiler:
    """`cudaProfilerStart` and `cudaProfilerStop`, which nsys and ncu wait for; steps are ranges of
    NVTX, and where the plan says so PyTorch's operators and modules."""

    def __init__(self, plan: CapturePlan, unit: Callable[[], str] = lambda: "step") -> None:
        self._plan = plan
        self._unit = unit
        self._names = OperatorNames(plan) if plan.operators else None
        self._opened = 0

    def start(self) -> None:
        """Switch on. Raises RuntimeError in a program that does not use CUDA."""
        if not cuda.in_use():
            raise RuntimeError(
                "the script does not use CUDA, there is nothing to capture (--whole-run "
                "captures all)"
            )
        import torch

        if self._names is not None:
            self._names.begin()
        cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()

    def stop(self) -> None:
        """Switch off."""
        import torch

        cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        if self._names is not None:
            self._names.end()

    def forked(self) -> None:
        """This process is a fork: what it has of the capture ends."""
        if self._names is not None:
            self._names.forked()

    def push(self, number: int) -> None:
        """A step begins. It may do so inside of a range of PyTorch's that ends before it: where
        there are such, it is none of their stack."""
        from torch.cuda import nvtx

        # where all is recorded, calls of modules have another name than steps of a later training
        unit = self._unit() if self._plan.recorder == "rocprofv3" else "step"
        name = f"{unit} {number}"
        if self._names is None:
            nvtx.range_push(name)
        else:
            self._opened = nvtx.range_start(name)

    def pop(self) -> None:
        """It has ended."""
        from torch.cuda import nvtx

        if self._names is None:
            nvtx.range_pop()
        else:
            nvtx.range_end(self._opened)


class ProfilerRange:
    """Wait, time without capture, then on, `warmup + active` steps, off.

    `again`: calls of modules were captured before, and now the program trains. What is known of
    those is then kept until as many steps of this capture are there."""

    def __init__(
        self,
        plan: CapturePlan,
        on_phase: Callable[[str], None],
        unit: Callable[[], str],
        again: bool = False,
    ) -> None:
        self._plan = plan
        self._on_phase = on_phase
        self._unit = unit
        self._again = again
        jax = JaxProfiler(plan) if plan.recorder == "jax" else None
        self._switch: CudaProfiler | JaxProfiler = jax or CudaProfiler(plan, unit)
        clock = StepClock(
            plan.unprofiled_steps, plan.unprofiled_most, drain=jax.drain if jax else None
        )
        self._clock = clock if plan.unprofiled_steps else None
        self._measured: dict[str, Any] | None = None
        self._allocator_calls: dict[str, int] = {}
        self._step = self._capture_from = 0
        self._timing = self._now = self._range_open = self.finished = False

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
            self._switch.pop()
            if self._is_whole():
                self.close()
            else:
                self._switch.push(self._step)
        elif self._step < self._plan.wait and not self._now:
            return
        elif self._clock is None:
            self._start()
        elif not self._timing:
            self._timing = True
            self._allocator_calls = cuda.allocator_calls()
            self._clock.start()
        elif self._clock.lap():
            called = cuda.calls_since(self._allocator_calls)
            about = {"unit": self._unit(), "after_profiler": False}
            about |= {"allocator": called} if called else {}
            self._measured = self._clock.measured() | about
            self._clock = None
            self._start()

    def _is_whole(self) -> bool:
        return self._step - self._capture_from >= self._plan.warmup + self._plan.active

    def _describe(self) -> None:
        """Write what belongs to the capture beside it."""
        environment.write_environment(self._plan)
        if self._measured is not None:
            write_json(own_file(self._plan.path, "unprofiled", ".json"), self._measured)

    def record_now(self) -> None:
        """Capture from the next step on."""
        self._clock = None
        self._now = True
        self.finished = False

    def close(self) -> None:
        """Switch the capture off."""
        self.finished = True
        if self._range_open:
            self._range_open = False
            self._switch.stop()
            atexit.unregister(self.close)
            if self._again and self._is_whole():
                self._describe()
            self._on_phase("recorded")

    def discard(self) -> None:
        """End; what nsys has captured stays its own."""
        self.close()

    def abandon(self) -> None:
        """Forget the capture, which is another process's."""
        self.finished = True
        if self._range_open and isinstance(self._switch, CudaProfiler):
            self._switch.forked()
        self._range_open = False
        atexit.unregister(self.close)

    def _start(self) -> None:
        if not self._again:
            self._describe()
        self._switch.start()
        self._on_phase("recording")
        self._range_open = True
        self._capture_from = self._step
        atexit.register(self.close)
        self._switch.push(self._step)
