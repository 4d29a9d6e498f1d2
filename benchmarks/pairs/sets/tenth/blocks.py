"""Parts that several of the programs are built of."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, n


class Layer(Module):
    """A transformer's layer, its norms before."""

    def __init__(self, width):
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, mask=None, causal=False):
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (-1, n(64, 8))).transpose(1, 2) for one in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


def layers(width, count):
    """A transformer on the device."""
    return nn.Sequential(*(Layer(width) for _ in range(count))).to(DEVICE)


def perceptron(*widths):
    """Linear layers with ReLU between them, on the device."""
    parts = []
    for before, after in itertools.pairwise(widths):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1]).to(DEVICE)


def draw(*shape):
    """Normal numbers on the device."""
    return torch.randn(*shape, device=DEVICE)


def forever(loader):
    """Batches of epoch after epoch."""
    while True:
        yield from loader
