"""Loops of two ranks in pairs that differ in one thing: recorded by `benchmarks.ablations_record`
under torchrun."""

import torch
import torch.distributed as dist
from torch import nn

from benchmarks.pairs.program import DEVICE, n, pair, train
from benchmarks.pairs.sets.ablations import mlp, think
from benchmarks.pairs.sets.ranks import RANK


def wrapped(model, x, **options):
    ddp = nn.parallel.DistributedDataParallel(model, **options)
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: ddp(x).square().mean())


def wide():
    return mlp(n(8, 2), n(4096, 64)), torch.randn(n(512, 4), n(4096, 64), device=DEVICE)


@pair("larger_buckets", ablation=("buckets: one for every tensor, then 25 MB", "buckets=25MB"))
def buckets_small(fixed):
    """DDP with a bucket for every tensor, against buckets of 25 MB."""
    x = torch.randn(n(4096, 4), 1024, device=DEVICE)
    return wrapped(mlp(n(24, 2), 1024), x, bucket_cap_mb=25 if fixed else 0.1)


@pair("smaller_buckets", ablation=("buckets: one for everything, then 25 MB", "buckets=25MB"))
def buckets_large(fixed):
    """DDP with one bucket of everything, so that nothing overlaps, against buckets of 25 MB."""
    return wrapped(*wide(), bucket_cap_mb=25 if fixed else 100_000)


@pair("overlap_communication", ablation=("communication: DDP in one bucket", "communication_free"))
def ddp_exposed_large(fixed):
    """DDP with one bucket of everything, against no communication at all."""
    model, x = wide()
    if not fixed:
        return wrapped(model, x, bucket_cap_mb=100_000)
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: model(x).square().mean())


@pair(
    "overlap_communication",
    ablation=("overlap: reduced after the backward, then DDP", "communication_overlapped"),
)
def reduce_after(fixed):
    """Gradients reduced one by one on the compute's stream after the backward, against DDP's
    overlap."""
    model, x = wide()
    if fixed:
        return wrapped(model, x, bucket_cap_mb=25, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    def step():
        model(x).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()

    return step


def uneven(fixed, extra):
    """Products and a collective, four times a step; rank 1 does something more before each
    collective."""
    weight, x = (
        torch.randn(n(4096, 64), n(4096, 64), device=DEVICE, dtype=torch.bfloat16) for _ in range(2)
    )

    def step():
        h = x
        for _ in range(4):
            for _ in range(3):
                h = h @ weight
            if not fixed and RANK == 1:
                extra()
            dist.all_reduce(h)

    return step


@pair("fix_straggler", ablation=("straggler: 1 ms of Python on rank 1", "no_straggler"))
def straggler_host(fixed):
    """Rank 1 spends 1 ms in Python before each collective."""
    return uneven(fixed, lambda: think(0.001))


@pair(
    "fix_straggler",
    ablation=("straggler: a synchronize and 0.3 ms of Python on rank 1", "no_straggler"),
)
def straggler_sync(fixed):
    """Rank 1 synchronizes before each collective, then spends 0.3 ms in Python."""

    def wait():
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        think(0.0003)

    return uneven(fixed, wait)


@pair("fix_straggler", ablation=("straggler: twice the matrix products on rank 1", "no_straggler"))
def straggler_device(fixed):
    """Rank 1 has twice the matrix products before each collective."""
    weight = torch.randn(n(4096, 64), n(4096, 64), device=DEVICE, dtype=torch.bfloat16)
    return uneven(fixed, lambda: [weight @ weight for _ in range(3)])
