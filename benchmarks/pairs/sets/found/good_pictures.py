"""Programs that see and are well written: what sounds right is timed on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pixel_shuffle

from benchmarks.pairs.program import DEVICE, Good, autocast, graphed, n, train
from benchmarks.pairs.sets.everyday.services import HALF
from benchmarks.pairs.sets.found.pictures import Backbone, pictures

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def _classify(backbone: Backbone, head: nn.Linear, x: torch.Tensor, y: torch.Tensor) -> Any:
    with autocast():
        return cross_entropy(head(backbone(x)[-1].mean((2, 3))), y)


def good_residual(version: str) -> Step:
    """A residual network of 50 layers trained in bf16 and channels last, by an SGD that takes all tensors at once."""
    depths = (3, 4, 6, 3) if n(1, 0) else (1, 1)
    body = Backbone(depths, n(64, 8))
    head = nn.Linear(body.widths[-1], 100)
    model = nn.ModuleList((body, head)).to(DEVICE, memory_format=torch.channels_last)
    batch = n(80, 1) * (2 if version == "larger_batch" else 1)
    x, y = pictures(batch, n(224, 64)), torch.randint(0, 100, (batch,), device=DEVICE)
    how: dict[str, Any] = {"fused": True} if version == "fused_optimizer" else {"foreach": True}
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, **how)
    step = train(model, lambda: _classify(body, head, x, y), optimizer)
    return graphed(step) if version == "cuda_graph" else step


class Pictures(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Pictures in 8 bits, cut at random places from larger ones in memory."""

    def __init__(self) -> None:
        self.whole, self.side = torch.randint(0, 255, (64, 3, 288, 288), dtype=torch.uint8), n(224, 64)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        top, left = index * 7 % (288 - self.side), index * 13 % (288 - self.side)
        return self.whole[index % 64, :, top : top + self.side, left : left + self.side].clone(), index % 100


def good_fed_residual(version: str) -> Step:
    """A wide residual network whose pictures come in 8 bits from eight workers, pinned, and are scaled on the GPU."""
    depths = (3, 4, 6, 3) if n(1, 0) else (1, 1)
    body = Backbone(depths, n(80, 8))
    head = nn.Linear(body.widths[-1], 100)
    model = nn.ModuleList((body, head)).to(DEVICE, memory_format=torch.channels_last)
    workers = n(14 if version == "data_loader_workers" else 8, 1)
    loader = torch.utils.data.DataLoader(
        Pictures(), n(96, 2), num_workers=workers, persistent_workers=True, pin_memory=DEVICE == "cuda"
    )
    batches = iter(loader)
    side = torch.cuda.Stream() if DEVICE == "cuda" and version == "copy_ahead" else None
    ahead: list[list[torch.Tensor]] = []

    def fetch() -> list[torch.Tensor]:
        return [one.to(DEVICE, non_blocking=True) for one in next(batches)]

    def batch() -> list[torch.Tensor]:
        if side is None:
            return fetch()
        torch.cuda.current_stream().wait_stream(side)
        now = ahead.pop() if ahead else fetch()
        for one in now:
            one.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ahead.append(fetch())
        return now

    def loss() -> Any:
        x, y = batch()
        x = x.to(torch.bfloat16, memory_format=torch.channels_last).div_(127.5).sub_(1)
        return _classify(body, head, x, y)

    return train(model, loss, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True))


def good_sharpener(version: str) -> Step:
    """Wide convolutions sharpen sixteen pictures in half precision and channels last; every product is large."""
    width = n(256, 8)
    layers = [x for _ in range(6) for x in (nn.Conv2d(width, width, 3, padding=1, bias=False), nn.ReLU(inplace=True))]
    model = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *layers, nn.Conv2d(width, 12, 3, padding=1))
    model = model.to(DEVICE, HALF, memory_format=torch.channels_last).eval()
    batch = n(16, 1) * (2 if version == "larger_batch" else 1)
    x = torch.randn(batch, 3, n(192, 16), n(192, 16), device=DEVICE, dtype=HALF)
    x = x.to(memory_format=torch.channels_last)
    forward = torch.compile(model, dynamic=False) if version == "compile" else model

    def step() -> None:
        with torch.inference_mode():
            pixel_shuffle(forward(x), 2)

    return graphed(step) if version == "cuda_graph" else step


PROGRAMS = (
    Good(("cuda_graph", "fused_optimizer", "larger_batch"), good_residual, found=True),
    Good(("data_loader_workers", "copy_ahead"), good_fed_residual, found=True),
    Good(("cuda_graph", "compile", "larger_batch"), good_sharpener, early=("compile",)),
)
