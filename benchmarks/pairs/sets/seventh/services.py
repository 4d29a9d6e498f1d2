"""Trained models that answer, and what keeps them from answering sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear

from benchmarks.pairs.program import DEVICE, Pair, graphed, n

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pairs.program import Step

HALF = torch.float16 if DEVICE == "cuda" else torch.float32


class Recurrent(nn.Module):
    """A layer of a language model without attention (RWKV): it remembers its last input and two sums."""

    def __init__(self, width: int, texts: int) -> None:
        super().__init__()
        self.r, self.k, self.v, self.out, self.gate = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.mix = nn.Parameter(torch.rand(5, width))
        self.decay, self.bonus = nn.Parameter(torch.rand(width)), nn.Parameter(torch.zeros(width))
        self.past: torch.Tensor
        self.register_buffer("past", torch.zeros(4, texts, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before, above, below, inner = self.past
        now, size = layer_norm(x, x.shape[-1:]), x.shape[-1:]
        r, k, v = (
            product(torch.lerp(before, now, mix))
            for product, mix in zip((self.r, self.k, self.v), self.mix, strict=False)
        )
        weight, here = k.clamp(max=8).exp(), (self.bonus + k).clamp(max=8).exp()
        x = x + self.out(r.sigmoid() * (above + here * v) / (below + here + 1e-3))
        before.copy_(now)
        above.mul_(self.decay).add_(weight * v)
        below.mul_(self.decay).add_(weight)
        second = layer_norm(x, size)
        wide = self.up(torch.lerp(inner, second, self.mix[3])).relu().square()
        x = x + self.gate(torch.lerp(inner, second, self.mix[4])).sigmoid() * self.down(wide)
        inner.copy_(second)
        return x


def stories_word_by_word(fixed: bool) -> Step:
    """A recurrent language model (RWKV) continues 16 stories by four words, eagerly; the remedy is a CUDA graph."""
    width, words, many = n(1024, 32), n(16_384, 64), n(16, 2)
    with torch.device(DEVICE):
        layers = nn.Sequential(*(Recurrent(width, many) for _ in range(n(20, 2)))).to(torch.bfloat16).eval()
        table, head = torch.randn(words, width, dtype=torch.bfloat16), nn.Linear(width, words, dtype=torch.bfloat16)
        word = torch.zeros(many, dtype=torch.long)

    def write() -> None:
        with torch.no_grad():
            word.copy_(head(layer_norm(layers(table[word]), (width,))).argmax(-1))

    once = graphed(write) if fixed else write

    def step() -> list[list[int]]:
        told = []
        for _ in range(4):
            once()
            told.append(word.clone())
        texts: list[list[int]] = torch.stack(told, 1).tolist()
        return texts

    return step


def snake(x: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    """A periodic activation, with a rate for each channel."""
    return x + (rate * x).sin() ** 2 / (rate + 1e-4)


class Stage(nn.Module):
    """A stage of a vocoder: more samples, fewer channels, and three residual units."""

    def __init__(self, channels: int, factor: int, activation: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.activation, after = activation, channels // 2
        self.before = nn.Parameter(torch.ones(1, channels, 1))
        self.longer = nn.ConvTranspose1d(channels, after, 2 * factor, factor, factor // 2)
        self.rates = nn.ParameterList(nn.Parameter(torch.ones(1, after, 1)) for _ in range(6))
        self.wide = nn.ModuleList(nn.Conv1d(after, after, 7, padding=3 * d, dilation=d) for d in (1, 3, 5))
        self.near = nn.ModuleList(nn.Conv1d(after, after, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.longer(self.activation(x, self.before))
        for number, (wide, near) in enumerate(zip(self.wide, self.near, strict=True)):
            inner = wide(self.activation(x, self.rates[2 * number]))
            x = x + near(self.activation(inner, self.rates[2 * number + 1]))
        return x


def voices_snake_by_hand(fixed: bool) -> Step:
    """A vocoder in half precision voices 16 texts, its periodic activation written out; the remedy compiles that."""
    activation = torch.compile(snake, dynamic=False) if fixed else snake
    channels, factors = n(512, 16), (8, 8, 2, 2)[: n(4, 2)]
    with torch.device(DEVICE):
        first = nn.Conv1d(80, channels, 7, padding=3)
        stages = [Stage(channels >> number, factor, activation) for number, factor in enumerate(factors)]
        last = nn.Conv1d(channels >> len(stages), 1, 7, padding=3)
        model = nn.Sequential(first, *stages, last, nn.Tanh()).to(HALF).eval()
        spectra = torch.randn(n(16, 1), 80, n(256, 16), dtype=HALF)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return model(spectra)

    return step


def fields_tile_by_tile(fixed: bool) -> Step:
    """torchvision's LR-ASPP finds fields on 16 tiles of a picture, called for each; the remedy calls it once."""
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    with torch.device(DEVICE):
        model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=12)
    model = model.to(HALF, memory_format=torch.channels_last).eval()
    tiles = torch.randn(n(16, 2), 3, n(320, 64), n(320, 64), device=DEVICE, dtype=HALF)
    tiles = tiles.contiguous(memory_format=torch.channels_last)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            parts = (tiles,) if fixed else tiles.split(1)
            return torch.cat([model(part)["out"].argmax(1).to(torch.uint8).cpu() for part in parts])

    return step


def doses_drawn_in_turn(fixed: bool) -> Step:
    """How sure a dose is: 30 passes with dropout through residual layers, one by one; the remedy has one of all."""
    torch.set_float32_matmul_precision("high")
    width, samples = n(512, 16), n(30, 3)
    with torch.device(DEVICE):
        layers = [
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(width, width)
            )
            for _ in range(n(10, 2))
        ]
        last, patients = nn.Linear(width, 4), torch.randn(n(256, 2), width)

    def told(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = x + layer(x)
        return last(x)

    def step() -> list[torch.Tensor]:
        with torch.inference_mode():
            if fixed:
                drawn = told(patients.repeat(samples, 1)).unflatten(0, (samples, -1))
            else:
                drawn = torch.stack([told(patients) for _ in range(samples)])
            return [one.cpu() for one in torch.std_mean(drawn, 0)]

    return step


def names_sent_for_each_batch(fixed: bool) -> Step:
    """timm's ViT names pictures by 40,000 names' vectors, sent with each batch; the remedy keeps them on the GPU."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("vit_small_patch16_224", num_classes=0).to(HALF).eval()
        pictures = torch.randn(n(96, 1), 3, 224, 224, dtype=HALF)
    names = torch.randn(n(40_000, 50), model.num_features)
    names = names.to(DEVICE) if fixed else names

    def step() -> torch.Tensor:
        with torch.inference_mode():
            seen = nn.functional.normalize(model(pictures), dim=-1)
            return linear(seen, names.to(DEVICE).to(HALF)).topk(5).indices.cpu()

    return step


PAIRS = (
    Pair("cuda_graph", stories_word_by_word, libraries=()),
    Pair("fuse_elementwise", voices_snake_by_hand, libraries=(), early=("fix",)),
    Pair("batch_calls", fields_tile_by_tile, libraries=("torchvision.models.segmentation",)),
    Pair("batch_calls", doses_drawn_in_turn, libraries=()),
    Pair("keep_on_device", names_sent_for_each_batch, libraries=("timm",)),
)
