"""Parts that several of the programs are built of."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, n

HEAD = n(64, 8)
"""The width of an attention's head."""


def by_head(x):
    """Features, a dimension for the heads."""
    return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)


class Block(Module):
    """A block of a transformer, its norms before."""

    def __init__(self, width, *, causal=False):
        self.causal = causal
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def forward(self, x):
        q, k, v = map(by_head, self.qkv(self.before(x)).chunk(3, -1))
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Language(Module):
    """A causal language model."""

    def __init__(self, words, width, depth, length):
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, causal=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        h = self.words(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(h)))


def blocks(width, depth):
    """Blocks that see everything, on the device."""
    with torch.device(DEVICE):
        return nn.Sequential(*(Block(width) for _ in range(depth)))


def dense(*widths, between=nn.ReLU):
    """Linear layers and what is between them, on the device."""
    made = []
    with torch.device(DEVICE):
        for before, after in itertools.pairwise(widths):
            made += [nn.Linear(before, after), between()]
    return nn.Sequential(*made[:-1])


def normal(*shape, **how):
    """Normal numbers on the device."""
    return torch.randn(*shape, device=DEVICE, **how)


def ids_below(limit, *shape):
    """Whole numbers on the device."""
    return torch.randint(0, limit, shape, device=DEVICE)
