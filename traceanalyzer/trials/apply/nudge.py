"""Moves the weights of a program by as much as rounding would: how far its results differ then says
which of them rounding alone decides."""

from typing import Any

from traceanalyzer.trials.request import SEED


class Nudge:
    """Each weight moves once, by a random share of itself of at most `share`, or by the last digit
    of its format where that is more. The same weights move alike on all ranks."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._moved: set[int] = set()
        self._generators: dict[Any, Any] = {}

    def begin(self, module: Any) -> None:
        """A model is about to be called for the first time; later calls cost nothing."""
        if not self._share or id(module) in self._moved:
            return
        import torch

        self._moved.add(id(module))
        with torch.no_grad():
            for weight in torch.nn.Module.parameters(module):
                if weight.is_floating_point() and id(weight) not in self._moved:
                    self._moved.add(id(weight))
                    self._move(weight)

    def _move(self, weight: Any) -> None:
        import torch

        # a sharded tensor's own part
        own = weight.to_local() if hasattr(weight, "to_local") else weight
        share = max(self._share, torch.finfo(own.dtype).eps)
        # of its own: the program draws as it would have
        generator = self._generators.get(own.device)
        if generator is None:
            generator = torch.Generator(own.device)
            generator.manual_seed(SEED)
            self._generators[own.device] = generator
        drawn = torch.rand(own.shape, generator=generator, device=own.device)
        own.mul_(1.0 + share * (2.0 * drawn - 1.0))
