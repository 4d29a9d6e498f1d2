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
LIBRARIES = ("timm", "torchvision", "peft", "torch_geometric", "transformers.models.llama.modeling_llama")
VERSION = {"record": "base", "good": "fix"}
"""What is recorded, by the part that records it."""


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
    fixed_too: bool = True
    """Whether the fixed program is recorded, too: what its remedy changed must not be advised again."""
    early: tuple[str, ...] = ()
    """Versions that are made while other programs load, for they compile."""
    libraries: tuple[str, ...] = LIBRARIES

    @property
    def name(self) -> str:
        """The program's name."""
        return self.make.__name__

    @property
    def timed(self) -> tuple[str, ...]:
        """The versions that a stopwatch times."""
        return ("base", "fix")

    @property
    def recorded(self) -> tuple[str, ...]:
        """The parts that record."""
        return ("record", "good") if self.fixed_too else ("record",)

    @property
    def row(self) -> dict[str, object]:
        """What is known before anything is timed."""
        return {"remedy": self.remedy, "what": self.make.__doc__}

    def version(self, name: str) -> Step:
        """A step of a version."""
        return self.make(name == "fix")

    def share(self, version: str) -> float:
        """How many of the program's steps a step of a version is."""
        return self.as_much if version == "fix" else 1.0


@dataclass(frozen=True)
class Good:
    """A program that is good already, and remedies that sound right and bring nothing."""

    remedies: tuple[str, ...]
    make: Callable[[str], Step]
    """Of `base`, or of a remedy's id."""
    found: bool = False
    early: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ("record",)
    remedy, once = None, False

    @property
    def name(self) -> str:
        """The program's name."""
        return self.make.__name__

    @property
    def timed(self) -> tuple[str, ...]:
        """The versions that a stopwatch times."""
        return ("base", *self.remedies)

    @property
    def row(self) -> dict[str, object]:
        """What is known before anything is timed."""
        return {"good": True, "remedies": self.remedies, "what": self.make.__doc__}

    def version(self, name: str) -> Step:
        """A step of a version."""
        return self.make(name)

    def share(self, version: str) -> float:
        """How many of the program's steps a step of a version is: a larger batch is twice as large."""
        return 2.0 if version == "larger_batch" else 1.0


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


def graphed(step: Step) -> Step:
    """The step captured in a CUDA graph; itself where there is no GPU."""
    if DEVICE != "cuda":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
