"""Finds where a script's steps end, without a change to the script.

A training step ends with the optimizer's step. A script without optimizer steps (inference) is
stepped by its outermost module: the one called while no other module runs."""

import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

REPEATS = 3
"""Calls after which a module is taken for the outermost one of every step: set-up calls come once
or twice."""
PATIENCE = 16
"""Calls with gradients on for which an optimizer step is awaited: gradient accumulation is rarely
over 16."""
PATIENCE_SECONDS = 2.0
"""Besides, in training mode: a loop of cells calls its module hundreds of times a step."""
STRANGERS = 50
"""Steps of other optimizers, none of the first one's, after which the first one is taken to be
gone."""
COMPILE_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"


class OptimizerSteps:
    """Ends of the steps of one optimizer. Others (a GAN's second, one a parameter) step along with
    it."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self._leader: weakref.ref[Any] | None = None
        self._strangers = 0
        self._handle: Any = None

    @property
    def unit(self) -> str:
        """What ends a step: the optimizer's class."""
        leader = self._leader() if self._leader else None
        return f"step of {type(leader).__name__}"

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
        self._strangers = 0
        self._on_step()


class ModuleCalls:
    """Ends of the calls of the outermost module.

    A global hook on all modules would slow each of them. This one is only there between two
    outermost calls: the first module to meet it takes it away, and gets a hook of its own until its
    call has ended."""

    def __init__(self, on_step: Callable[[], None], on_enter: Callable[[], None]) -> None:
        self._on_step = on_step
        self._on_enter = on_enter
        self._handle: Any = None
        self._calls: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._settled, self._with_gradients, self._patient_until = False, 0, float("inf")
        self.unit = "call of the outermost module"  # what ends a step: the module's class

    def install(self) -> None:
        """Wait for the next outermost call."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        self._settled = False
        # our hook is gone before the compiled module could call it a second time
        warnings.filterwarnings("ignore", message=COMPILE_WARNING)
        self._handle = register_module_forward_pre_hook(self._entered)

    def remove(self) -> None:
        """Remove whichever hook is there."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _entered(self, module: Any, args: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        self.remove()
        try:
            self._handle = module.register_forward_hook(self._left, always_call=True)
        except RuntimeError:  # a scripted module takes none of its own
            self._handle = torch.nn.modules.module.register_module_forward_hook(
                lambda called, args, output: (
                    self._left(called, args, output) if called is module else None
                )
            )
        self._on_enter()

    def _left(self, module: Any, args: Any, output: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        if (
            not self._settled
        ):  # another outermost module is looked for, until this one has been it often enough
            self._calls[module] = self._calls.get(module, 0) + 1
            if self._calls[module] < REPEATS:
                self.remove()
                self.install()
            else:
                self._settled = True
            self.unit = f"call of {type(module).__name__}"
        if torch.is_grad_enabled():  # it may be a part of a training step that has not ended yet
            if self._with_gradients == 0:
                self._patient_until = time.monotonic() + PATIENCE_SECONDS
            self._with_gradients += 1
            if self._with_gradients <= PATIENCE or (
                module.training and time.monotonic() < self._patient_until
            ):
                return
        self._on_step()


class StepFinder:
    """Optimizer steps, and until the first of them module calls.

    `on_training` is called when module calls had been taken for steps (an evaluation before
    training) and the first optimizer step shows that they were not, `on_enter` when a call of an
    outermost module begins, until it is known."""

    def __init__(
        self,
        on_step: Callable[[], None],
        on_training: Callable[[], None],
        on_enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_step = on_step
        self._on_training = on_training
        self._optimizer = OptimizerSteps(self._optimizer_stepped)
        self._modules: ModuleCalls | None = ModuleCalls(on_step, on_enter)

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
            self._on_training()
        self._on_step()
