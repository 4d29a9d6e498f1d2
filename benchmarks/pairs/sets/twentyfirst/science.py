"""Decisions and science: grippers, arcades, loads, winds; good: tides."""

import itertools
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device

PINNED = DEVICE == "cuda"


def _critic(seen, width):
    """A critic with norms between its layers, as DroQ has it."""
    made = []
    for before in (seen, width, width):
        made += [nn.Linear(before, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(*made, nn.Linear(width, 1))


@pair("freeze_parameters")
def grippers_critics_learn_for_nobody(fixed):
    """REDQ teaches a gripper with ten critics (three layers, 256 wide, with norms), 256 memories a step on the GPU,
    TF32 allowed. Kernels are short, and launches set the pace. The loss of the actor goes through the mean of all ten
    critics, and the backward pass computes gradients of their 140 weights, too, which `zero_grad` throws away before
    the critics learn. The remedy is `requires_grad_(False)` for the critics while the actor learns."""
    torch.set_float32_matmul_precision("high")
    rows, seen, moves, width, count = n(256, 4), n(60, 5), n(8, 2), n(256, 16), n(10, 3)
    with torch.device(DEVICE):
        critics = nn.ModuleList(_critic(seen + moves, width) for _ in range(count))
        targets = nn.ModuleList(_critic(seen + moves, width) for _ in range(count))
    targets.load_state_dict(critics.state_dict())
    targets.requires_grad_(requires_grad=False)
    actor = nn.Sequential(mlp(seen, width, width, moves), nn.Tanh())
    learn_critics = torch.optim.AdamW(critics.parameters(), 3e-4, fused=True)
    learn_actor = torch.optim.AdamW(actor.parameters(), 3e-4, fused=True)
    now, after = noise(2, rows, seen)
    did, reward = noise(rows, moves), noise(rows, 1)
    kept, learnt = list(targets.parameters()), list(critics.parameters())

    def wanted():
        with torch.no_grad():
            both = torch.cat((after, actor(after)), 1)
            return reward + 0.99 * torch.minimum(targets[0](both), targets[1](both))

    def step():
        true, both = wanted(), torch.cat((now, did), 1)
        loss = sum(F.mse_loss(critic(both), true) for critic in critics)
        learn_critics.zero_grad()
        loss.backward()
        learn_critics.step()
        critics.requires_grad_(requires_grad=not fixed)
        both = torch.cat((now, actor(now)), 1)
        loss = -torch.cat([critic(both) for critic in critics], 1).mean()
        learn_actor.zero_grad()
        loss.backward()
        learn_actor.step()
        critics.requires_grad_(requires_grad=True)
        with torch.no_grad():
            torch._foreach_lerp_(kept, learnt, 0.005)

    return step


class _Attend(Module):
    """Causal attention in the letters of Einstein's sum, or by PyTorch's function."""

    def __init__(self, width, heads, long, *, fused):
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.fused = heads, fused
        later = torch.ones(long, long, dtype=torch.bool).triu(1)
        self.register_buffer("later", later)

    def forward(self, x):
        rows, long, width = x.shape
        q, k, v = self.qkv(x).view(rows, long, 3, self.heads, -1).unbind(2)
        if self.fused:
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
            told = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        else:
            odds = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(width // self.heads)
            odds = odds.masked_fill(self.later, -math.inf)
            told = torch.einsum("bhij,bjhd->bihd", odds.softmax(-1), v)
        return self.out(told.reshape(rows, long, width))


class _Decider(Module):
    """A decision transformer: what comes in, what was seen and what was done are three places of a moment."""

    def __init__(self, seen, moves, width, depth, heads, long, *, fused):
        self.into = nn.ModuleList(nn.Linear(x, width) for x in (1, seen, moves))
        self.attend = nn.ModuleList(
            _Attend(width, heads, 3 * long, fused=fused) for _ in range(depth)
        )
        self.think = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.last = nn.Linear(width, moves)

    def forward(self, *some):
        told = [layer(one) for layer, one in zip(self.into, some, strict=True)]
        x = torch.stack(told, 2).flatten(1, 2)
        norms = iter(self.norms)
        for attend, think in zip(self.attend, self.think, strict=True):
            x = x + attend(next(norms)(x))
            x = x + think(next(norms)(x))
        return self.last(x[:, 1::3])


@pair("fused_attention", found=True)
def arcades_decided_in_einsum(fixed):
    """A decision transformer (12 layers, 256 wide, eight heads) learns in bf16 autocast what to do in an arcade, from
    64 stretches of 30 moments, three places each. Kernels are short, and the host sets the pace. Attention is written
    with `torch.einsum`: products, a scale, `masked_fill`, a softmax, and copies that turn heads around. The remedy is
    `scaled_dot_product_attention` with `is_causal=True`, one launch for all of them."""
    rows, long, seen, moves = n(64, 2), n(30, 4), n(17, 4), n(6, 2)
    model = on_device(
        lambda: _Decider(seen, moves, n(256, 16), n(12, 2), n(8, 2), long, fused=fixed)
    ).train()
    some = noise(rows, long, 1), noise(rows, long, seen), noise(rows, long, moves)
    true = noise(rows, long, moves)
    return train(model, lambda: F.mse_loss(model(*some).float().tanh(), true), cast=True)


class _Stack(Module):
    """A block of N-BEATS: explains a part of the past, and foretells a part of what comes."""

    def __init__(self, past, width, depth, ahead):
        sizes = (past, *(width,) * depth)
        self.body = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.back, self.ahead = nn.Linear(width, past), nn.Linear(width, ahead)

    def forward(self, x):
        y = x
        for layer in self.body:
            y = F.relu(layer(y))
        return x - self.back(y), self.ahead(y)


@pair("cuda_graph", found=True)
def loads_foretold_block_by_block(fixed):
    """An N-BEATS (30 blocks of four layers, 512 wide) learns what a district's heating takes in the next 48 hours, from
    512 windows of 240 hours a step, TF32 allowed. Each block is a dozen kernels of a few microseconds, there, and
    some 30 back, and the GPU waits for their launches. Shapes never change. The remedy captures the step in a
    CUDA graph (AdamW with `capturable=True`)."""
    torch.set_float32_matmul_precision("high")
    rows, past, ahead, width = n(512, 4), n(240, 10), n(48, 4), n(512, 16)
    with torch.device(DEVICE):
        blocks = nn.ModuleList(_Stack(past, width, 4, ahead) for _ in range(n(30, 2))).train()
    optimizer = torch.optim.AdamW(blocks.parameters(), 1e-5, fused=True, capturable=PINNED)
    windows, true = noise(rows, past), noise(rows, ahead)

    def loss():
        x, told = windows, 0.0
        for block in blocks:
            x, more = block(x)
            told = told + more
        return F.smooth_l1_loss(told, true)

    step = train(optimizer, loss)
    return graphed(step) if fixed else step


class _Winds(Module):
    """A transformer that foretells fields of the weather in squares of 8 x 8."""

    def __init__(self, fields, width, depth, high, wide):
        self.first = nn.Conv2d(fields, width, 8, 8)
        self.last = nn.ConvTranspose2d(width, fields, 8, 8)
        self.body = layers(width, depth)
        self.places = nn.Parameter(torch.zeros((high // 8) * (wide // 8), width))
        self.shape = high // 8, wide // 8

    def forward(self, x):
        x = self.first(x).flatten(2).transpose(1, 2).contiguous() + self.places
        return self.last(self.body(x).transpose(1, 2).unflatten(2, self.shape))


@pair("low_precision", found=True)
def winds_weighed_in_doubles(fixed):
    """A transformer (eight layers, 512 wide) learns in bf16 autocast how 69 fields of the weather change in six hours,
    on a grid of 360 x 720, one moment a step. The mean and spread of each field, and how much a latitude counts
    (its cosine), were made by NumPy, in doubles; so the error and all that the loss makes of it are doubles, 143
    MB each, there and back. The remedy makes these three fp32."""
    fields, high, wide = n(69, 3), n(360, 16), n(720, 24)
    model = on_device(lambda: _Winds(fields, n(512, 16), n(8, 1), high, wide)).train()
    random = np.random.default_rng(0)
    kind = np.float32 if fixed else np.float64
    mean, spread = random.standard_normal(fields), random.uniform(0.5, 2.0, fields)
    latitude = np.cos(np.deg2rad(np.linspace(-89.75, 89.75, high)))
    counts = (latitude / latitude.mean())[:, None]
    mean, spread, counts = (
        torch.from_numpy(one.astype(kind)).to(DEVICE)
        for one in (mean[:, None, None], spread[:, None, None], counts)
    )
    now, after = noise(2, 1, fields, high, wide)

    def loss():
        told = model(((now - mean) / spread).float()).float()
        true = (after - mean) / spread
        wrong = told - true
        bias = (wrong.mean((2, 3)).square()).mean()
        east = (wrong - wrong.roll(1, 3)) * counts
        return (wrong.square() * counts).mean() + 0.1 * east.square().mean() + bias

    return train(model, loss, cast=True)


class _Waves(Module):
    """A layer of a Fourier neural operator."""

    def __init__(self, width, modes):
        shape = (2, modes, modes, width, width, 2)
        self.weight = nn.Parameter(torch.randn(shape) / width)
        self.beside, self.modes = nn.Conv2d(width, width, 1), modes

    def forward(self, x):
        waves, m = torch.fft.rfft2(x), self.modes
        weight = torch.view_as_complex(self.weight)
        out = torch.zeros_like(waves)
        out[:, :, :m, :m] = torch.einsum("bixy,xyio->boxy", waves[:, :, :m, :m], weight[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,xyio->boxy", waves[:, :, -m:, :m], weight[1])
        return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.beside(x))


@good("cuda_graph", "fused_optimizer", found=True)
def good_tides(version):
    """A Fourier neural operator (four layers, 32 wide, 16 waves each way) learns how tides move in 24 bays of 256 x 256
    points, TF32 allowed, with AdamW as it comes. Its weights are few; Fourier transforms and passes over 200 MB fill
    the GPU, and the host is ahead of it. Neither a CUDA graph nor the fused AdamW brings much."""
    torch.set_float32_matmul_precision("high")
    rows, width, side = n(24, 2), n(32, 4), n(256, 16)
    with torch.device(DEVICE):
        body = [_Waves(width, n(16, 3)) for _ in range(4)]
        model = nn.Sequential(nn.Conv2d(3, width, 1), *body, nn.Conv2d(width, 3, 1)).train()
    captured = version == "cuda_graph"
    fused = True if version == "fused_optimizer" else None
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-5, fused=fused, capturable=captured and PINNED
    )
    now, after = noise(2, rows, 3, side, side)
    step = train(optimizer, lambda: F.mse_loss(model(now), after))
    return graphed(step) if captured else step
