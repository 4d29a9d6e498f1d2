"""Advice in the words of a framework: what only PyTorch has is not recommended to anything else."""

from traceanalyzer.analysis.joined.framework import Framework
from traceanalyzer.base.frozen import dataclass


@dataclass(frozen=True)
class Words:
    """What to do, as a program in each framework can do it; None where it has no such thing."""

    pytorch: str
    cuda: str | None = None
    jax: str | None = None
    """Where it is not what programs in CUDA do."""

    def of(self, framework: Framework) -> str | None:
        """The words for a program in that framework."""
        if framework is Framework.PYTORCH:
            return self.pytorch
        return self.jax or self.cuda if framework is Framework.JAX else self.cuda


def everywhere(text: str) -> Words:
    """The same words for every framework."""
    return Words(text, text)
