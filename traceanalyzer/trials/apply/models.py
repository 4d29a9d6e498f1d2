"""Switches of the model: number format, memory layout, compilation."""

import functools
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.steps.outer_calls import OuterCalls
from traceanalyzer.trials.apply.wrap import before_first_call, raise_error

IMAGE = 4  # dimensions of a batch of images


def compiled(value: Any) -> None:
    """The outermost modules run through torch.compile, with these options."""

    def prepare(module: Any) -> None:
        import torch

        # the object stays what it was: its call is PyTorch's, its forward the compiled one
        module.forward = torch.compile(module.forward, **value)

    before_first_call(prepare)


def channels_last(_: Any) -> None:
    """Weights and images of convolutions lie with their channels last."""

    def prepare(module: Any) -> None:
        import torch

        module.to(memory_format=torch.channels_last)
        torch.nn.Module.register_forward_pre_hook(module, _with_channels_last)

    before_first_call(prepare)


def _with_channels_last(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(
        value.contiguous(memory_format=torch.channels_last)
        if isinstance(value, torch.Tensor) and value.dim() == IMAGE
        else value
        for value in args
    )


def autocast(value: Any) -> None:
    """Forward and loss run in bf16 or fp16 where that is safe, backward as they did, the optimizer
    as before. Casts of weights are kept until a backward has used them."""
    import torch

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, value)

    def switch(on: bool) -> None:
        torch.set_autocast_enabled(kind, on)
        torch.clear_autocast_cache()

    torch.set_autocast_dtype(kind, dtype)
    torch.set_autocast_cache_enabled(True)
    switch(True)
    _on_where_it_was_left_off(kind, dtype)
    _off_in_backward(switch)
    _off_in_steps(switch)


def _on_where_it_was_left_off(kind: str, dtype: Any) -> None:
    """A program that can run either way has a context that is off around its modules, `enabled=
    False`: it is on now. Those within a module stay off: they keep in fp32 what needs it."""
    from torch.amp.autocast_mode import autocast as context

    calls = OuterCalls(lambda module: None, lambda call, module: None, raise_error)
    calls.install()
    enter = context.__enter__

    @functools.wraps(enter)
    def entered(this: Any) -> Any:
        if calls.inside or this._enabled or this.device != kind:
            return enter(this)
        before = this._enabled, this.fast_dtype
        this._enabled, this.fast_dtype = True, dtype
        try:
            return enter(this)
        finally:
            this._enabled, this.fast_dtype = before

    context.__enter__ = entered


def _off_in_backward(switch: Callable[[bool], None]) -> None:
    import torch

    backward = torch.autograd.backward

    @functools.wraps(backward)
    def without(*args: Any, **kwargs: Any) -> Any:
        switch(False)
        try:
            return backward(*args, **kwargs)
        finally:
            switch(True)

    torch.autograd.backward = without


def _off_in_steps(switch: Callable[[bool], None]) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    register_optimizer_step_pre_hook(lambda *_: switch(False))
    register_optimizer_step_post_hook(lambda *_: switch(True))
