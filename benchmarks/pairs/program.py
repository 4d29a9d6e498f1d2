"""What a pair of programs is, and what programs share."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Step = Callable[[], object]

DEVICE = os.environ.get("PAIRS_DEVICE", "cuda")
QUICK = bool(os.environ.get("PAIRS_QUICK"))
LIBRARIES = (
    "timm",
    "torchvision",
    "peft",
    "torch_geometric",
    "transformers.models.llama.modeling_llama",
)
VERSION = {"record": "base", "nsys": "base", "good": "fix"}
"""What is recorded, by the part that records it."""


@dataclass(frozen=True)
class Program:
    """A program: its versions, and how it is timed and recorded."""

    make: Callable[[Any], Step]
    """Of whether it is fixed; of a good program: of `base`, or of a remedy's id."""
    found: bool = False
    """Whether the recorder finds the steps by itself (they end with an optimizer's step); else they
    are told to it."""
    once: bool = False
    """Whether its steps differ the first time: base, fix and recording have a process each."""
    early: tuple[str, ...] = ()
    """Versions that are made while other programs load, for they compile."""
    libraries: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name."""
        return self.make.__name__


@dataclass(frozen=True)
class Pair(Program):
    """A program, and the remedy that its fixed version applies."""

    remedy: str = ""
    as_much: float = 1.0
    """Steps' worth of work that a step of the fixed version does: its time is divided by it."""
    fixed_too: bool = True
    """Whether the fixed program is recorded, too: what its remedy changed must not be advised
    again."""
    ablation: tuple[str, str] | None = None
    """What is taken away, in words, and the scenario that predicts the step without it; of sets of
    ablations."""
    timed = ("base", "fix")
    """The versions that a stopwatch times."""

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
class Good(Program):
    """A program that is good already, and remedies that sound right and bring nothing."""

    remedies: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ("record",)
    remedy = None

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
        """How many of the program's steps a step of a version is: a larger batch is twice as
        large."""
        return 2.0 if version == "larger_batch" else 1.0


def pair(remedy: str, **how: Any) -> Callable[[Callable[[bool], Step]], Pair]:
    """Declare a function of `fixed` to be a program of a set."""
    return lambda make: Pair(make, remedy=remedy, **how)


def good(*remedies: str, **how: Any) -> Callable[[Callable[[str], Step]], Good]:
    """Declare a function of `version` to be a good program of a set."""
    return lambda make: Good(make, remedies=remedies, **how)


class Module(nn.Module):
    """A module whose subclasses need not begin with `super().__init__()`."""

    def __new__(cls, *_: Any, **__: Any) -> "Module":
        made = super().__new__(cls)
        nn.Module.__init__(made)
        return made


def n(full: int, quick: int) -> int:
    """A size: that of the program, or a small one to try it without a GPU."""
    return quick if QUICK else full


def autocast() -> Any:
    """bf16 for what gains from it."""
    return torch.autocast(DEVICE, torch.bfloat16)


def train(model: Any, loss_of: Callable[[], Any], *, cast: bool = False) -> Step:
    """A training step of a model or an optimizer; a model gets AdamW in its fused version. `cast`:
    loss in autocast."""
    optimizer = model
    if isinstance(model, nn.Module):
        optimizer = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad], 1e-5, fused=True
        )
    loss_of = autocast()(loss_of) if cast else loss_of

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
