"""Programs of PyTorch alone: what the host does between the work of the GPU, calls, passes and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import conv2d, cross_entropy, mse_loss

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train
from benchmarks.pairs.sets.plain.training import encoder_layers

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def _develop(raw: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
    x = (raw.float() - 64) / (1023 - 64)
    x = x.clamp(0, 1) * gains
    x = x * (1 + x / 4) / (1 + x)
    return torch.where(x <= 0.0031308, 12.92 * x, 1.055 * x.clamp(min=1e-6).pow(1 / 2.4) - 0.055)


def _finish(x: torch.Tensor, blurred: torch.Tensor) -> torch.Tensor:
    return ((x + 0.6 * (x - blurred)) * 255).round().clamp(0, 255).to(torch.uint8)


def camera_frames(fixed: bool) -> Step:
    """Raw camera frames are developed by simple operations one by one and sharpened; the remedy fuses each chain."""
    shape = (n(4, 1), 3, n(2160, 32), n(3840, 32))
    with torch.device(DEVICE):
        raw = torch.randint(0, 1024, shape, dtype=torch.int16)
        gains = torch.tensor([1.9, 1.0, 1.6]).view(3, 1, 1)
        blur = torch.full((3, 1, 3, 3), 1 / 9)
    develop, finish = (torch.compile(one, dynamic=False) if fixed else one for one in (_develop, _finish))

    def step() -> torch.Tensor:
        with torch.no_grad():
            x = develop(raw, gains)
            return finish(x, conv2d(x, blur, padding=1, groups=3))

    return step


def rollouts_reset(fixed: bool) -> Step:
    """A wide policy flies 8192 vehicles; lost ones start anew by a boolean mask, with the remedy by torch.where."""
    count, width, half = n(8192, 64), n(2048, 16), torch.bfloat16
    with torch.device(DEVICE):
        inner = [x for _ in range(3) for x in (nn.Linear(width, width), nn.SiLU())]
        policy = nn.Sequential(nn.Linear(64, width), nn.SiLU(), *inner, nn.Linear(width, 8)).to(half)
        places, speeds, new_places, new_speeds = torch.randn(4, count, 32)
        push = torch.randn(8, 32)

    def fly(place: torch.Tensor, speed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        act = policy(torch.cat((place, speed), 1).to(half)).float().tanh()
        speed = 0.98 * speed + 0.05 * (act @ push)
        place = place + 0.1 * speed
        lost = place.square().sum(1) > 60
        if fixed:
            return torch.where(lost[:, None], new_places, place), torch.where(lost[:, None], new_speeds, speed)
        place[lost] = new_places[lost]
        speed[lost] = new_speeds[lost]
        return place, speed

    def step() -> torch.Tensor:
        place, speed = places, speeds
        with torch.no_grad():
            for _ in range(n(16, 2)):
                place, speed = fly(place, speed)
        return place

    return step


def _hide(texts: list[list[int]], words: int, random: np.random.Generator) -> tuple[list[list[int]], list[list[int]]]:
    shown, wanted = [], []
    for text in texts:
        seen, asked = [], []
        chances, others = random.random(len(text)).tolist(), random.integers(words, size=len(text)).tolist()
        for word, chance, other in zip(text, chances, others, strict=True):
            seen.append(0 if chance < 0.12 else other if chance < 0.135 else word)
            asked.append(word if chance < 0.15 else -100)
        shown.append(seen)
        wanted.append(asked)
    return shown, wanted


def _hide_there(tokens: torch.Tensor, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.rand(tokens.shape, device=DEVICE)
    shown = torch.where(chance < 0.135, torch.randint_like(tokens, words), tokens).masked_fill(chance < 0.12, 0)
    return shown, tokens.masked_fill(chance >= 0.15, -100)


def words_hidden_in_python(fixed: bool) -> Step:
    """A small encoder guesses hidden words, which Python hides word by word; the remedy hides them on the device."""
    words, width, random = n(4096, 64), n(256, 32), np.random.default_rng(0)
    with torch.device(DEVICE):
        layers = encoder_layers(n(3, 1), width)
        model = nn.Sequential(nn.Embedding(words, width), *layers, nn.Linear(width, words))
        tokens = torch.randint(0, words, (n(64, 2), n(256, 16)))
    texts = tokens.tolist()

    def hide() -> tuple[torch.Tensor, torch.Tensor]:
        if fixed:
            return _hide_there(tokens, words)
        shown, wanted = (torch.tensor(one).to(DEVICE) for one in _hide(texts, words, random))
        return shown, wanted

    def loss() -> Any:
        shown, wanted = hide()
        with autocast():
            return cross_entropy(model(shown).flatten(0, 1), wanted.flatten())

    return train(model, loss)


class Net(nn.Module):
    """A U-shaped network of three levels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.downs = nn.ModuleList(self.two(a, b) for a, b in ((3, width), (width, 2 * width), (2 * width, 4 * width)))
        self.ups = nn.ModuleList(self.two(a, b) for a, b in ((6 * width, 2 * width), (3 * width, width)))
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def two(a: int, b: int) -> nn.Sequential:
        """Two convolutions."""
        pairs = ((a, b), (b, b))
        return nn.Sequential(*(x for i, o in pairs for x in (nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.downs[0](x)
        second = self.downs[1](nn.functional.max_pool2d(first, 2))
        x = self.downs[2](nn.functional.max_pool2d(second, 2))
        for kept, up in zip((second, first), self.ups, strict=True):
            x = up(torch.cat((nn.functional.interpolate(x, scale_factor=2), kept), 1))
        return self.last(x)


def cells_cache_emptied(fixed: bool) -> Step:
    """A U-net finds cells in bf16; memory that is free is given back after every step, with the remedy it is kept."""
    side, batch = n(256, 16), n(16, 1)
    with torch.device(DEVICE):
        model = Net(n(64, 4)).to(memory_format=torch.channels_last)
        pictures = torch.randn(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
        wanted = torch.randint(0, 2, (batch, side, side))

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(pictures), wanted)

    update = train(model, loss)

    def step() -> None:
        update()
        if not fixed:
            torch.cuda.empty_cache()

    return step


class Cells(nn.Module):
    """Two recurrent layers, cell by cell."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList((nn.GRUCell(inputs, width), nn.GRUCell(width, width)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        states = [x.new_zeros(x.shape[0], cell.hidden_size) for cell in self.cells]
        for now in x.unbind(1):
            below = now
            for number, cell in enumerate(self.cells):
                below = states[number] = cell(below, states[number])
        return states[-1][:, None], None


def sensor_gru(fixed: bool) -> Step:
    """Two recurrent layers forecast 128 sensors, cell by cell over 96 times; the remedy is nn.GRU."""
    inputs, width = 24, n(256, 16)
    with torch.device(DEVICE):
        layers = nn.GRU(inputs, width, 2, batch_first=True) if fixed else Cells(inputs, width)
        model = nn.ModuleList((layers, nn.Linear(width, 1)))
        seen, wanted = torch.randn(128, n(96, 6), inputs), torch.randn(128, 1)
    return train(model, lambda: mse_loss(model[1](layers(seen)[0][:, -1]), wanted))


def crops_in_turn(fixed: bool) -> Step:
    """A small vision transformer learns from eight crops of each picture, called for each; the remedy calls it once."""
    width, side = n(192, 32), n(96, 32)
    with torch.device(DEVICE):
        patches = nn.Sequential(nn.Conv2d(3, width, 16, 16), nn.Flatten(2))
        layers = nn.Sequential(*encoder_layers(n(8, 1), width), nn.LayerNorm(width))
        model = nn.ModuleList((patches, layers))
        crops = list(torch.randn(8, n(32, 2), 3, side, side))
        wanted = torch.randn(n(32, 2), width)

    def vectors(pictures: torch.Tensor) -> torch.Tensor:
        return layers(patches(pictures).transpose(1, 2)).mean(1)

    def loss() -> Any:
        with autocast():
            seen = vectors(torch.cat(crops)).chunk(8) if fixed else [vectors(crop) for crop in crops]
            return torch.stack([mse_loss(one.float(), wanted) for one in seen]).mean()

    return train(model, loss)


PAIRS = (
    Pair("batch_calls", crops_in_turn, found=True, libraries=()),
    Pair("fused_rnn", sensor_gru, found=True, libraries=()),
    Pair("fuse_elementwise", camera_frames, early=("fix",), libraries=()),
    Pair("remove_syncs", rollouts_reset, libraries=()),
    Pair("move_host_work", words_hidden_in_python, found=True, libraries=()),
    Pair("avoid_allocations", cells_cache_emptied, found=True, libraries=()),
)
