"""Loops that call, wait and note more than they need to."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import conv1d, cross_entropy, elu, normalize, pad, prelu, rms_norm, silu
from torch.nn.utils.rnn import pad_sequence

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def echoes_removed_block_by_block(fixed: bool) -> Step:
    """A call's echo removed in eight blocks of sound by 24 small convolutions for each; the remedy is a CUDA graph."""
    channels, layers, long = n(32, 4), n(24, 3), n(160, 16)
    with torch.device(DEVICE):
        weights = [torch.randn(channels, channels, 3) / (3 * channels) for _ in range(layers)]
        biases, slope = [torch.randn(channels) for _ in range(layers)], torch.full((channels,), 0.2)
        blocks = torch.randn(n(8, 2), 2, channels, long)
        clean = torch.empty_like(blocks)

    @torch.no_grad()
    def step() -> None:
        for number, block in enumerate(blocks):
            x = block
            for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                holes = 2 ** (depth % 6)
                x = x + prelu(conv1d(pad(x, (2 * holes, 0)), weight, bias, dilation=holes), slope)
            clean[number] = x

    return graphed(step) if fixed else step


class Retention(nn.Module):
    """A layer that remembers in a matrix for each head, which fades with every word (RetNet)."""

    def __init__(self, width: int, heads: int, texts: int) -> None:
        super().__init__()
        self.heads, inner = heads, width // heads
        self.qkvg, self.out = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.register_buffer("fades", 1 - 2 ** (-5 - torch.arange(heads, dtype=torch.float32))[:, None, None])
        self.register_buffer("memory", torch.zeros(texts, heads, inner, inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v, gate = self.qkvg(rms_norm(x, x.shape[-1:])).chunk(4, -1)
        q, k, v = (one.unflatten(-1, (self.heads, -1)) for one in (q, k, v))
        self.memory.mul_(self.fades).add_(k[..., :, None] * v[..., None, :])
        read = rms_norm((q[..., None, :] @ self.memory)[..., 0, :], q.shape[-1:])
        x = x + self.out(read.flatten(1) * silu(gate))
        return x + self.down(silu(self.up(rms_norm(x, x.shape[-1:]))))


def retention_writes(fixed: bool) -> Step:
    """A retentive network of 12 layers in half precision writes eight words of 16 texts; the remedy is a CUDA graph."""
    width, words, texts = n(1024, 32), n(32000, 64), n(16, 2)
    with torch.device(DEVICE):
        embedding, head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        layers = nn.Sequential(*(Retention(width, n(8, 2), texts) for _ in range(n(12, 2))))
        last = torch.randint(0, words, (texts,))
    model = nn.Sequential(embedding, layers, head).to(torch.float16 if DEVICE == "cuda" else torch.bfloat16)

    @torch.no_grad()
    def step() -> None:
        for _ in range(n(8, 2)):
            last.copy_(model(last).argmax(-1))

    return graphed(step) if fixed else step


def _convolutions(width: int, blocks: int, out: int) -> nn.Sequential:
    with torch.device(DEVICE):
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4)]
        for _ in range(blocks):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(width, out, 1)).to(memory_format=torch.channels_last)


def _cropped(picture: torch.Tensor, side: int, where: str) -> torch.Tensor:
    room = picture.shape[-1] - side + 1
    top, left = (int(torch.randint(room, (), device=where).item()) for _ in range(2))
    light, contrast = (0.8 + 0.4 * torch.rand((), device=where).item() for _ in range(2))
    part = picture[:, top : top + side, left : left + side]
    return (part * light - 0.5) * contrast


def crops_drawn_on_device(fixed: bool) -> Step:
    """Pictures cropped and lit at random; each draw is made on the GPU and read; with the remedy the CPU draws."""
    side, many = n(160, 16), n(64, 2)
    model = _convolutions(n(128, 8), n(16, 2), 100)
    with torch.device(DEVICE):
        pictures = torch.rand(many, 3, n(224, 24), n(224, 24))
        kinds = torch.randint(0, 100, (many,))
    where = "cpu" if fixed else DEVICE

    def loss() -> Any:
        batch = torch.stack([_cropped(picture, side, where) for picture in pictures])
        with autocast():
            return cross_entropy(model(batch.to(memory_format=torch.channels_last)).mean((2, 3)), kinds)

    return train(model, loss)


def overlaps_read_class_by_class(fixed: bool) -> Step:
    """Scenes segmented in 60 classes, the overlap of each read in every step; the remedy adds them up on the GPU."""
    classes, side = n(60, 4), n(256, 16)
    model = _convolutions(n(128, 8), n(16, 2), classes)
    with torch.device(DEVICE):
        pictures = torch.randn(n(24, 2), 3, side, side).to(memory_format=torch.channels_last)
        wanted = torch.randint(0, classes, (n(24, 2), side // 4, side // 4))
        sums = torch.zeros(classes, 2)
    told = [[0.0, 0.0] for _ in range(classes)]

    def note(found: torch.Tensor) -> None:
        counted = []
        for one in range(classes):
            here, there = found == one, wanted == one
            shared, either = (here & there).sum(), (here | there).sum()
            if fixed:
                counted.append(torch.stack((shared, either)))
            else:
                told[one][0] += shared.item()
                told[one][1] += either.item()
        if fixed:
            sums.add_(torch.stack(counted))

    def loss() -> Any:
        with autocast():
            scores = model(pictures)
        note(scores.detach().argmax(1))
        return cross_entropy(scores.float(), wanted)

    return train(model, loss)


class Settings:
    """An experiment's settings, a tree, and what a run of it changes."""

    def __init__(self) -> None:
        names = ("data", "model", "layer", "optimizer", "schedule", "log", "export", "search")
        self.tree = {name: {f"{name}_{k}": [k, str(k), k / 7] for k in range(40)} for name in names}
        self.changes = {"layer": {"slope": [1.0], "share": [0.5]}}

    def merged(self) -> dict[str, Any]:
        """A copy of the tree with the changes."""
        tree: dict[str, Any] = copy.deepcopy(self.tree)
        for name, changed in self.changes.items():
            tree[name] |= copy.deepcopy(changed)
        return tree


class Configured(nn.Module):
    """A residual layer that asks the settings for its slope and share: once, or whenever it is called."""

    def __init__(self, width: int, settings: Settings, *, once: bool) -> None:
        super().__init__()
        self.inner, self.settings = nn.Linear(width, width), settings
        self.known = settings.merged()["layer"] if once else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = self.known or self.settings.merged()["layer"]
        return x + known["share"][0] * elu(self.inner(x), known["slope"][0])


def settings_merged_in_each_layer(fixed: bool) -> Step:
    """A network of tables whose 32 layers merge the experiment's settings when called; the remedy merges them once."""
    width, settings = n(512, 16), Settings()
    with torch.device(DEVICE):
        model = nn.Sequential(*(Configured(width, settings, once=fixed) for _ in range(n(32, 2))))
        rows = torch.randn(n(4096, 8), width)

    def loss() -> Any:
        with autocast():
            return model(rows).square().mean()

    return train(model, loss)


class Speaker(nn.Module):
    """Who speaks: convolutions over frames, their mean and spread, a vector."""

    def __init__(self, features: int, width: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(features, width, 5, padding=2)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.out = nn.Linear(2 * width, 192)

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        x = self.first(x) * real
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = (x + norm(layer(x).relu())) * real
        frames = real.sum(-1)
        mean = x.sum(-1) / frames
        spread = (((x - mean[..., None]) * real).square().sum(-1) / frames).clamp_min(1e-4).sqrt()
        return normalize(self.out(torch.cat((mean, spread), -1)), dim=-1)


def speakers_recognised_in_turn(fixed: bool) -> Step:
    """A network names the speakers of 32 pieces of a meeting, one by one, each read; the remedy pads and takes all."""
    generator = torch.Generator().manual_seed(0)
    features, half = n(80, 8), torch.float16 if DEVICE == "cuda" else torch.float32
    lengths = torch.randint(n(200, 5), n(500, 12), (n(32, 3),), generator=generator).tolist()
    with torch.device(DEVICE):
        model = Speaker(features, n(512, 16), n(12, 2)).to(half).eval()
        pieces = [torch.randn(length, features, dtype=half) for length in lengths]
        ends = torch.tensor(lengths)[:, None, None]
    who: list[torch.Tensor] = []

    @torch.no_grad()
    def step() -> None:
        who.clear()
        if fixed:
            batch = pad_sequence(pieces, batch_first=True).transpose(1, 2)
            real = torch.arange(batch.shape[-1], device=DEVICE) < ends
            who.extend(model(batch, real.to(half)).cpu())
            return
        for piece in pieces:
            real = torch.ones(1, 1, len(piece), device=DEVICE, dtype=half)
            who.append(model(piece.T[None], real).cpu())

    return step


PAIRS = (
    Pair("cuda_graph", echoes_removed_block_by_block, libraries=()),
    Pair("cuda_graph", retention_writes, libraries=()),
    Pair("remove_syncs", crops_drawn_on_device, found=True, libraries=()),
    Pair("remove_syncs", overlaps_read_class_by_class, found=True, libraries=()),
    Pair("move_host_work", settings_merged_in_each_layer, found=True, libraries=()),
    Pair("batch_calls", speakers_recognised_in_turn, libraries=()),
)
