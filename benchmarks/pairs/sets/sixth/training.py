"""Training of one GPU, written blind: a mistake each that a review of the program would find."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, mse_loss, relu, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Block(nn.Module):
    """A layer of an encoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), max(width // 64, 1)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second(x))))


class RootMean(nn.Module):
    """A norm without mean, in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Residues(nn.Module):
    """A layer over the residues of a protein: rotated queries and keys, a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after, self.heads = RootMean(width), RootMean(width), width // n(64, 16)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 5 * width, bias=False), nn.Linear(5 * width // 2, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(_turned(q, cos, sin), _turned(k, cos, sin), v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        gate, up = self.up(self.after(x)).chunk(2, -1)
        return x + self.down(silu(gate) * up)


def protein_layers_eager(fixed: bool) -> Step:
    """A protein language model in bf16 with rotations, norms and gates in plain operations; the remedy compiles it."""
    width, length, head = n(1024, 32), n(512, 16), n(64, 16)
    with torch.device(DEVICE):
        layers = nn.ModuleList(Residues(width) for _ in range(n(6, 1)))
        model = nn.ModuleList((nn.Embedding(64, width), layers, nn.Linear(width, 64))).bfloat16()
        angles = torch.arange(length)[:, None] * 10_000 ** -(torch.arange(0, head, 2) / head)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        tokens, hidden = (torch.randint(0, 64, (n(32, 2), length)) for _ in range(2))
    for layer in layers:
        if fixed:
            layer.compile(dynamic=False)

    def loss() -> torch.Tensor:
        x = model[0](tokens)
        for layer in layers:
            x = layer(x, cos, sin)
        return cross_entropy(model[2](x).float().flatten(0, 1), hidden.flatten())

    return train(model, loss)


def radiographs_rate_by_layer(fixed: bool) -> Step:
    """A deep vision transformer with a learning rate for each layer, AdamW as it comes; the remedy is fused AdamW."""
    torch.set_float32_matmul_precision("high")
    width, layers = n(384, 32), n(24, 2)
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Linear(768, width), *(Block(width) for _ in range(layers)), nn.Linear(width, 14))
        patches, signs = torch.randn(n(12, 2), n(196, 9), 768), torch.rand(n(12, 2), 14).round()
    groups = []
    for depth, part in enumerate(model):
        for decay, wanted in ((0.05, True), (0.0, False)):
            some = [p for p in part.parameters() if (p.ndim > 1) == wanted]
            groups.append({"params": some, "lr": 1e-5 * 0.75 ** (layers + 1 - depth), "weight_decay": decay})
    optimizer = torch.optim.AdamW(groups, fused=True if fixed else None)

    def loss() -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(model(patches).mean(1), signs)

    return train(model, loss, optimizer)


def wake_word_reads_ranges(fixed: bool) -> Step:
    """A network trained to run in 8 bits, each range read to make its scale; with the remedy it stays on the device."""
    torch.set_float32_matmul_precision("high")
    width = n(512, 32)
    with torch.device(DEVICE):
        layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n(40, 3)))
        sounds, zero = torch.randn(n(8192, 16), width), torch.zeros((), dtype=torch.int32)

    def eight_bits(x: torch.Tensor) -> torch.Tensor:
        most = x.detach().abs().max()
        if fixed:
            return torch.fake_quantize_per_tensor_affine(x, (most / 127).clamp_min(1e-8), zero, -128, 127)
        return torch.fake_quantize_per_tensor_affine(x, max(most.item() / 127, 1e-8), 0, -128, 127)

    def loss() -> torch.Tensor:
        x = sounds
        for layer in layers:
            x = x + relu(nn.functional.linear(eight_bits(x), eight_bits(layer.weight), layer.bias))
        return mse_loss(x, sounds)

    return train(layers, loss)


class Dense(nn.Module):
    """A layer of a DenseNet: it sees all that the ones before it found."""

    def __init__(self, channels: int, growth: int, again: bool) -> None:
        super().__init__()
        self.again = again
        self.inner = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(inplace=True), nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False),
        )  # fmt: skip

    def join(self, *seen: torch.Tensor) -> torch.Tensor:
        return self.inner(torch.cat(seen, 1))

    def forward(self, seen: list[torch.Tensor]) -> list[torch.Tensor]:
        new = checkpoint(self.join, *seen, use_reentrant=False) if self.again else self.join(*seen)
        return [*seen, new]


def dense_layers_again(fixed: bool) -> Step:
    """A DenseNet in its memory-saving version, whose layers run again for backward; the remedy is the plain version."""
    growth, channels = n(48, 4), n(128, 8)
    parts: list[nn.Module] = []
    with torch.device(DEVICE):
        stem = nn.Conv2d(3, channels, 7, 4, 3, bias=False)
        for stage in range(2):
            parts += [nn.Conv2d(channels, channels // 2, 2, 2)] * stage
            channels = channels // 2 if stage else channels
            parts += [Dense(channels + number * growth, growth, not fixed) for number in range(n(8, 2))]
            channels += n(8, 2) * growth
        model = nn.ModuleList((stem, *parts, nn.Linear(channels, 100))).to(memory_format=torch.channels_last)
        pictures, kinds = torch.randn(n(128, 2), 3, n(192, 32), n(192, 32)), torch.randint(0, 100, (n(128, 2),))
    pictures = pictures.contiguous(memory_format=torch.channels_last)

    def loss() -> torch.Tensor:
        with autocast():
            seen = [model[0](pictures)]
            for part in parts:
                seen = part(seen) if isinstance(part, Dense) else [part(torch.cat(seen, 1))]
            return cross_entropy(model[-1](torch.cat(seen, 1).mean((2, 3))), kinds)

    return train(model, loss)


def clip_frames_in_turn(fixed: bool) -> Step:
    """Gestures in clips of 32 frames, a small network called for each frame; with the remedy for all frames at once."""
    frames, clips, side = n(32, 3), n(8, 2), n(64, 16)
    sizes = [3, *(n(size, 8) for size in (32, 64, 128, 256))]
    with torch.device(DEVICE):
        inner: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            inner += [nn.Conv2d(before, after, 3, 2, 1), nn.GroupNorm(4, after), nn.ReLU()]
            inner += [nn.Conv2d(after, after, 3, 1, 1), nn.GroupNorm(4, after), nn.ReLU()]
        look = nn.Sequential(*inner, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model = nn.ModuleList((look, nn.LSTM(sizes[-1], 256, batch_first=True), nn.Linear(256, 27)))
        pictures, kinds = torch.randn(clips, frames, 3, side, side), torch.randint(0, 27, (clips,))

    def loss() -> torch.Tensor:
        with autocast():
            if fixed:
                seen = look(pictures.flatten(0, 1)).unflatten(0, (clips, frames))
            else:
                seen = torch.stack([look(pictures[:, at]) for at in range(frames)], 1)
            return cross_entropy(model[2](model[1](seen)[0][:, -1]), kinds)

    return train(model, loss)


class Mixing(nn.Module):
    """A layer of an MLP-Mixer: patches are mixed, then channels."""

    def __init__(self, width: int, patches: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, width // 2), nn.GELU(), nn.Linear(width // 2, patches))
        self.within = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.second(x))


def bird_songs_four_at_a_time(fixed: bool) -> Step:
    """An MLP-Mixer of 16 layers on spectra of bird songs, in bf16, four a step; with the remedy it takes 32."""
    width, patches, batch = n(512, 32), n(196, 9), 32 if fixed else 4
    with torch.device(DEVICE):
        layers = [Mixing(width, patches) for _ in range(n(16, 2))]
        model = nn.Sequential(nn.Linear(256, width), *layers, nn.LayerNorm(width), nn.Linear(width, 200))
        spectra, birds = torch.randn(batch, patches, 256), torch.randint(0, 200, (batch,))

    def loss() -> torch.Tensor:
        with autocast():
            return cross_entropy(model(spectra).mean(1), birds)

    return train(model, loss)


PAIRS = (
    Pair("compile", protein_layers_eager, found=True, early=("fix",), libraries=()),
    Pair("fused_optimizer", radiographs_rate_by_layer, found=True, libraries=()),
    Pair("remove_syncs", wake_word_reads_ranges, found=True, libraries=()),
    Pair("no_recompute", dense_layers_again, found=True, libraries=()),
    Pair("batch_calls", clip_frames_in_turn, found=True, libraries=()),
    Pair("larger_batch", bird_songs_four_at_a_time, found=True, as_much=8.0, libraries=()),
)
