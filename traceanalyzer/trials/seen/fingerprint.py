"""What weights, or running statistics, are at chosen steps, as two figures a tensor: enough to see
that an update was another one, at the cost of a sum."""

from collections.abc import Callable, Iterable
from typing import Any

MOST_TENSORS = 2000  # of all models together


class Fingerprint:
    """Figures of the tensors of each model, kept as tensors until they are read. `tensors_of` gives
    those of a module."""

    def __init__(self, tensors_of: Callable[[Any], Iterable[Any]]) -> None:
        self._tensors_of = tensors_of
        self._tensors: list[Any] = []
        self._known: set[int] = set()
        self._begun: list[Any] = []
        self._taken: dict[int, list[Any]] = {}

    def begin(self, module: Any) -> None:
        """A model is about to be called for the first time; later calls cost nothing."""
        if id(module) in self._known or len(self._tensors) >= MOST_TENSORS:
            return
        self._known.add(id(module))
        new = [one for one in self._tensors_of(module) if one.is_floating_point()]
        new = new[: MOST_TENSORS - len(self._tensors)]
        self._tensors += new
        self._begun += [_figures(one) for one in new]

    def take(self, step: int) -> None:
        """A step has ended."""
        self._taken[step] = [_figures(one) for one in self._tensors]

    def read(self) -> dict[str, list[float]]:
        """By step how far each figure has moved since the beginning."""
        begun = _numbers(self._begun)
        moved = {}
        for step, figures in self._taken.items():
            numbers = _numbers(figures)
            moved[str(step)] = [
                after - before for after, before in zip(numbers, begun, strict=False)
            ]
        return moved


def weights_of(module: Any) -> Iterable[Any]:
    """The parameters of a module."""
    import torch

    return torch.nn.Module.parameters(module)


def buffers_of(module: Any) -> Iterable[Any]:
    """The buffers of a module, as the running mean of a normalization."""
    import torch

    return torch.nn.Module.buffers(module)


def _figures(tensor: Any) -> Any:
    import torch

    with torch.no_grad():
        values = tensor.detach()
        # a sharded tensor's own part: to sum all of it would be a collective
        values = (values.to_local() if hasattr(values, "to_local") else values).double()
        return torch.stack([values.sum(), values.square().sum()]).cpu()


def _numbers(figures: list[Any]) -> list[float]:
    return [number for pair in figures for number in pair.tolist()]
