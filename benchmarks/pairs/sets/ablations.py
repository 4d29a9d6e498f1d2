"""Loops in pairs that differ in one thing, recorded by `benchmarks.ablations_record`; their Python
only takes time."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.pairs.program import DEVICE, graphed, n, pair, train


def think(seconds):  # Python that keeps any host busy for as long
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def mlp(layers, width):
    return nn.Sequential(
        *(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU()))
    ).to(DEVICE)


def training(model, x, optimizer, after=lambda loss: None):
    def step():
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(loss)

    return step


@pair("remove_syncs", ablation=("host sync: a synchronize after each small layer", "no_host_syncs"))
def sync_explicit(fixed):
    """A synchronize after each small layer."""
    layers = [nn.Linear(512, 512).to(DEVICE) for _ in range(24)]
    x = torch.randn(256, 512, device=DEVICE)

    def step():
        h = x
        with torch.no_grad():
            for layer in layers:
                h = torch.tanh(layer(h))
                if not fixed and DEVICE == "cuda":
                    torch.cuda.synchronize()

    return step


@pair(
    "remove_syncs", ablation=("host sync: loss.item() in a step bound by launches", "no_host_syncs")
)
def sync_loss(fixed):
    """`loss.item()` at the end of a step that the host cannot launch fast enough."""
    model = mlp(20, 256)
    x = torch.randn(16, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return training(model, x, optimizer, lambda loss: None if fixed else loss.item())


@pair(
    "remove_syncs", ablation=("host sync: loss.item() in a step bound by the GPU", "no_host_syncs")
)
def sync_loss_busy(fixed):
    """`loss.item()` at the end of a step that keeps the GPU busy for longer than the host needs."""
    model = mlp(n(6, 1), 4096)
    x = torch.randn(n(4096, 4), 4096, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    return training(model, x, optimizer, lambda loss: None if fixed else loss.item())


@pair("remove_syncs", ablation=("host sync: nonzero() after each layer", "no_host_syncs"))
def sync_mask(fixed):
    """Indexing by a mask, whose size the host must know, after each of some middling layers."""
    layers = [nn.Linear(2048, 2048).to(DEVICE) for _ in range(12)]
    x = torch.randn(1024, 2048, device=DEVICE)
    rows = torch.arange(1024, device=DEVICE)
    mask = torch.ones(1024, dtype=torch.bool, device=DEVICE)

    def step():
        h = x
        with torch.no_grad():
            for layer in layers:
                h = torch.relu(layer(h))
                h = h.index_select(0, rows if fixed else mask.nonzero().flatten())

    return step


@pair(
    "move_host_work",
    ablation=("host work: 0.15 ms of Python after each small layer", "no_host_work"),
)
def python_exposed(fixed):
    """0.15 ms of Python after each small layer, forward and backward."""
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(12)).to(DEVICE)
    x = torch.randn(128, 512, device=DEVICE)

    def loss():
        h = x
        for layer in layers:
            h = torch.relu(layer(h))
            if not fixed:
                think(0.00015)
        return h.sum()

    return train(torch.optim.SGD(layers.parameters(), lr=1e-9), loss)


@pair(
    "move_host_work", ablation=("host work: 5 ms of Python at the start of a step", "no_host_work")
)
def python_partly(fixed):
    """5 ms of Python at the start of a step whose GPU work takes about 3 ms: hidden in part by work
    queued before."""
    weight = torch.randn(n(4096, 64), n(4096, 64), device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(n(8192, 4), n(4096, 64), device=DEVICE, dtype=torch.bfloat16)

    def step():
        if not fixed:
            think(0.005)
        h = x
        for _ in range(8):
            h = h @ weight

    return step


class Batches(IterableDataset):  # Samples that take some Python each
    def __init__(self, seconds):
        self.seconds = seconds

    def __iter__(self):
        while True:
            think(self.seconds)
            yield torch.zeros(3, 64, 64)


def waiting_for_input(fixed, seconds):
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU()
    ).to(DEVICE)
    loader = iter(DataLoader(Batches(seconds), batch_size=32))
    ready = torch.zeros(32, 3, 64, 64, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    return train(
        optimizer, lambda: model(ready if fixed else next(loader).to(DEVICE)).square().mean()
    )


INPUT = "input_ready+copies_hidden"


@pair(
    "data_loader_workers",
    ablation=("input wait: 0.2 ms of Python a sample, and its copy to the GPU", INPUT),
)
def input_slow(fixed):
    """A DataLoader without workers, 0.2 ms a sample."""
    return waiting_for_input(fixed, 0.0002)


@pair(
    "data_loader_workers",
    ablation=("input wait: 0.02 ms of Python a sample, and its copy to the GPU", INPUT),
)
def input_slight(fixed):
    """A DataLoader without workers, 0.02 ms a sample."""
    return waiting_for_input(fixed, 0.00002)


@pair("copy_ahead", ablation=("copy: 64 MB from pageable memory, exposed", "copies_hidden"))
def copy_pageable(fixed):
    """64 MB from pageable memory, against the same from pinned memory on a stream beside the
    compute."""
    side = n(4096, 64)
    host = torch.randn(side, side)
    weight = torch.randn(side, side, device=DEVICE)

    def times(x):
        for _ in range(4):
            x = x @ weight

    if not fixed or DEVICE != "cuda":
        return lambda: times(host.to(DEVICE))
    pinned = host.pin_memory()
    beside = torch.cuda.Stream()
    target = [torch.empty(side, side, device=DEVICE) for _ in range(2)]

    def prefetched():
        current = torch.cuda.current_stream()
        current.wait_stream(beside)
        target.reverse()
        with torch.cuda.stream(beside):
            beside.wait_stream(current)
            target[0].copy_(pinned, non_blocking=True)
        times(target[1])

    return prefetched


@pair("cuda_graph", ablation=("launch cost: a training step as one CUDA graph", "launches_free"))
def graph_train(fixed):
    """A whole training step of small layers, against the same replayed from a CUDA graph."""
    model = mlp(16, 256)
    x = torch.randn(16, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=DEVICE == "cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    return graphed(step) if fixed else step


@pair("fused_optimizer", ablation=("launches: AdamW foreach, then fused", "fused_optimizer"))
def optimizer_fused(fixed):
    """AdamW over 60 small parameters: foreach against fused, in a step bound by launches."""
    model = mlp(30, 128)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not fixed, fused=fixed)
    return training(model, torch.randn(16, 128, device=DEVICE), optimizer)


@pair(
    "fused_optimizer", ablation=("launches: AdamW one at a time, then foreach", "foreach_optimizer")
)
def optimizer_loop(fixed):
    """AdamW over 60 small parameters: one at a time against foreach."""
    model = mlp(30, 128)
    return training(
        model,
        torch.randn(16, 128, device=DEVICE),
        torch.optim.AdamW(model.parameters(), foreach=fixed),
    )


def chain(x, bias):
    for _ in range(6):
        h = x + bias
        inner = 0.79788 * (h + 0.044715 * h * h * h)
        x = 0.5 * h * (1.0 + torch.tanh(inner))
    return x


def gelu_written_out(fixed, rows):
    x = torch.randn(rows, 2048, device=DEVICE)
    bias = torch.randn(2048, device=DEVICE)
    call = torch.compile(chain) if fixed and DEVICE == "cuda" else chain
    return lambda: call(x, bias)


@pair(
    "compile",
    ablation=("launches: elementwise chains, launch-bound, then compiled", "fused_elementwise"),
)
def fuse_small(fixed):
    """GELU written out on 32 x 2048 (bound by launches), against the same compiled."""
    return gelu_written_out(fixed, 32)


@pair(
    "compile",
    ablation=("launches: elementwise chains, memory-bound, then compiled", "fused_elementwise"),
)
def fuse_large(fixed):
    """The same on 16384 x 2048 (bound by memory)."""
    return gelu_written_out(fixed, n(16384, 64))
