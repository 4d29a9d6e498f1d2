"""Switches of optimizers."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from traceanalyzer.trials.apply.wrap import change_arguments


def fused(_: Any) -> None:
    """One kernel for all tensors, where the optimizer has one."""
    _set_implementation("fused", "foreach")


def foreach(_: Any) -> None:
    """Each operation of the optimizer takes many tensors at once."""
    _set_implementation("foreach", "fused")


def drop_gradients(_: Any) -> None:
    """Gradients are dropped instead of being filled with zeros."""
    import torch

    zero_grad = torch.optim.Optimizer.zero_grad

    @functools.wraps(zero_grad)
    def dropped(optimizer: Any, set_to_none: bool = True) -> None:
        zero_grad(optimizer, set_to_none=True)

    torch.optim.Optimizer.zero_grad = dropped


def _set_implementation(name: str, other: str) -> None:
    def change(kwargs: dict[str, Any]) -> None:
        kwargs[name] = True
        kwargs.pop(other, None)

    for optimizer in _optimizers():
        if name in inspect.signature(optimizer.__init__).parameters:
            change_arguments(optimizer, "__init__", change)


def _optimizers() -> Iterator[Any]:
    """PyTorch's own optimizer classes."""
    import torch

    for value in vars(torch.optim).values():
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer):
            yield value
