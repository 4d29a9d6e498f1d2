"""Training and inference loops in pairs that differ in one thing: what `ablations_record` records.

Each entry of `PAIRS` makes a step with the thing (`base`) or without it. Python work is a busy loop, so that it
takes as long on every host.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], object]

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu", int(os.environ.get("LOCAL_RANK", 0)))


@dataclass(frozen=True)
class Pair:
    """Two steps that differ in one thing."""

    make: Callable[[bool], Step]
    """Makes the step; the argument says whether the thing is in it."""
    removes: str
    scenario: str | None
    """The scenario that predicts the step without it; None where the pair only tells about the profiler."""
    world: int = 1


def think(seconds: float) -> None:
    """Python that keeps the host busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def mlp(layers: int, width: int) -> nn.Module:
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU()))).to(DEVICE)


def training(model: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> Step:
    def step() -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def sync_explicit(base: bool) -> Step:
    """A synchronize after each small layer."""
    layers = [nn.Linear(512, 512).to(DEVICE) for _ in range(24)]
    x = torch.randn(256, 512, device=DEVICE)

    def step() -> None:
        h = x
        with torch.no_grad():
            for layer in layers:
                h = torch.tanh(layer(h))
                if base and DEVICE.type == "cuda":
                    torch.cuda.synchronize()

    return step


def sync_loss(base: bool) -> Step:
    """`loss.item()` at the end of a step that the host cannot launch fast enough."""
    model = mlp(20, 256)
    train = training(model, torch.randn(16, 256, device=DEVICE), torch.optim.AdamW(model.parameters(), fused=True))

    def step() -> None:
        loss = train()
        if base:
            loss.item()

    return step


def sync_loss_busy(base: bool) -> Step:
    """`loss.item()` at the end of a step that keeps the GPU busy for longer than the host needs."""
    model = mlp(6, 4096)
    train = training(model, torch.randn(4096, 4096, device=DEVICE), torch.optim.SGD(model.parameters(), lr=1e-9))

    def step() -> None:
        loss = train()
        if base:
            loss.item()

    return step


def sync_mask(base: bool) -> Step:
    """Indexing by a mask, whose size the host must know, after each of some middling layers."""
    layers = [nn.Linear(2048, 2048).to(DEVICE) for _ in range(12)]
    x = torch.randn(1024, 2048, device=DEVICE)
    rows = torch.arange(1024, device=DEVICE)
    mask = torch.ones(1024, dtype=torch.bool, device=DEVICE)

    def step() -> None:
        h = x
        with torch.no_grad():
            for layer in layers:
                h = torch.relu(layer(h))
                h = h.index_select(0, mask.nonzero().flatten() if base else rows)

    return step


def python_exposed(base: bool) -> Step:
    """0.15 ms of Python after each small layer, forward and backward."""
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(12)).to(DEVICE)
    x = torch.randn(128, 512, device=DEVICE)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-9)

    def step() -> None:
        h = x
        for layer in layers:
            h = torch.relu(layer(h))
            if base:
                think(0.00015)
        h.sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def python_partly(base: bool) -> Step:
    """5 ms of Python at the start of a step whose GPU work takes about 3 ms: hidden in part by work queued before."""
    weight = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(8192, 4096, device=DEVICE, dtype=torch.bfloat16)

    def step() -> None:
        if base:
            think(0.005)
        h = x
        for _ in range(8):
            h = h @ weight

    return step


class Batches(torch.utils.data.IterableDataset):
    """Samples that take some Python each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            think(self.seconds)
            yield torch.zeros(3, 64, 64)


def _input(base: bool, seconds: float) -> Step:
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU()).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader = iter(torch.utils.data.DataLoader(Batches(seconds), batch_size=32))
    ready = torch.zeros(32, 3, 64, 64, device=DEVICE)

    def step() -> None:
        x = next(loader).to(DEVICE) if base else ready
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def input_slow(base: bool) -> Step:
    """A DataLoader without workers, 0.2 ms a sample."""
    return _input(base, 0.0002)


def input_slight(base: bool) -> Step:
    """A DataLoader without workers, 0.02 ms a sample."""
    return _input(base, 0.00002)


def copy_pageable(base: bool) -> Step:
    """64 MB from pageable memory, against the same from pinned memory on a stream beside the compute."""
    host = torch.randn(4096, 4096)
    pinned = host.pin_memory() if DEVICE.type == "cuda" else host
    weight = torch.randn(4096, 4096, device=DEVICE)
    beside = torch.cuda.Stream() if DEVICE.type == "cuda" else None
    target = [torch.empty(4096, 4096, device=DEVICE) for _ in range(2)]
    turn = 0

    def plain() -> torch.Tensor:
        x = host.to(DEVICE)
        for _ in range(4):
            x = x @ weight
        return x

    def prefetched() -> torch.Tensor:
        nonlocal turn
        turn = 1 - turn
        current = torch.cuda.current_stream()
        current.wait_stream(beside)
        x = target[turn]
        with torch.cuda.stream(beside):
            beside.wait_stream(current)
            target[1 - turn].copy_(pinned, non_blocking=True)
        for _ in range(4):
            x = x @ weight
        return x

    return plain if base or beside is None else prefetched


def graph_train(base: bool) -> Step:
    """A whole training step of small layers, against the same replayed from a CUDA graph."""
    model = mlp(16, 256)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=DEVICE.type == "cuda")
    x = torch.randn(16, 256, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    if base or DEVICE.type != "cuda":
        return step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def optimizer_fused(base: bool) -> Step:
    """AdamW over 60 small parameters: foreach against fused, in a step bound by launches."""
    model = mlp(30, 128)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=base, fused=not base)
    return training(model, torch.randn(16, 128, device=DEVICE), optimizer)


def optimizer_loop(base: bool) -> Step:
    """AdamW over 60 small parameters: one at a time against foreach."""
    model = mlp(30, 128)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not base)
    return training(model, torch.randn(16, 128, device=DEVICE), optimizer)


def _chain(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    for _ in range(6):
        h = x + bias
        inner = 0.79788 * (h + 0.044715 * h * h * h)
        x = 0.5 * h * (1.0 + torch.tanh(inner))
    return x


def _fused(base: bool, rows: int) -> Step:
    x, bias = torch.randn(rows, 2048, device=DEVICE), torch.randn(2048, device=DEVICE)
    call = _chain if base or DEVICE.type != "cuda" else torch.compile(_chain)
    return lambda: call(x, bias)


def fuse_small(base: bool) -> Step:
    """GELU written out on 32 x 2048 (bound by launches), against the same compiled."""
    return _fused(base, 32)


def fuse_large(base: bool) -> Step:
    """The same on 16384 x 2048 (bound by memory)."""
    return _fused(base, 16384)


def _join() -> None:
    if not torch.distributed.is_initialized():
        cuda = DEVICE.type == "cuda"
        torch.distributed.init_process_group("nccl" if cuda else "gloo", device_id=DEVICE if cuda else None)


def _ddp(model: nn.Module, x: torch.Tensor, **options: Any) -> Step:
    _join()
    wrapped = nn.parallel.DistributedDataParallel(model, **options)
    return training(wrapped, x, torch.optim.SGD(model.parameters(), lr=1e-9))


def _many() -> tuple[nn.Module, torch.Tensor]:
    return mlp(24, 1024), torch.randn(4096, 1024, device=DEVICE)


def _wide() -> tuple[nn.Module, torch.Tensor]:
    return mlp(8, 4096), torch.randn(512, 4096, device=DEVICE)


def buckets_small(base: bool) -> Step:
    """DDP with a bucket for every tensor, against buckets of 25 MB."""
    return _ddp(*_many(), bucket_cap_mb=0.1 if base else 25)


def buckets_large(base: bool) -> Step:
    """DDP with one bucket of everything, so that nothing overlaps, against buckets of 25 MB."""
    return _ddp(*_wide(), bucket_cap_mb=100_000 if base else 25)


def ddp_exposed_large(base: bool) -> Step:
    """DDP with one bucket of everything, against no communication at all."""
    model, x = _wide()
    if base:
        return _ddp(model, x, bucket_cap_mb=100_000)
    _join()
    return training(model, x, torch.optim.SGD(model.parameters(), lr=1e-9))


def reduce_after(base: bool) -> Step:
    """Gradients reduced one by one on the compute's stream after the backward, against DDP's overlap."""
    model, x = _wide()
    if not base:
        return _ddp(model, x, bucket_cap_mb=25, gradient_as_bucket_view=True)
    _join()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    def step() -> None:
        model(x).square().mean().backward()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _uneven(base: bool, extra: Callable[[], object]) -> Step:
    _join()
    weight = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)

    def step() -> None:
        h = x
        for _ in range(4):
            for _ in range(3):
                h = h @ weight
            if base and torch.distributed.get_rank() == 1:
                extra()
            torch.distributed.all_reduce(h)

    return step


def straggler_host(base: bool) -> Step:
    """Rank 1 spends 1 ms in Python before each collective."""
    return _uneven(base, lambda: think(0.001))


def straggler_sync(base: bool) -> Step:
    """Rank 1 synchronizes before each collective, then spends 0.3 ms in Python."""

    def wait() -> None:
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        think(0.0003)

    return _uneven(base, wait)


def straggler_device(base: bool) -> Step:
    """Rank 1 has twice the matrix products before each collective."""
    weight = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)

    def more() -> None:
        for _ in range(3):
            weight @ weight

    return _uneven(base, more)


PAIRS: dict[str, Pair] = {
    "sync_explicit": Pair(sync_explicit, "host sync: a synchronize after each small layer", "no_host_syncs"),
    "sync_loss": Pair(sync_loss, "host sync: loss.item() in a step bound by launches", "no_host_syncs"),
    "sync_loss_busy": Pair(sync_loss_busy, "host sync: loss.item() in a step bound by the GPU", "no_host_syncs"),
    "sync_mask": Pair(sync_mask, "host sync: nonzero() after each layer", "no_host_syncs"),
    "python_exposed": Pair(python_exposed, "host work: 0.15 ms of Python after each small layer", "no_host_work"),
    "python_partly": Pair(python_partly, "host work: 5 ms of Python at the start of a step", "no_host_work"),
    "input_slow": Pair(
        input_slow, "input wait: 0.2 ms of Python a sample, and its copy to the GPU", "input_ready+copies_hidden"
    ),
    "input_slight": Pair(
        input_slight, "input wait: 0.02 ms of Python a sample, and its copy to the GPU", "input_ready+copies_hidden"
    ),
    "copy_pageable": Pair(copy_pageable, "copy: 64 MB from pageable memory, exposed", "copies_hidden"),
    "graph_train": Pair(graph_train, "launch cost: a training step as one CUDA graph", "launches_free"),
    "optimizer_fused": Pair(optimizer_fused, "launches: AdamW foreach, then fused", "fused_optimizer"),
    "optimizer_loop": Pair(optimizer_loop, "launches: AdamW one at a time, then foreach", "foreach_optimizer"),
    "fuse_small": Pair(fuse_small, "launches: elementwise chains, launch-bound, then compiled", "fused_elementwise"),
    "fuse_large": Pair(fuse_large, "launches: elementwise chains, memory-bound, then compiled", "fused_elementwise"),
    "buckets_small": Pair(buckets_small, "buckets: one for every tensor, then 25 MB", "buckets=25MB", 2),
    "buckets_large": Pair(buckets_large, "buckets: one for everything, then 25 MB", "buckets=25MB", 2),
    "ddp_exposed_large": Pair(ddp_exposed_large, "communication: DDP in one bucket", "communication_free", 2),
    "reduce_after": Pair(reduce_after, "overlap: reduced after the backward, then DDP", "communication_overlapped", 2),
    "straggler_host": Pair(straggler_host, "straggler: 1 ms of Python on rank 1", "no_straggler", 2),
    "straggler_sync": Pair(
        straggler_sync, "straggler: a synchronize and 0.3 ms of Python on rank 1", "no_straggler", 2
    ),
    "straggler_device": Pair(straggler_device, "straggler: twice the matrix products on rank 1", "no_straggler", 2),
}
