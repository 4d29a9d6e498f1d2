"""Small networks of the four shapes that models must be right on; random weights, CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A transformer block with torch's fused attention."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(100, 64), nn.Embedding(32, 64)
        self.blocks = nn.Sequential(*(Block(64, 4, causal=causal) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 100, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, stride=8)
        self.blocks = nn.Sequential(*(Block(48, 3, causal=False) for _ in range(2)))
        self.head = nn.Linear(48, 10)

    def forward(self, images: Any) -> Any:
        return self.head(self.blocks(self.patches(images).flatten(2).transpose(1, 2)).mean(1))


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.short = (
            nn.Identity() if inside == 4 * width else nn.Conv2d(inside, 4 * width, 1, stride=stride)
        )

    def forward(self, x: Any) -> Any:
        return functional.relu(self.body(x) + self.short(x))


class ResNet50(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        layers.append(nn.MaxPool2d(3, 2, 1))
        inside = width
        for stage, depth in enumerate((3, 4, 6, 3)):
            for block in range(depth):
                layers.append(Bottleneck(inside, width << stage, 2 if stage and not block else 1))
                inside = 4 * (width << stage)
        self.body, self.head = nn.Sequential(*layers), nn.Linear(inside, 10)

    def forward(self, images: Any) -> Any:
        return self.head(self.body(images).mean((2, 3)))


class UNet(nn.Module):
    """Down, up with transposed convolutions, across with concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.top, self.low = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

    def forward(self, images: Any) -> Any:
        top = functional.relu(self.top(images))
        low = functional.relu(self.low(functional.max_pool2d(top, 2)))
        return self.out(functional.relu(self.join(torch.cat((top, self.up(low)), 1))))


def inputs() -> dict[str, tuple[nn.Module, Any]]:
    """Each network with an input."""
    torch.manual_seed(0)
    return {
        "gpt": (GPT(), torch.randint(0, 100, (2, 32))),
        "vit": (ViT(), torch.randn(2, 3, 32, 32)),
        "resnet50": (ResNet50(), torch.randn(2, 3, 64, 64)),
        "unet": (UNet(), torch.randn(2, 3, 32, 32)),
    }
