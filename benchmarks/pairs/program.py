"""What a pair of programs is, and what programs share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

DEVICE = os.environ.get("PAIRS_DEVICE", "cuda")
QUICK = bool(os.environ.get("PAIRS_QUICK"))


@dataclass(frozen=True)
class Pair:
    """A program, and the remedy that its fixed version applies."""

    remedy: str
    make: Callable[[bool], Step]
    found: bool = False
    """Whether the recorder finds the steps by itself (they end with an optimizer's step); else they are told to it."""
    as_much: float = 1.0
    """Steps' worth of work that a step of the fixed version does: its time is divided by it."""
    once: bool = False
    """Whether its steps differ the first time: base, fix and recording have a process each."""

    @property
    def name(self) -> str:
        """The program's name."""
        return self.make.__name__


def n(full: int, quick: int) -> int:
    """A size: that of the program, or a small one to try it without a GPU."""
    return quick if QUICK else full


def autocast() -> Any:
    """bf16 for what gains from it."""
    return torch.autocast(DEVICE, torch.bfloat16)


def train(model: torch.nn.Module, loss_of: Callable[[], Any], optimizer: Any = None) -> Step:
    """A training step; AdamW in its fused version where no optimizer is given."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer or torch.optim.AdamW(parameters, 1e-5, fused=True)

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
