"""Programs of research that leave little to be done: look-ups, pictures, sets, objects, mixers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, logsigmoid, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Good, graphed, n, train
from benchmarks.pairs.sets.everyday.services import HALF

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def good_big_lookup(version: str) -> Step:
    """A retriever adds up 40 rows each of a table of a gigabyte, in half precision, for 131,072 lists at once."""
    rows, lists = n(4_000_000, 500), n(131_072, 8) * (2 if version == "larger_batch" else 1)
    table = nn.EmbeddingBag(rows, 128, mode="sum", device=DEVICE, dtype=HALF).eval()
    words = torch.randint(0, rows, (lists, 40), device=DEVICE)
    forward = torch.compile(table, dynamic=False) if version == "compile" else table

    def step() -> Any:
        with torch.inference_mode():
            return forward(words)

    return graphed(step) if version == "cuda_graph" else step


def good_upscaler(version: str) -> Step:
    """Convolutions 256 wide make pictures larger, in half precision and channels-last, 64 at a time."""
    width, batch = n(256, 16), n(64, 2) * (2 if version == "larger_batch" else 1)
    layers = [x for _ in range(4) for x in (nn.Conv2d(width, width, 3, padding=1, bias=False), nn.ReLU(inplace=True))]
    model = nn.Sequential(nn.Conv2d(8, width, 3, padding=1, bias=False), *layers, nn.Conv2d(width, 16, 1))
    model = model.append(nn.PixelShuffle(2)).to(DEVICE, HALF, memory_format=torch.channels_last).eval()
    x = torch.randn(batch, 8, n(160, 16), n(160, 16), device=DEVICE, dtype=HALF).to(memory_format=torch.channels_last)

    def step() -> Any:
        with torch.inference_mode():
            return model(x)

    return graphed(step) if version == "cuda_graph" else step


class Pooled(nn.Module):
    """Items, each through wide layers; four learned questions to each set of them."""

    def __init__(self, width: int, *, fused: bool) -> None:
        super().__init__()
        layers = [x for _ in range(6) for x in (nn.Linear(width, width, bias=False), nn.ReLU(inplace=True))]
        self.each, self.fused = nn.Sequential(*layers), fused
        self.keys, self.ask = nn.Linear(width, 256, bias=False), nn.Parameter(torch.randn(1, 4, 4, 32))

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        k, v = self.keys(self.each(items)).unflatten(-1, (2, 4, 32)).permute(2, 0, 3, 1, 4)
        if self.fused:
            return scaled_dot_product_attention(self.ask.expand(len(k), -1, -1, -1), k, v)
        return (self.ask * 32**-0.5 @ k.transpose(-2, -1)).softmax(-1) @ v


def good_pooled_items(version: str) -> Step:
    """256 sets of 64 items go through six layers 4096 wide in bf16; a small attention at the end is written out."""
    model = Pooled(n(4096, 32), fused=version == "fused_attention").to(DEVICE, torch.bfloat16).eval()
    items = torch.randn(n(256, 2), 64, n(4096, 32), device=DEVICE, dtype=torch.bfloat16)
    forward = torch.compile(model, dynamic=False) if version == "compile" else model

    def step() -> Any:
        with torch.inference_mode():
            return forward(items)

    return graphed(step) if version == "cuda_graph" else step


def focal(said: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """The focal loss, written out."""
    sure = torch.where(there, said, -said)
    weight = (0.75 - 0.5 * there.float()) * (1 - sure.sigmoid()).square()
    return -(weight * logsigmoid(sure)).sum() / there.sum().clamp(min=1)


def good_focal_tower(version: str) -> Step:
    """Wide convolutions in bf16, channels-last, find objects; their focal loss is written out, on a small map."""
    width, side = n(512, 16), n(64, 8)
    layers = [x for _ in range(4) for x in (nn.Conv2d(width, width, 3, padding=1, bias=False), nn.ReLU(inplace=True))]
    model = nn.Sequential(*layers, nn.Conv2d(width, 8, 1))
    model = model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)
    x = torch.randn(n(32, 1), width, side, side, device=DEVICE, dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last)
    there = torch.rand(len(x), 8, side, side, device=DEVICE) < 0.02
    loss_of = torch.compile(focal, dynamic=False) if version == "fuse_elementwise" else focal
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, foreach=True)
    step = train(model, lambda: loss_of(model(x).float(), there), optimizer)
    return graphed(step) if version == "cuda_graph" else step


class Mixed(nn.Module):
    """A block of an MLP mixer: places are mixed, then channels."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.places(self.before(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.after(x))


def good_compiled_mixer(version: str) -> Step:
    """An MLP mixer of four blocks, compiled and trained in bf16 with a fused optimizer; its loss is in fp32."""
    width, places = n(1024, 32), n(256, 16)
    model = nn.Sequential(*(Mixed(places, width) for _ in range(n(4, 1))), nn.LayerNorm(width))
    model, head = model.to(DEVICE, torch.bfloat16), nn.Linear(width, 100, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(n(128, 2), places, width, device=DEVICE, dtype=torch.bfloat16)
    y = torch.randint(0, 100, (len(x),), device=DEVICE)
    whole, body = nn.ModuleList((model, head)), torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(whole.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")

    def loss() -> Any:
        said = head(body(x).mean(1))
        return cross_entropy(said if version == "low_precision" else said.float(), y)

    step = train(whole, loss, optimizer)
    return graphed(step) if version == "cuda_graph" else step


PROGRAMS = (
    Good(("cuda_graph", "larger_batch", "compile"), good_big_lookup, early=("compile",)),
    Good(("cuda_graph", "larger_batch"), good_upscaler),
    Good(("fused_attention", "compile", "cuda_graph"), good_pooled_items, early=("compile",)),
    Good(("fuse_elementwise", "cuda_graph"), good_focal_tower, found=True, early=("fuse_elementwise",)),
    Good(
        ("cuda_graph", "low_precision"), good_compiled_mixer, found=True,
        early=("base", "cuda_graph", "low_precision"),
    ),
)  # fmt: skip
