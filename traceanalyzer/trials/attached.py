"""One run of the program, from inside: puts the switches on, finds the steps, times them, keeps
what they computed, and ends the process when enough is known.

Nothing here may end the program in another way than it would have ended: what fails is a line in
the run's result."""

import atexit
import importlib
import os
import random
import resource
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.host.files import write_json
from traceanalyzer.collect.host.ranks import current_rank, several_ranks
from traceanalyzer.collect.on_import import on_import
from traceanalyzer.collect.steps.outer_calls import OuterCalls
from traceanalyzer.collect.steps.period import CallMark
from traceanalyzer.collect.steps.step_clock import StepClock
from traceanalyzer.collect.steps.step_finder import StepFinder
from traceanalyzer.collect.steps.step_function import FunctionCalls
from traceanalyzer.trials.apply.nudge import Nudge
from traceanalyzer.trials.request import COMPARED_STEPS, Request
from traceanalyzer.trials.seen.facts import facts_of_process
from traceanalyzer.trials.seen.fingerprint import Fingerprint, buffers_of, weights_of
from traceanalyzer.trials.seen.loading import LoadingClock
from traceanalyzer.trials.seen.optimizer_calls import OptimizerCalls
from traceanalyzer.trials.seen.probe import Probe, has_parameters

KNOWN_SHARE = 0.02  # half width of the median's interval, to which a step is timed
PARTING_SECONDS = 0.3
"""Other ranks may still read what this one sent; they end at the same step."""
APPLY = "traceanalyzer.trials.apply"


class AttachedTrial:
    """The run that `request` asks for, in this process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._probe = Probe()
        self._weights = Fingerprint(weights_of)
        self._buffers = Fingerprint(buffers_of)
        self._optimizers = OptimizerCalls()
        self._loading = LoadingClock()
        self._nudge = Nudge(request.nudge)
        self._clock: StepClock | None = None
        self._steps = 0
        self._loss_counts: list[int] = []
        self._trouble: list[str] = []
        self._over = False
        self._has_redrawn = False
        self._outputs = OuterCalls(self._model_entered, self._model_left, self._failed)
        self._finder: FunctionCalls | StepFinder
        if request.step_on:
            self._finder = FunctionCalls(request.step_on, self._step)
        else:
            self._finder = StepFinder(self._step, self._start_over, lambda: None, self._failed)

    def begin(self) -> None:
        """PyTorch has been imported."""
        _seed(self._request.seed)
        self._put_on()
        self._probe.install()
        self._optimizers.install()
        self._loading.install()
        self._outputs.install()
        self._finder.install()
        atexit.register(self._ended)
        os.register_at_fork(after_in_child=self._leave)

    def _put_on(self) -> None:
        """Put the switches on. A run without one of them would be another trial: it ends here."""
        request = self._request
        if request.as_eager:
            inductor: Any = importlib.import_module("torch._inductor.config")
            inductor.fallback_random = True
        for name in request.switches:
            try:
                put_on(request.functions.get(name, ""), request.values.get(name, True))
            except Exception:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    def _model_entered(self, module: Any) -> None:
        if has_parameters(module):
            self._nudge.begin(module)
            if self._request.redrawn:
                self._redraw()
            self._weights.begin(module)
            self._buffers.begin(module)
            self._probe.expect_output(module)

    def _redraw(self) -> None:
        """Once, when weights are there: batches of the host stay those of the program."""
        if not self._has_redrawn:
            self._has_redrawn = True
            draw_from(self._request.seed + 1)

    def _model_left(self, call: CallMark, module: Any) -> None:
        self._probe.forget_hook()

    def _step(self) -> None:
        if self._over:
            return
        self._steps += 1
        self._loss_counts.append(len(self._probe.losses))
        self._probe.keeps_values = self._steps < COMPARED_STEPS
        checked = self._request.checked_steps
        if self._steps in (1, checked):
            self._take_fingerprints()
        if self._clock is not None:
            if self._clock.lap():
                self._finish()
        elif self._steps >= checked:
            self._outputs.remove()
            self._optimizers.remove()
            self._begin_timing()

    def _take_fingerprints(self) -> None:
        self._weights.take(self._steps)
        self._buffers.take(self._steps)

    def _begin_timing(self) -> None:
        request = self._request
        if cuda.in_use():
            sys.modules["torch"].cuda.reset_peak_memory_stats()
        # ranks stop at the same step
        exactly = several_ranks() or request.most_steps <= request.timed_steps
        self._clock = StepClock(
            request.timed_steps,
            request.timed_steps if exactly else request.most_steps,
            exactly=exactly,
            tight_share=KNOWN_SHARE,
            least_seconds=request.least_seconds,
            seconds=request.most_seconds,
        )
        self._clock.start()
        self._loading.start()

    def _finish(self) -> None:
        if self._steps <= COMPARED_STEPS:
            self._take_fingerprints()
        self._write(finished=True)
        self._leave()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        if several_ranks():
            time.sleep(PARTING_SECONDS)
        os._exit(0)

    def _ended(self) -> None:
        """The program ends by itself, before enough steps were timed."""
        if not self._over and threading.current_thread() is threading.main_thread():
            with suppress(Exception):
                self._write(finished=False)

    def _write(self, *, finished: bool) -> None:
        loading = self._loading.measured(self._steps - self._request.checked_steps)
        measured = None
        if self._clock is not None:
            with suppress(Exception):
                measured = self._clock.measured() if finished else self._clock.measured_so_far()
        gradients, rates = self._optimizers.read()
        value = {
            "rank": current_rank(),
            "whole": finished,
            "steps": self._steps,
            "timed": measured,
            "losses": self._probe.read_losses(self._loss_counts),
            "norms": self._probe.read_norms(),
            "outputs": self._probe.read_outputs(),
            "weights": self._weights.read(),
            "buffers": self._buffers.read(),
            "gradients": gradients,
            "rates": rates,
            "peak_bytes": _peak_bytes(),
            "unit": self._finder.unit,
            "facts": facts_of_process(self._probe, self._steps, loading),
            "trouble": self._trouble,
        }
        # a launcher is a process, too, of no rank and no steps
        name = f"result.rank{current_rank()}.{os.getpid()}.json"
        write_json(self._request.path / name, value)

    def _start_over(self) -> None:
        """What had been taken for steps were none."""
        self._steps = 0
        self._loss_counts.clear()
        self._probe.keeps_values = True
        self._clock = None

    def _failed(self, error: Exception) -> None:
        self._trouble.append(f"{type(error).__name__}: {error}")

    def _leave(self) -> None:
        self._over = True
        self._finder.remove()
        self._outputs.remove()
        atexit.unregister(self._ended)


def put_on(where: str, value: Any) -> None:
    """Put a switch on in this process; one that is a variable alone has no function."""
    if not where:
        return
    module, _, function = where.rpartition(":" if ":" in where else ".")
    prefix = "" if ":" in where else f"{APPLY}."
    getattr(importlib.import_module(prefix + module), function)(value)


def draw_from(seed: int) -> None:
    """Seed the generator that a model draws from: that of its GPU, or the host's."""
    torch = sys.modules["torch"]
    if cuda.in_use():
        torch.cuda.manual_seed_all(seed)
    else:
        torch.manual_seed(seed)


def _seed(seed: int) -> None:
    """Begin each run with one seed; a program that seeds itself does so afterwards."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def _peak_bytes() -> int:
    """Most bytes that tensors took on the device in the timed steps; without one, most memory that
    the process had."""
    if cuda.in_use():
        return int(sys.modules["torch"].cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attach_on_import() -> None:
    """Attach this process as its environment says, as soon as it has imported torch."""
    request = Request.from_environment()
    if request is not None:
        on_import("torch", lambda: AttachedTrial(request).begin())
