"""Services as they are often written: rankings, texts token by token, drawings, names of objects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention, silu

from benchmarks.pairs.program import DEVICE, Pair, graphed, n

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step

HALF = torch.float16 if DEVICE == "cuda" else torch.float32


def dlrm_table_by_table(fixed: bool) -> Step:
    """A DLRM ranks 1024 candidates and calls an embedding bag for each of its 40 features."""
    tables, rows, width, batch = 40, n(50_000, 50), 64, n(1024, 8)
    bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)).to(DEVICE)
    joined = nn.EmbeddingBag(rows * tables, width, mode="sum", device=DEVICE)
    words = torch.randint(0, rows, (tables, batch, 4), device=DEVICE)
    shifted = (words + rows * torch.arange(tables, device=DEVICE)[:, None, None]).reshape(-1, 4)
    dense = torch.randn(batch, 16, device=DEVICE)
    bottom = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU()).to(DEVICE)
    top = nn.Sequential(nn.Linear(width + (tables + 1) ** 2, 256), nn.ReLU(), nn.Linear(256, 1)).to(DEVICE)

    def step() -> Any:
        with torch.inference_mode():
            x = bottom(dense)
            if fixed:
                found = joined(shifted).view(tables, batch, width)
            else:
                found = torch.stack([bag(some) for bag, some in zip(bags, words, strict=True)])
            both = torch.cat((x[:, None], found.transpose(0, 1)), 1)
            return top(torch.cat((x, torch.bmm(both, both.transpose(1, 2)).flatten(1)), 1)).sigmoid()

    return step


class Cached(nn.Module):
    """A decoder's layer that keeps keys and values in place."""

    def __init__(self, width: int, heads: int, batch: int, length: int) -> None:
        super().__init__()
        self.heads, shape = heads, (batch, heads, length, width // heads)
        self.norm, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: torch.Tensor, at: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(len(x), 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        y = scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


def decoder_token_by_token(fixed: bool) -> Step:
    """A decoder of eight layers with a static cache writes four texts; a step is a token."""
    width, length, batch = n(512, 64), n(512, 32), 4
    layers = nn.ModuleList(Cached(width, 8, batch, length) for _ in range(n(8, 1))).to(DEVICE, HALF)
    words, head = nn.Embedding(8192, width).to(DEVICE, HALF), nn.Linear(width, 8192).to(DEVICE, HALF)
    token = torch.zeros(batch, 1, dtype=torch.long, device=DEVICE)
    at, places = torch.zeros(1, dtype=torch.long, device=DEVICE), torch.arange(length, device=DEVICE)

    def step() -> None:
        with torch.inference_mode():
            x, seen = words(token), (places <= at)[None, None, None]
            for layer in layers:
                x = layer(x, at, seen)
            token.copy_(head(x).argmax(-1))
            at.add_(1).remainder_(length)

    return graphed(step) if fixed else step


class Diffuser(nn.Module):
    """A block of a diffusion transformer: everything is shifted, scaled and gated by the time."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.change = heads, nn.Linear(width, 6 * width)
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        a, b, c, d, e, f = self.change(silu(time))[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.first(x) * (1 + b) + a).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + c * self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + f * self.down(nn.functional.gelu(self.up(self.second(x) * (1 + e) + d), approximate="tanh"))


class Denoiser(nn.Module):
    """Blocks of a diffusion transformer."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Diffuser(width, width // 64) for _ in range(layers))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, time)
        return x


def dit_eager(fixed: bool) -> Step:
    """A diffusion transformer draws 32 pictures in bf16, eager; the remedy is torch.compile."""
    model = Denoiser(n(4, 1), n(768, 64)).to(DEVICE, torch.bfloat16).eval()
    x = torch.randn(n(32, 1), n(512, 16), n(768, 64), device=DEVICE, dtype=torch.bfloat16)
    time = torch.randn(len(x), n(768, 64), device=DEVICE, dtype=torch.bfloat16)
    forward = torch.compile(model) if fixed else model

    def step() -> None:
        with torch.inference_mode():
            forward(x, time)

    return step


def alibi_from_host(fixed: bool) -> Step:
    """A scorer of long texts whose position biases (ALiBi) are a plain tensor, copied to the GPU in every step."""
    width, heads, length = n(768, 64), n(12, 4), n(1024, 16)
    far = (torch.arange(length)[None] - torch.arange(length)[:, None]).clamp(max=0)
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    bias = slopes[:, None, None] * far
    bias = bias.to(DEVICE) if fixed else bias
    layers = nn.ModuleList(nn.ModuleList((nn.Linear(width, 3 * width), nn.Linear(width, width))) for _ in range(4))
    layers = layers.to(DEVICE, HALF)
    x = torch.randn(n(4, 1), length, width, device=DEVICE, dtype=HALF)

    def step() -> None:
        with torch.inference_mode():
            y, mask = x, bias.to(DEVICE).to(HALF)[None]
            for qkv, out in layers:
                q, k, v = qkv(y).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
                y = y + out(scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))

    return step


def crops_one_by_one(fixed: bool) -> Step:
    """Thirty objects are cut out of a picture; timm's ResNet-18 names each, and the name is read."""
    import timm

    model = timm.create_model("resnet18").to(DEVICE, HALF).eval()
    picture = torch.randn(3, 720, 1280, device=DEVICE, dtype=HALF)
    corners = np.random.default_rng(0).integers(0, (590, 1150), (n(30, 2), 2)).tolist()

    def step() -> list[int]:
        with torch.inference_mode():
            crops = [picture[:, y : y + 128, x : x + 128] for y, x in corners]
            if fixed:
                return model(torch.stack(crops)).argmax(-1).tolist()
            return [int(model(crop[None]).argmax(-1).item()) for crop in crops]

    return step


WIDTHS = itertools.cycle(np.random.default_rng(0).permutation(512) + 256)
"""A width comes once in a process, whatever part it is in, as in a long run's first hours."""


def ocr_any_width(fixed: bool) -> Step:
    """Lines of text as wide as they come, cuDNN's benchmark mode on; the remedy pads them to four widths."""
    layers = [
        x
        for a, b in itertools.pairwise((1, 64, 128, 128, 256))
        for x in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)))
    ]
    model = nn.Sequential(*layers).to(DEVICE, HALF).eval()
    head = nn.Linear(512, 96).to(DEVICE, HALF)

    def step() -> None:
        torch.backends.cudnn.benchmark = True
        with torch.inference_mode():
            x = torch.zeros(n(16, 1), 1, 32, next(WIDTHS), device=DEVICE, dtype=HALF)
            if fixed:
                x = pad(x, (0, -x.shape[-1] % 128))
            head(model(x).flatten(1, 2).transpose(1, 2)).argmax(-1)

    return step


PAIRS = (
    Pair("batch_calls", dlrm_table_by_table, libraries=(), fixed_too=False),
    Pair("cuda_graph", decoder_token_by_token, libraries=(), fixed_too=False),
    Pair("keep_on_device", alibi_from_host, libraries=()),
    Pair("compile", dit_eager, libraries=(), early=("fix",)),
    Pair("batch_calls", crops_one_by_one, libraries=("timm",), fixed_too=False),
    Pair("fixed_shapes", ocr_any_width, libraries=(), fixed_too=False),
)
