"""What a program of the proof is, and the settings that it is recorded and timed at."""

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

DEVICE = os.environ.get("PREDICT_DEVICE", "cuda")
QUICK = bool(os.environ.get("PREDICT_QUICK"))
Step = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """A setting of a program, of each of its ranks. `precision` is `bf16` (autocast), `fp32` or
    `tf32`."""

    batch: int
    length: int = 0
    precision: str = "bf16"
    ranks: int = 1

    def asked(self, base: "Setting") -> dict[str, str]:
        """The question that leads from the base to it."""
        found = {}
        if self.batch != base.batch:
            found["batch"] = str(self.batch)
        if self.length != base.length:
            found["length"] = str(self.length)
        if self.precision != base.precision:
            found["precision"] = self.precision
        if self.ranks != base.ranks:
            found["ranks"] = str(self.ranks)
        return found

    @property
    def label(self) -> str:
        """Its name in files."""
        length = f"x{self.length}" if self.length else ""
        ranks = f".{self.ranks}ranks" if self.ranks > 1 else ""
        return f"{self.batch}{length}.{self.precision}{ranks}"


@dataclass(frozen=True)
class Program:
    """A program: how it is made at a setting, where it is recorded, and where it is predicted."""

    name: str
    make: Callable[[Setting], Step]
    base: Setting
    targets: tuple[Setting, ...]
    other: str = ""
    """The same program on another number of ranks: its base is what this one is asked for."""

    @property
    def timed(self) -> tuple[Setting, ...]:
        """Targets that a process of as many ranks can be timed at."""
        return tuple(one for one in self.targets if one.ranks == self.base.ranks)

    @property
    def held_out(self) -> bool:
        """Whether nothing may be tuned on it: about half of the programs, by their names."""
        return zlib.crc32(f"predict {self.name}".encode()) % 2 == 1


def program(
    base: Setting, other: str = "", **changed: tuple[Any, ...]
) -> Callable[[Callable[..., Step]], Program]:
    """Declare a function of a setting a program: `changed` are values of each field of the setting
    that alone differs from the base; `both` are pairs of batch and length."""

    def declared(make: Callable[[Setting], Step]) -> Program:
        both = changed.pop("both", ())
        targets = [
            replace(base, **{name: value}) for name, values in changed.items() for value in values
        ]
        targets += [replace(base, batch=batch, length=length) for batch, length in both]
        return Program(make.__name__, make, _small(base), tuple(map(_small, targets)), other)

    return declared


def _small(setting: Setting) -> Setting:
    """The setting, or a small one to try it without a GPU."""
    if not QUICK:
        return setting
    return replace(setting, batch=-(-setting.batch // 16), length=setting.length // 16)


def n(full: int, quick: int) -> int:
    """A size: that of the program, or a small one to try it without a GPU."""
    return quick if QUICK else full


def in_precision(precision: str) -> Any:
    """The context of a forward pass; sets what fp32 products run on."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    return torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bf16")


def train(
    model: nn.Module, loss_of: Callable[[], torch.Tensor], setting: Setting, *, fused: bool = True
) -> Step:
    """A training step with AdamW."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, 1e-5, fused=fused and DEVICE == "cuda")

    def step() -> None:
        with in_precision(setting.precision):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def serve(run: Callable[[], object], setting: Setting) -> Step:
    """A forward pass without gradients."""

    @torch.inference_mode()
    def step() -> None:
        with in_precision(setting.precision):
            run()

    return step


def tokens(setting: Setting, words: int) -> torch.Tensor:
    """Random tokens of a setting's batch and length."""
    return torch.randint(0, words, (setting.batch, setting.length), device=DEVICE)


def images(setting: Setting, side: int) -> torch.Tensor:
    """Random images of a setting's batch."""
    return torch.randn(setting.batch, 3, side, side, device=DEVICE)


def classes(setting: Setting, count: int) -> torch.Tensor:
    """Random classes of a setting's batch."""
    return torch.randint(0, count, (setting.batch,), device=DEVICE)
