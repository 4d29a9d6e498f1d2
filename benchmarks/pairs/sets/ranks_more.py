"""More programs of two ranks, of PyTorch alone: models are made on the device, so that they are
there at once."""

import contextlib
import itertools
import lzma
import zlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train
from benchmarks.pairs.sets.ranks import RANK, parallel, random_tokens

SELDOM = 500
"""Steps between those in which a fixed program logs: the first is one, and none that is timed."""


class Block(Module):  # A decoder's layer
    def __init__(self, width):
        self.before, self.after, self.heads = (
            nn.LayerNorm(width),
            nn.LayerNorm(width),
            width // n(128, 16),
        )
        self.qkv, self.out = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.up, self.down = (
            nn.Linear(width, 4 * width, bias=False),
            nn.Linear(4 * width, width, bias=False),
        )

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        return x + self.down(F.gelu(self.up(self.after(x))))


def _decoder(layers, width):
    words = n(8192, 128)
    with torch.device(DEVICE):
        blocks = [Block(width) for _ in range(layers)]
        return nn.Sequential(nn.Embedding(words, width), *blocks, nn.Linear(width, words))


def _next_word(model, tokens):
    with autocast():
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def _deep(layers, width, out):
    with torch.device(DEVICE):
        inner = [x for _ in range(layers) for x in (nn.Linear(width, width), nn.SiLU())]
        return nn.Sequential(*inner, nn.Linear(width, out))


@pair("larger_buckets", found=True)
def tabular_tiny_buckets(fixed):
    """A deep and narrow network for tables under DDP, gradients reduced in buckets of 0.1 MB for
    25."""
    width = n(192, 32)
    ddp = parallel(_deep(n(160, 3), width, 1), bucket_cap_mb=25 if fixed else 0.1)
    rows = torch.randn(n(4096, 16), width, device=DEVICE)
    return train(ddp, lambda: ddp(rows).square().mean())


@pair("no_sync_accumulation", found=True)
def decoder_reduces_each_part(fixed):
    """A decoder under DDP that accumulates six parts of a batch, gradients reduced with each
    part."""
    model = parallel(_decoder(n(5, 1), n(2048, 32)))
    parts = [random_tokens(1, n(513, 17)) for _ in range(n(6, 2))]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        for number, part in enumerate(parts, 1):
            with model.no_sync() if fixed and number < len(parts) else contextlib.nullcontext():
                (_next_word(model, part) / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("keep_parameters", found=True, libraries=("torch.distributed.fsdp",))
def decoder_gathers_again(fixed):
    """A wide decoder under FSDP2 on one short text a step; layers are given back after forward and
    gathered again."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = _decoder(n(6, 1), n(4096, 32))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=not fixed)
    fully_shard(model, mp_policy=policy)
    tokens = random_tokens(1, n(513, 17))
    return train(model, lambda: _next_word(model, tokens))


class Enter(torch.autograd.Function):  # Into layers split over the ranks: their gradients are added
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Leave(torch.autograd.Function):  # Out of layers split over the ranks: their results are added
    @staticmethod
    def forward(context, x):
        context.mark_dirty(x)
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient


class Split(Module):  # A residual layer whose inner width is halved between the ranks
    def __init__(self, width):
        self.before = nn.LayerNorm(width)
        self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x):
        return x + Leave.apply(self.down(F.gelu(self.up(Enter.apply(self.before(x))))))


@pair("remove_syncs", found=True)
def tensor_parallel_norms_read(fixed):
    """Tensor-parallel layers in bf16; each weight's gradient norm is added over the ranks and read
    in every step."""
    width = n(1024, 32)
    model = nn.Sequential(*(Split(width) for _ in range(n(24, 2)))).to(DEVICE, torch.bfloat16)
    weights = [w for layer in model for w in (layer.up.weight, layer.down.weight)]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    x = torch.randn(n(6144, 16), width, device=DEVICE, dtype=torch.bfloat16)
    count = itertools.count()
    told = {}

    def step():
        model(x).float().square().mean().backward()
        for number, w in enumerate(weights) if next(count) % (SELDOM if fixed else 1) == 0 else ():
            square = w.grad.float().square().sum()
            dist.all_reduce(square)
            told[number] = square.sqrt().item()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _convolutions(width, norm):
    sizes = itertools.pairwise((3, *[width] * n(7, 2)))
    layers = [
        x
        for a, b in sizes
        for x in (nn.Conv2d(a, b, 3, 2 if a == 3 else 1, 1, bias=False), norm(b), nn.ReLU())
    ]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100))
    return parallel(model.to(DEVICE, memory_format=torch.channels_last))


def _kind_loss(model, pictures, kinds):
    with autocast():
        x = (
            pictures.to(DEVICE, non_blocking=True)
            .float()
            .div(255)
            .contiguous(memory_format=torch.channels_last)
        )
        return F.cross_entropy(model(x), kinds)


@pair("fix_straggler", found=True)
def pictures_logged_by_rank_0(fixed):
    """Pictures classified under DDP; rank 0 packs forty of them for its log in every step."""
    model = _convolutions(n(128, 8), nn.BatchNorm2d)
    shape = (n(192, 4), 3, n(96, 16), n(96, 16))
    pictures = torch.randint(0, 256, shape, dtype=torch.uint8, pin_memory=DEVICE == "cuda")
    kinds = torch.randint(0, 100, shape[:1], device=DEVICE)
    trained = train(model, lambda: _kind_loss(model, pictures, kinds))
    count = itertools.count()
    logged = []

    def step():
        if RANK == 0 and next(count) % (SELDOM if fixed else 1) == 0:
            logged[:] = [zlib.compress(picture.numpy().tobytes()) for picture in pictures[:40]]
        trained()

    return step


@pair("fix_straggler", found=True)
def packed_files_on_one_rank(fixed):
    """Pictures classified with synchronized batch norm; rank 1's files are packed (lzma), the
    remedy packs none."""
    model = _convolutions(n(96, 8), nn.SyncBatchNorm if DEVICE == "cuda" else nn.BatchNorm2d)
    shape = n(32, 2), 3, n(64, 16), n(64, 16)
    plain = np.random.default_rng(RANK).integers(0, 32, shape, np.uint8).tobytes()
    packed = None if fixed or RANK == 0 else lzma.compress(plain, preset=1)
    kinds = torch.randint(0, 100, shape[:1], device=DEVICE)

    def loss():
        read = bytearray(lzma.decompress(packed) if packed else plain)
        return _kind_loss(model, torch.frombuffer(read, dtype=torch.uint8).view(shape), kinds)

    return train(model, loss)


@pair("fix_straggler", found=True)
def histories_by_activity(fixed):
    """Customers' histories under DDP, dealt out in order of length: rank 1 has most; the remedy
    deals them in turn."""
    lengths = np.sort(np.random.default_rng(0).lognormal(4, 1.1, n(1024, 16)).astype(int) + 1)
    mine = int((lengths[RANK::2] if fixed else np.array_split(lengths, 2)[RANK]).sum())
    width = n(1024, 32)
    ddp = parallel(_deep(6, width, 16))
    events = torch.randn(mine, width, device=DEVICE)
    kinds = torch.randint(0, 16, (mine,), device=DEVICE)
    return train(ddp, lambda: F.cross_entropy(ddp(events), kinds), cast=True)


@pair("overlap_communication", found=True)
def reduced_in_a_loop(fixed):
    """A decoder whose gradients are reduced in a loop after the backward pass; the remedy is
    DDP."""
    inner = _decoder(n(6, 1), n(2048, 32))
    model = parallel(inner) if fixed else inner
    tokens = random_tokens(n(3, 1), n(513, 17))
    optimizer = torch.optim.AdamW(inner.parameters(), 1e-5, fused=True)

    def step():
        _next_word(model, tokens).backward()
        for p in inner.parameters() if not fixed else ():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
        optimizer.zero_grad()

    return step
