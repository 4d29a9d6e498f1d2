"""Records a JAX program (`collect jax`) with JAX's own profiler, and knows its steps.

A step ends with the program's `jax.profiler.StepTraceAnnotation`, or with a call of the function of
`--step-on`. A program without either is recorded for `SECONDS` once nothing has been compiled for
`QUIET_S`. The profiler is switched by the thread that runs the steps: switched by another while the
GPU works, it ends the program (JAX 0.11, CUDA 13)."""

import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.plan import CapturePlan

QUIET_S = 5.0  # without a compilation for so long, a program is taken to be in its loop
SECONDS = 1.0  # how long a program without steps is recorded
COMPILED = "/jax/core/compile/backend_compile_duration"
"""What jax.monitoring calls the end of a compilation."""
UNIT = "jax.profiler.StepTraceAnnotation"


class JaxProfiler:
    """Switches JAX's profiler on and off; marks the steps where the program does not."""

    def __init__(self, plan: CapturePlan) -> None:
        self._plan = plan
        self._marks = plan.step_on is not None
        self._step: Any = None

    @property
    def _folder(self) -> str:
        return str(self._plan.path / f".jax.{os.getpid()}")

    def drain(self) -> None:
        """Wait for the device: what is computed last on it comes after all else."""
        import jax

        jax.block_until_ready(jax.numpy.zeros(()) + 1)

    def start(self) -> None:
        """Switch on. Python's own functions are left out: to record them slows the host."""
        import jax

        self.drain()
        options: dict[str, Any] = {}
        with suppress(AttributeError):  # JAX before 0.7 has no options
            options["profiler_options"] = jax.profiler.ProfileOptions()
            options["profiler_options"].python_tracer_level = 0
        jax.profiler.start_trace(self._folder, **options)

    def stop(self) -> None:
        """Switch off; of what JAX wrote, the `.xplane.pb` alone stays."""
        import jax

        try:
            self.drain()
            jax.profiler.stop_trace()
            for file in self._plan.path.glob(f".jax.{os.getpid()}/plugins/profile/*/*.xplane.pb"):
                file.replace(own_file(self._plan.path, "trace", ".xplane.pb"))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def push(self, number: int) -> None:
        """A step begins."""
        if self._marks:
            import jax

            self._step = jax.profiler.StepTraceAnnotation("step", step_num=number)
            self._step.__enter__()

    def pop(self) -> None:
        """The step has ended."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None


class JaxSteps:
    """Ends of the program's own step annotations; in a program without any, two calls: `begin` and
    `end`."""

    unit = UNIT  # what ends a step

    def __init__(
        self, on_step: Callable[[], None], begin: Callable[[], None], end: Callable[[], None]
    ) -> None:
        self._on_step = on_step
        self._begin = begin
        self._end = end
        self._stepped = threading.Event()
        self._compiled_at: float | None = None
        self._in_main = True
        self._exit: Any = None
        self._pending: list[Any] = []

    def install(self) -> None:
        """Look for annotations, and for the end of compilation."""
        import jax
        from jax import monitoring

        annotation = jax.profiler.StepTraceAnnotation
        own = vars(jax.profiler.StepTraceAnnotation).get("__exit__")
        leave = annotation.__exit__

        def ended(this: Any, *raised: Any) -> Any:
            try:
                return leave(this, *raised)
            finally:
                self._stepped.set()
                if self._exit is not None:
                    self._on_step()

        self._exit = (annotation, own)
        annotation.__exit__ = ended
        monitoring.register_event_duration_secs_listener(self._compiled)
        threading.Thread(target=self._await_quiet, daemon=True).start()

    def remove(self) -> None:
        """Stop looking: give the annotation its own method back."""
        if self._exit is not None:
            (annotation, own) = self._exit
            self._exit = None
            if own is None:
                del annotation.__exit__
            else:
                annotation.__exit__ = own
        self._stepped.set()

    rest = remove

    def _compiled(self, event: str, *_: Any, **__: Any) -> None:
        if event == COMPILED:
            self._compiled_at = time.monotonic()
            self._in_main &= threading.current_thread() is threading.main_thread()

    def _await_quiet(self) -> None:
        """The thread's work: it ends as soon as a step is seen."""
        while not self._stepped.wait(QUIET_S / 10):
            if self._compiled_at is not None and time.monotonic() - self._compiled_at > QUIET_S:
                if self._in_main:
                    self._from_main(self._begin)
                    time.sleep(SECONDS)
                    self._from_main(self._end)
                return

    def _from_main(self, call: Callable[[], None]) -> None:
        """Have the main thread call it between two of its own instructions."""

        def pending(_: Any) -> int:
            with suppress(Exception):
                call()
            return 0

        self._pending.append(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(pending))
        ctypes.pythonapi.Py_AddPendingCall(self._pending[-1], None)
