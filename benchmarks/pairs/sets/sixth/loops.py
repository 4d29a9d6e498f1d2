"""Loops around a model, written blind: memories, readers and simulations that keep the GPU waiting or busy."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, leaky_relu, mse_loss, pad, smooth_l1_loss
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, n, train
from benchmarks.pairs.sets.sixth.services import HALF
from benchmarks.pairs.sets.sixth.training import Block

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Priorities:
    """A tree of sums over the priorities of memories: each is drawn as often as its share says."""

    def __init__(self, size: int) -> None:
        self.size, self.sums = size, [1.0] * (2 * size)
        for at in range(size - 1, 0, -1):
            self.sums[at] = self.sums[2 * at] + self.sums[2 * at + 1]

    def find(self, wanted: float) -> int:
        """The memory at this place of the sum."""
        at = 1
        while at < self.size:
            at *= 2
            if wanted > self.sums[at]:
                wanted -= self.sums[at]
                at += 1
        return at - self.size

    def put(self, memory: int, priority: float) -> None:
        """Its new priority."""
        at = memory + self.size
        change = priority - self.sums[at]
        while at:
            self.sums[at] += change
            at //= 2

    def draw(self, number: int) -> list[int]:
        """One memory from each of as many equal parts of the sum."""
        part = self.sums[1] / number
        return [self.find((at + random.random()) * part) for at in range(number)]  # noqa: S311


def priorities_in_python(fixed: bool) -> Step:
    """Q-learning that draws 2048 memories a step from a tree of sums in Python; the remedy draws on the device."""
    random.seed(0)
    size, number, seen = n(2**16, 64), n(2048, 8), n(96, 8)
    with torch.device(DEVICE):
        layers = [x for _ in range(3) for x in (nn.Linear(n(1024, 16), n(1024, 16)), nn.ReLU())]
        model = nn.Sequential(nn.Linear(seen, n(1024, 16)), nn.ReLU(), *layers, nn.Linear(n(1024, 16), 12))
        before, after = (torch.randn(size, seen) for _ in range(2))
        acts, gains, priorities = torch.randint(0, 12, (size, 1)), torch.randn(size, 1), torch.ones(size)
        places = torch.arange(number)
    tree = Priorities(size)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def learn(chosen: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = gains[chosen] + 0.99 * model(after[chosen]).amax(1, keepdim=True)
        value = model(before[chosen]).gather(1, acts[chosen])
        smooth_l1_loss(value, wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        return (value.detach() - wanted).abs()[:, 0] + 0.01

    def on_device() -> None:
        sums = priorities.cumsum(0)
        wanted = (places + torch.rand(number, device=DEVICE)) * (sums[-1] / number)
        chosen = torch.searchsorted(sums, wanted).clamp_(max=size - 1)
        priorities[chosen] = learn(chosen)

    def in_python() -> None:
        chosen = tree.draw(number)
        errors = learn(torch.tensor(chosen, device=DEVICE))
        for memory, error in zip(chosen, errors.tolist(), strict=True):
            tree.put(memory, error)

    return on_device if fixed else in_python


def screens_remembered_on_the_host(fixed: bool) -> Step:
    """A player learns from 1024 memories of screens, kept in host memory; with the remedy the GPU remembers them."""
    torch.set_float32_matmul_precision("high")
    size, number, side = n(16_384, 32), n(1024, 4), 84
    place = DEVICE if fixed else "cpu"
    screens = torch.randint(0, 256, (n(256, 8), 4, side, side), dtype=torch.uint8).repeat(size // n(256, 8), 1, 1, 1)
    screens = screens.to(place)
    acts, gains = torch.randint(0, 18, (size, 1), device=place), torch.randn(size, 1, device=place)
    with torch.device(DEVICE):
        convolutions = (nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3))
        inner = [x for convolution in convolutions for x in (convolution, nn.ReLU())]
        model = nn.Sequential(*inner, nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 18))

    def loss() -> torch.Tensor:
        chosen = torch.randint(0, size - 1, (number,), device=place)
        now, then, act, gain = (
            part.to(DEVICE) for part in (screens[chosen], screens[chosen + 1], acts[chosen], gains[chosen])
        )
        with torch.no_grad():
            wanted = gain + 0.99 * model(then / 255).amax(1, keepdim=True)
        return smooth_l1_loss(model(now / 255).gather(1, act), wanted)

    return train(model, loss)


def activations_on_the_host(fixed: bool) -> Step:
    """A small encoder that keeps what backward needs in host memory though the GPU's is free; the remedy leaves it."""
    width = n(1024, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Block(width) for _ in range(n(4, 1)))).bfloat16()
        seen, wanted = (torch.randn(n(8, 1), n(512, 9), width, dtype=torch.bfloat16) for _ in range(2))

    def loss() -> torch.Tensor:
        away = torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == "cuda")
        with contextlib.nullcontext() if fixed else away:
            return mse_loss(model(seen), wanted)

    return train(model, loss)


class Scans(Dataset[tuple[torch.Tensor, int]]):
    """Scanned things: turned, shaken, thinned to one point a cell, and brought to a fixed number of points."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.scans = np.random.default_rng(0).normal(size=(64, 4 * points, 3)).astype(np.float32)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        random = np.random.default_rng(number)
        angle = random.uniform(0, 2 * np.pi)
        turn = np.array(((np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))), dtype=np.float32)
        scan = self.scans[number % 64].copy()
        scan[:, :2] = scan[:, :2] @ turn
        scan += random.normal(0, 0.01, scan.shape).astype(np.float32)
        cells = np.floor(scan / 0.05).astype(np.int64) + 512
        _, first = np.unique((cells[:, 0] * 1024 + cells[:, 1]) * 1024 + cells[:, 2], return_index=True)
        chosen = random.choice(first, self.points, replace=len(first) < self.points)
        return torch.from_numpy(scan[chosen]), number % 40


def scans_thinned_in_turn(fixed: bool) -> Step:
    """Scans of things are sorted, 32 a step, each thinned to 2048 points by the loop itself; the remedy has workers."""
    workers = n(8, 2) if fixed else 0
    loader = DataLoader(
        Scans(n(2048, 16)), n(32, 2), num_workers=workers, pin_memory=fixed and DEVICE == "cuda",
        persistent_workers=fixed, prefetch_factor=4 if fixed else None,
    )  # fmt: skip
    with torch.device(DEVICE):
        sizes = (3, 64, 128, n(1024, 32))
        inner = [
            x
            for before, after in itertools.pairwise(sizes)
            for x in (nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU())
        ]
        model = nn.Sequential(*inner, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(sizes[-1], 40))
    batches = iter(loader)

    def loss() -> torch.Tensor:
        points, kinds = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        return cross_entropy(model(points.transpose(1, 2)), kinds)

    return train(model, loss)


def _advance(
    price: torch.Tensor, variance: torch.Tensor, lowest: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    spread = variance.clamp_min(0)
    root = (spread * (1 / 252)).sqrt()
    price = price + (0.03 - 0.5 * spread) * (1 / 252) + root * a
    variance = variance + 1.5 * (0.04 - spread) * (1 / 252) + 0.3 * root * (-0.7 * a + 0.714 * b)
    return price, variance, torch.minimum(lowest, price)


def barrier_options(fixed: bool) -> Step:
    """A barrier option priced on 16 million paths over 24 days by simple operations; the remedy fuses a day."""
    paths = n(2**24, 64)
    with torch.device(DEVICE):
        price, variance, a, b = torch.zeros(paths), torch.full((paths,), 0.04), torch.empty(paths), torch.empty(paths)
    advance = torch.compile(_advance, dynamic=False) if fixed else _advance

    def step() -> torch.Tensor:
        with torch.no_grad():
            now = (price, variance, price)
            for _ in range(n(24, 2)):
                now = advance(*now, a.normal_(), b.normal_())
            return torch.where(now[2] > -0.1, (now[0].exp() - 1).clamp_min(0), 0).mean()

    return step


LENGTHS = itertools.cycle(np.random.default_rng(0).permutation(np.arange(n(3000, 40), n(4000, 60))).tolist())
"""Of utterances: none is as long as another, in any version."""


def utterances_of_all_lengths(fixed: bool) -> Step:
    """A vocoder whose convolutions are tuned for each new length of what is said; the remedy pads all to one length."""
    torch.backends.cudnn.benchmark = True
    most, width = n(4096, 64), n(384, 16)
    with torch.device(DEVICE):
        enter, leave = nn.Linear(80, width), nn.Linear(width, 256)
        layers = [nn.Conv1d(width, width, 7, padding=3) for _ in range(n(8, 2))]
        nn.ModuleList((enter, *layers, leave)).to(HALF)
        spectra = torch.randn(n(16, 2), most, 80, dtype=HALF)

    def step() -> torch.Tensor:
        length = next(LENGTHS)
        x = spectra[:, :length]
        x = pad(x, (0, 0, 0, most - length)) if fixed else x
        with torch.inference_mode():
            x = enter(x).transpose(1, 2).contiguous()
            for layer in layers:
                x = x + leaky_relu(layer(x), 0.1)
            sound: torch.Tensor = leave(x.transpose(1, 2)).tanh()
            return sound[:, :length]

    return step


PAIRS = (
    Pair("move_host_work", priorities_in_python, libraries=()),
    Pair("keep_on_device", screens_remembered_on_the_host, found=True, libraries=()),
    Pair("keep_on_device", activations_on_the_host, found=True, libraries=()),
    Pair("data_loader_workers", scans_thinned_in_turn, found=True, libraries=()),
    Pair("fuse_elementwise", barrier_options, early=("fix",), libraries=()),
    Pair("fixed_shapes", utterances_of_all_lengths, libraries=()),
)
