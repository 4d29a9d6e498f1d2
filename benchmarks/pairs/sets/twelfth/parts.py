"""Parts that several of the programs are built of."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, n

HEAD = n(64, 8)
"""The width of an attention's head."""


def heads(x):
    """Features of places, a dimension for the heads before the places."""
    return x.unflatten(-1, (-1, HEAD)).transpose(-2, -3)


class Layer(Module):
    """A layer of a transformer, its norms before."""

    def __init__(self, width, *, causal=False):
        self.causal = causal
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        told = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(told.transpose(-2, -3).flatten(-2))
        return x + self.down(F.gelu(self.up(self.between(x))))


def layers(width, depth, *, causal=False):
    """Layers of a transformer, on the device."""
    with torch.device(DEVICE):
        return nn.Sequential(*(Layer(width, causal=causal) for _ in range(depth)))


def mlp(*widths, between=nn.SiLU):
    """Linear layers and what is between them, on the device."""
    made = []
    with torch.device(DEVICE):
        for before, after in itertools.pairwise(widths):
            made += [nn.Linear(before, after), between()]
    return nn.Sequential(*made[:-1])


class Volumes(Module):
    """A U-Net for volumes: each stage halves the sides, the way back doubles them."""

    def __init__(self, width, stages, kinds):
        widths = [width * 2**stage for stage in range(stages)]
        self.first = self.twice(1, width)
        self.down = nn.ModuleList(self.twice(a, b) for a, b in itertools.pairwise(widths))
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(b, a, 2, 2) for a, b in itertools.pairwise(widths)
        )
        self.join = nn.ModuleList(self.twice(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv3d(width, kinds, 1)

    @staticmethod
    def twice(before, after):
        """Two convolutions."""
        return nn.Sequential(
            nn.Conv3d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm3d(after),
            nn.ReLU(inplace=True),
            nn.Conv3d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm3d(after),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        seen = [self.first(x)]
        for stage in self.down:
            seen.append(stage(F.max_pool3d(seen[-1], 2)))
        x = seen.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x = join(torch.cat((seen.pop(), up(x)), 1))
        return self.last(x)


def on_device(make):
    """What `make` makes, its weights on the device."""
    with torch.device(DEVICE):
        return make()


def noise(*shape, **how):
    """Normal numbers on the device."""
    return torch.randn(*shape, device=DEVICE, **how)


def whole(limit, *shape):
    """Whole numbers below a limit, on the device."""
    return torch.randint(0, limit, shape, device=DEVICE)
