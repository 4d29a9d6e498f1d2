"""Switches torch.compile's code off for some steps, so that they can be timed without it in the
same process."""

import sys
from typing import Any

EAGER_WARMUP = 4  # eager steps that are not timed


class Eager:
    """Between `begin` and `end` what was compiled runs eager; the compiled code stays."""

    def __init__(self) -> None:
        self._on = False

    def begin(self) -> bool:
        """Whether compiled code is switched off: False where nothing was compiled, or PyTorch
        (before 2.6) cannot."""
        if has_compiled():
            self._on = _set_stance("force_eager")
        return self._on

    def end(self) -> None:
        """Use the compiled code again."""
        if self._on:
            self._on = not _set_stance("default")


def has_compiled() -> bool:
    """Whether torch.compile has compiled anything in this process."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"])


def _set_stance(stance: str) -> bool:
    import torch

    try:
        torch.compiler.set_stance(stance)
    except (AttributeError, RuntimeError):  # unknown to it, or the step ends inside compiled code
        return False
    return True
