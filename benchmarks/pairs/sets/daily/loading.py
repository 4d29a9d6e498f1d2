"""Training as found in daily work that waits for what it gets: from files, from memory, from a copy."""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train
from benchmarks.pairs.sets.daily.training import SelfAttending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.pairs.program import Step


class Weather(nn.Module):
    """What the fields of the air and the maps of the ground say of the next hours, by attention over patches."""

    def __init__(self, channels: int, fields: int, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, 8, 8)
        self.layers = nn.Sequential(*(SelfAttending(width) for _ in range(n(3, 1))))
        self.out = nn.Linear(width, fields * 64)

    def forward(self, air: torch.Tensor, ground: torch.Tensor) -> torch.Tensor:
        patches = self.cut(torch.cat((air, ground), 1)).flatten(2).transpose(1, 2)
        return self.out(self.layers(patches))


def weather_ground_sent_again(fixed: bool) -> Step:
    """Weather forecast with 40 maps of the ground that the loop sends in every step; the remedy keeps them."""
    size, fields, maps = (n(512, 16), n(1024, 32)), n(24, 2), n(40, 2)
    with torch.device(DEVICE):
        model = Weather(fields + maps, fields, n(512, 16))
        air = torch.randn(1, fields, *size)
        later = torch.randn(1, size[0] * size[1] // 64, fields * 64)
    ground = torch.from_numpy(np.random.default_rng(0).standard_normal((1, maps, *size), np.float32))
    kept = ground.to(DEVICE)

    def loss() -> Any:
        known = kept if fixed else ground.to(DEVICE)
        with autocast():
            return (model(air, known) - later).square().mean()

    return train(model, loss)


class Slices(Dataset[tuple[torch.Tensor, int]]):
    """Packed slices of scans: unpacked, cut to a window of densities, turned, and given some noise."""

    def __init__(self, side: int) -> None:
        self.side = side
        shape = (32, side, side)
        made = np.random.default_rng(0).normal(0, 60, shape).astype(np.int16) + np.arange(side, dtype=np.int16)
        self.packed = [zlib.compress(one.tobytes(), 1) for one in made]

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        raw = zlib.decompress(self.packed[number % len(self.packed)])
        picture = np.frombuffer(raw, np.int16).reshape(self.side, self.side).astype(np.float32)
        dice = np.random.default_rng(number)
        angle, half = dice.uniform(-0.2, 0.2), self.side / 2
        rows, columns = np.mgrid[: self.side, : self.side] - half
        from_row = np.clip(rows * np.cos(angle) - columns * np.sin(angle) + half, 0, self.side - 1).astype(np.intp)
        from_column = np.clip(rows * np.sin(angle) + columns * np.cos(angle) + half, 0, self.side - 1).astype(np.intp)
        turned = np.clip(picture[from_row, from_column], -160, 240) / 200
        turned += dice.normal(0, 0.02, turned.shape).astype(np.float32)
        return torch.from_numpy(turned[None]), number % 2


def _scan_network(width: int) -> nn.Module:
    sizes = itertools.pairwise((1, *(width * 2 ** (step // 2) for step in range(n(8, 2)))))
    layers = [
        x
        for number, (a, b) in enumerate(sizes)
        for x in (nn.Conv2d(a, b, 3, 1 + number % 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
    ]
    last = width * 2 ** ((n(8, 2) - 1) // 2)
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1))
    return model.to(DEVICE, memory_format=torch.channels_last)


def scans_read_by_the_loop(fixed: bool) -> Step:
    """Slices of scans sorted by convolutions; the loop unpacks and turns them, with the remedy eight workers do."""
    more: dict[str, Any] = (
        {"num_workers": n(8, 2), "pin_memory": DEVICE == "cuda", "persistent_workers": True} if fixed else {}
    )
    slices = iter(DataLoader(Slices(n(224, 16)), n(24, 2), **more))
    model = _scan_network(n(64, 4))

    def loss() -> Any:
        pictures, ill = next(slices)
        pictures = pictures.to(DEVICE, non_blocking=fixed, memory_format=torch.channels_last)
        ill = ill.to(DEVICE, non_blocking=fixed)
        with autocast():
            return binary_cross_entropy_with_logits(model(pictures).float()[:, 0], ill.float())

    return train(model, loss)


def _ahead(source: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    stream = torch.cuda.Stream() if DEVICE == "cuda" else None

    def copied() -> torch.Tensor:
        with torch.cuda.stream(stream):
            return next(source).to(DEVICE, non_blocking=True)

    following = copied()
    while True:
        if stream:
            torch.cuda.current_stream().wait_stream(stream)
            following.record_stream(torch.cuda.current_stream())
        current, following = following, copied()
        yield current


def clicks_copied_in_line(fixed: bool) -> Step:
    """Clicks on advertisements foretold from pinned rows, copied before each step; the remedy copies a step ahead."""
    rows, columns, width = n(131072, 16), n(384, 8), n(1024, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(
            nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )
        clicked = torch.rand(rows, 1).round()
    batches = [torch.randn(rows, columns, pin_memory=DEVICE == "cuda") for _ in range(2)]
    source = itertools.cycle(batches)
    given = _ahead(source) if fixed else (batch.to(DEVICE, non_blocking=True) for batch in source)

    def loss() -> Any:
        with autocast():
            return binary_cross_entropy_with_logits(model(next(given)).float(), clicked)

    return train(model, loss)


PAIRS = (
    Pair("keep_on_device", weather_ground_sent_again, found=True, libraries=()),
    Pair("data_loader_workers", scans_read_by_the_loop, found=True, libraries=()),
    Pair("copy_ahead", clicks_copied_in_line, found=True, libraries=()),
)
