"""Finds where a script's steps end, without a change to the script.

A training step ends with the optimizer's step. A script without optimizer steps (inference) is
stepped by its outermost module, the one called while no other module runs, and one that only
replays CUDA graphs by these."""

import time
import weakref
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.steps.outer_calls import GraphReplays, OuterCalls
from traceanalyzer.collect.steps.period import CallMark, CallPeriod

PATIENCE = 16
"""Calls with gradients on for which an optimizer step is awaited: gradient accumulation is rarely
over 16."""
PATIENCE_SECONDS = 2.0
"""Besides, in training mode: a loop of cells calls its module hundreds of times a step."""
STRANGERS = 50
"""Steps of other optimizers, none of the first one's, after which the first one is taken to be
gone."""


class OptimizerSteps:
    """Ends of the steps of one optimizer. Others (a GAN's second, one a parameter) step along with
    it."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self._leader: weakref.ref[Any] | None = None
        self._leaders_name = "an optimizer"
        self._strangers = 0
        self._handle: Any = None

    @property
    def unit(self) -> str:
        """What ends a step: the optimizer's class."""
        return f"step of {self._leaders_name}"

    def install(self) -> None:
        """Register torch's hook for all optimizers."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handle = register_optimizer_step_post_hook(self._stepped)

    def remove(self) -> None:
        """Remove the hook."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        # a compiled optimizer traces this hook: it must end here without breaking the graph
        if torch.compiler.is_compiling():
            return
        leader = self._leader() if self._leader else None
        if leader is not optimizer:
            self._strangers += 1
            if leader is not None and self._strangers < STRANGERS:
                return
            self._leader = weakref.ref(optimizer)
            self._leaders_name = type(optimizer).__name__
        self._strangers = 0
        self._on_step()


class ModuleCalls:
    """Ends of the iterations of a script without an optimizer: calls of outermost modules, replays
    of graphs, or several of them where they repeat together."""

    def __init__(
        self,
        on_step: Callable[[], None],
        on_enter: Callable[[], None],
        on_period: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._on_step = on_step
        self._on_period = on_period
        self._period = CallPeriod()
        self._settled = False
        self._calls = OuterCalls(lambda module: on_enter(), self._ended, on_error)
        self._replays = GraphReplays(self._ended, lambda: self._calls.inside)
        self._with_gradients = 0
        self._patient_until = float("inf")

    @property
    def unit(self) -> str:
        """What ends a step: the class of the module, or of all that an iteration calls."""
        names = ", ".join(self._period.names) or "the outermost module"
        calls = self._period.calls
        return f"call of {names}" if calls == 1 else f"{calls} calls of {names}"

    def install(self) -> None:
        """Wait for the next outermost call."""
        self._calls.install()
        self._replays.install()

    def remove(self) -> None:
        """Remove whichever hook is there."""
        self._calls.remove()
        self._replays.remove()

    def _ended(self, call: CallMark, module: Any) -> None:
        ended = self._period.ended(call)
        if self._period.calls > 1 and not self._settled:
            self._settled = True
            # what was counted until now were parts of steps
            self._on_period()
        elif ended and not self._may_be_training(module):
            self._on_step()

    def _may_be_training(self, module: Any) -> bool:
        """Whether the call may be a part of a training step that has not ended yet."""
        import torch

        if module is None or not torch.is_grad_enabled():
            return False
        if self._with_gradients == 0:
            self._patient_until = time.monotonic() + PATIENCE_SECONDS
        self._with_gradients += 1
        training = vars(module).get("training") is True
        patient = training and time.monotonic() < self._patient_until
        return self._with_gradients <= PATIENCE or patient


class StepFinder:
    """Optimizer steps, and until the first of them module calls.

    `on_restart` is called when what had been taken for steps were none: an evaluation before
    training, or parts of an iteration; `on_enter` when a call of an outermost module begins;
    `on_error` where something of ours fails inside the script's call."""

    def __init__(
        self,
        on_step: Callable[[], None],
        on_restart: Callable[[], None],
        on_enter: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._on_step = on_step
        self._on_restart = on_restart
        self._optimizer = OptimizerSteps(self._optimizer_stepped)
        self._modules: ModuleCalls | None = ModuleCalls(on_step, on_enter, on_restart, on_error)

    @property
    def unit(self) -> str:
        """What ends a step."""
        return (self._modules or self._optimizer).unit

    def install(self) -> None:
        """Start looking."""
        self._optimizer.install()
        if self._modules is not None:
            self._modules.install()

    def rest(self) -> None:
        """Cost nothing from now on, but notice a training that begins after what was taken for
        inference."""
        (self._modules or self._optimizer).remove()

    def remove(self) -> None:
        """Stop looking; the script then runs as if nothing had been there."""
        self._optimizer.remove()
        if self._modules is not None:
            self._modules.remove()

    def _optimizer_stepped(self) -> None:
        if self._modules is not None:
            self._modules.remove()
            self._modules = None
            self._on_restart()
        self._on_step()
