"""Programs that are well written: what sounds right is timed on each, and brings nothing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, pixel_shuffle
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Good, autocast, graphed, n, train
from benchmarks.pairs.sets.eighth.training import Bar

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step

ON_GPU = DEVICE == "cuda"


class Clicks(nn.Module):
    """Whether an advertisement is clicked: sums of rows of a large table, their products, and a small network."""

    def __init__(self, rows: int, columns: int, size: int) -> None:
        super().__init__()
        self.table, self.columns = nn.EmbeddingBag(rows, size, mode="sum"), columns
        self.numbers = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, size), nn.ReLU())
        inner = size + (columns + 1) ** 2
        self.last = nn.Sequential(nn.Linear(inner, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, kinds: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        dense = self.numbers(numbers)
        rows = torch.cat((self.table(kinds).unflatten(0, (-1, self.columns)), dense[:, None]), 1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.last(torch.cat((dense, products), 1))[:, 0]


def good_clicks(version: str) -> Step:
    """A recommender of clicks: a GPU busy with the rows of a table, 20 of each of 26 columns, and little besides."""
    torch.set_float32_matmul_precision("high")
    batch, columns, rows, many = n(16_384, 4), n(26, 3), n(40_000, 20), n(20, 2)
    with torch.device(DEVICE):
        model = Clicks(columns * rows, columns, n(64, 8))
        kinds = torch.randint(0, rows, (batch, columns, many)) + torch.arange(columns)[:, None] * rows
        kinds, numbers, clicked = kinds.flatten(0, 1), torch.randn(batch, 13), (torch.rand(batch) < 0.03).float()
    called = torch.compile(model, dynamic=False) if version == "compile" else model
    precision = autocast if version == "low_precision" else nullcontext

    def loss() -> Any:
        with precision():
            told = called(kinds, numbers)
        return binary_cross_entropy_with_logits(told.float(), clicked)

    return train(model, loss, torch.optim.SGD(model.parameters(), 1e-3, fused=True))


class Larger(nn.Module):
    """Makes pictures twice as large, by residual convolutions."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.first, self.wide = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 12, 3, padding=1)
        self.inner = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)
            )
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for one in self.inner:
            x = one(x).add_(x)
        return pixel_shuffle(self.wide(x), 2)


def good_larger_pictures(version: str) -> Step:
    """A service makes the pictures of a film larger, in half precision and channels last, through pinned memory."""
    shape, at = (n(2, 1), 3, n(540, 8), n(960, 8)), 0
    half = torch.float16 if ON_GPU else torch.float32
    model = Larger(n(128, 8), n(12, 1)).to(DEVICE, half, memory_format=torch.channels_last).eval()
    film = [torch.randint(0, 256, shape, dtype=torch.uint8, pin_memory=ON_GPU) for _ in range(4)]
    shown = torch.empty((shape[0], 3, 2 * shape[2], 2 * shape[3]), dtype=torch.uint8, pin_memory=ON_GPU)
    seen, following = (torch.zeros(shape, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    made = torch.empty(shown.shape, dtype=torch.uint8, device=DEVICE)
    side = torch.cuda.Stream() if ON_GPU and version == "copy_ahead" else None

    def enlarge() -> None:
        with torch.no_grad():
            x = seen.to(half).div_(255).contiguous(memory_format=torch.channels_last)
            made.copy_(model(x).mul_(255).clamp_(0, 255))

    once = graphed(enlarge) if version == "cuda_graph" else enlarge

    def step() -> int:
        nonlocal at
        at = (at + 1) % len(film)
        if side:
            torch.cuda.current_stream().wait_stream(side)
            seen.copy_(following)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                following.copy_(film[(at + 1) % len(film)], non_blocking=True)
        else:
            seen.copy_(film[at], non_blocking=True)
        once()
        shown.copy_(made, non_blocking=True)
        if ON_GPU:
            torch.cuda.current_stream().synchronize()
        return int(shown[0, 0, 0, 0])

    return step


class Proteins(Dataset[torch.Tensor]):
    """Chains of amino acids, a byte each."""

    def __init__(self, length: int) -> None:
        self.acids, self.length = np.random.default_rng(0).integers(1, 25, 1 << 20).astype(np.uint8), length

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, number: int) -> torch.Tensor:
        at = number * 7919 % (len(self.acids) - self.length)
        return torch.from_numpy(self.acids[at : at + self.length])


def good_proteins(version: str) -> Step:
    """A model of proteins in bf16 on 48 chains of 1024, whose loss a bar shows at each step; its steps are long."""
    width, length = n(1024, 16), n(1024, 16)
    with torch.device(DEVICE):
        layers = (Bar(width, dropped=0.0) for _ in range(n(6, 1)))
        model = nn.Sequential(nn.Embedding(32, width), *layers, nn.LayerNorm(width), nn.Linear(width, 32))
    loader = DataLoader(
        Proteins(length + 1), n(48, 2), num_workers=n(3, 1), persistent_workers=True,
        pin_memory=version == "pinned_memory" and ON_GPU,
    )  # fmt: skip
    chains, shown, running = iter(loader), [0.0], torch.zeros((), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step() -> None:
        acids = next(chains).to(DEVICE, non_blocking=True).long()
        with autocast():
            loss = cross_entropy(model(acids[:, :-1]).flatten(0, 1), acids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if version == "remove_syncs":
            running.lerp_(loss.detach(), 0.1)
        else:
            shown[0] += 0.1 * (loss.item() - shown[0])

    return step


class Hour(nn.Module):
    """A residual block of a forecaster."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def good_weather(version: str) -> Step:
    """A forecaster of 64 quantities on 128 x 256 points, convolutions in bf16 with channels last; AdamW as it comes."""
    batch, width, rows = n(16, 1) * (2 if version == "larger_batch" else 1), n(192, 8), n(128, 8)
    with torch.device(DEVICE):
        blocks = (Hour(width) for _ in range(n(8, 1)))
        model = nn.Sequential(nn.Conv2d(64, width, 3, padding=1), *blocks, nn.Conv2d(width, 64, 1))
        model = model.to(memory_format=torch.channels_last)
        now, change = (
            torch.randn(batch, 64, rows, 2 * rows).contiguous(memory_format=torch.channels_last) for _ in range(2)
        )
        weights = torch.linspace(0, np.pi, rows).sin()[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=version == "fused_optimizer" or None)

    def loss() -> Any:
        with autocast():
            told = model(now)
        return mse_loss(told.float() * weights, change * weights)

    return train(model, loss, optimizer)


PROGRAMS = (
    Good(("compile", "low_precision"), good_clicks, found=True, early=("compile",)),
    Good(("cuda_graph", "copy_ahead"), good_larger_pictures),
    Good(("remove_syncs", "pinned_memory"), good_proteins, found=True),
    Good(("fused_optimizer", "larger_batch"), good_weather, found=True),
)
