"""Workloads with one deliberate bottleneck each: `python workloads.py NAME [STEPS]` runs one in a plain loop."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import torch
from torch import nn

from traceanalyzer import annotate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICE = "cuda"
STEPS = 80


def launch_bound() -> Callable[[], object]:
    """30 small linear layers in eager mode, batch 8: the host cannot launch as fast as the GPU runs."""
    model = nn.Sequential(*(m for _ in range(30) for m in (nn.Linear(256, 256), nn.GELU()))).to(DEVICE)
    x = torch.randn(8, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with annotate("forward"):
            loss = model(x).square().mean()
        with annotate("backward"):
            loss.backward()
        with annotate("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    return step


def cuda_graph() -> Callable[[], object]:
    """The forward pass of the same model, replayed from a CUDA graph."""
    model = nn.Sequential(*(m for _ in range(30) for m in (nn.Linear(256, 256), nn.GELU()))).to(DEVICE)
    x = torch.randn(8, 256, device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
    return graph.replay


def sync_bound() -> Callable[[], object]:
    """A greedy loop that reads a value from the GPU after every layer."""
    layers = [nn.Linear(1024, 1024).to(DEVICE) for _ in range(16)]
    x = torch.randn(512, 1024, device=DEVICE)

    def step() -> float:
        h, total = x, 0.0
        with torch.no_grad():
            for layer in layers:
                h = torch.tanh(layer(h))
                total += h.abs().max().item()
        return total

    return step


def sync_fixed() -> Callable[[], object]:
    """The same loop with its total kept on the GPU and read once, at the end of the step."""
    layers = [nn.Linear(1024, 1024).to(DEVICE) for _ in range(16)]
    x = torch.randn(512, 1024, device=DEVICE)

    def step() -> float:
        h, total = x, torch.zeros((), device=DEVICE)
        with torch.no_grad():
            for layer in layers:
                h = torch.tanh(layer(h))
                total += h.abs().max()
        return total.item()

    return step


def sync_every_layer() -> Callable[[], object]:
    """24 small layers, and a value read from the GPU after each: the GPU is idle most of the step."""
    layers = [nn.Linear(512, 512).to(DEVICE) for _ in range(24)]
    x = torch.randn(64, 512, device=DEVICE)

    def step() -> float:
        h, largest = x, 0.0
        with torch.no_grad():
            for layer in layers:
                h = torch.relu(layer(h))
                largest = max(largest, h.abs().max().item())
        return largest

    return step


def input_bound() -> Callable[[], object]:
    """A convolutional network fed by a DataLoader without workers that takes 0.4 ms of Python a sample."""

    class Slow(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
            while True:
                end = time.perf_counter() + 0.0004
                while time.perf_counter() < end:
                    pass
                yield torch.zeros(3, 64, 64), 0

    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 256, 10),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=32))

    def step() -> None:
        x, y = next(batches)
        loss = nn.functional.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def host_bound() -> Callable[[], object]:
    """Pure Python (0.3 ms) between the layers."""
    layers = [nn.Linear(512, 512).to(DEVICE) for _ in range(8)]
    x = torch.randn(64, 512, device=DEVICE)

    def think() -> None:
        end = time.perf_counter() + 0.0003
        while time.perf_counter() < end:
            pass

    def step() -> None:
        h = x
        with torch.no_grad():
            for layer in layers:
                h = torch.relu(layer(h))
                think()

    return step


def compute_bound() -> Callable[[], object]:
    """Large bf16 matrix products."""
    a = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)

    def step() -> None:
        h = a
        for _ in range(4):
            h = h @ b

    return step


def memory_bound() -> Callable[[], object]:
    """RMSNorm and a gated activation written out in elementwise operators on 16384 x 4096."""
    x = torch.randn(16384, 4096, device=DEVICE, dtype=torch.bfloat16)
    gate = torch.randn_like(x)
    weight = torch.ones(4096, device=DEVICE, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        h = x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight
        return h * torch.sigmoid(gate) * gate

    return step


def transfer_bound() -> Callable[[], object]:
    """A batch of 64 MB copied from pageable memory every step, on the compute stream."""
    batch = torch.randn(4096, 4096)
    weight = torch.randn(4096, 4096, device=DEVICE)

    def step() -> torch.Tensor:
        return batch.to(DEVICE) @ weight

    return step


def compiled() -> Callable[[], object]:
    """A small transformer layer compiled with Inductor (Triton kernels), forward and backward."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0).to(DEVICE)
    model = torch.compile(layer)
    x = torch.randn(16, 256, 512, device=DEVICE)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)

    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def wasteful_kernels() -> Callable[[], object]:
    """A busy GPU whose kernels could all do better: attention written out, sizes that are no multiple of 8, images
    with channels first, a foreach optimizer, small products one by one, a weight cast and copied again and again."""
    half = torch.bfloat16
    query, key, value = (torch.randn(8, 16, 1024, 64, device=DEVICE, dtype=half) for _ in range(3))
    odd, odd_weight = (torch.randn(4093, 4099, device=DEVICE, dtype=half).t() for _ in range(2))
    convolutions = nn.Sequential(*(nn.Conv2d(128, 128, 3, padding=1) for _ in range(3))).to(DEVICE)
    images = torch.randn(28, 128, 56, 56, device=DEVICE)
    heads, small = (
        torch.randn(32, 192, 192, device=DEVICE, dtype=half),
        torch.randn(192, 192, device=DEVICE, dtype=half),
    )
    weight, rows = torch.randn(8192, 4096, device=DEVICE), torch.randn(256, 4096, device=DEVICE, dtype=half)
    held = weight.to(half)
    state = nn.Parameter(torch.randn(24_000_000, device=DEVICE))
    optimizer = torch.optim.Adam([state, *convolutions.parameters()], foreach=True)

    def step() -> None:
        scores = torch.matmul(query, key.transpose(-2, -1)) * 0.125
        attended = torch.matmul(torch.softmax(scores, dim=-1), value)
        attended.transpose(1, 2).contiguous().add(value.transpose(1, 2)).transpose(1, 2).contiguous()
        for _ in range(2):
            torch.matmul(odd.t(), odd_weight)
        for head in heads:
            torch.matmul(head, small)
        for _ in range(9):
            torch.matmul(rows, weight.to(half).t())
        for _ in range(4):
            torch.matmul(rows, held.t().contiguous())
        loss = convolutions(images).square().mean() + state.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def changing_shapes() -> Callable[[], object]:
    """A small convolutional network trained at another resolution each step, with cudnn.benchmark on."""
    torch.backends.cudnn.benchmark = True
    widths = (3, 64, 128, 256)
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sizes = itertools.count(224, 2)

    def step() -> None:
        size = next(sizes)
        model(torch.randn(32, 3, size, size, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def irregular() -> Callable[[], object]:
    """Every fourth step has twice the work, a checkpoint is written every 60th, and the work grows by a fifth."""
    a = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
    weights = torch.randn(4096, 4096)
    done = itertools.count()

    def step() -> None:
        number = next(done)
        for _ in range((20 + number * 4 // 300) * (2 if number % 4 == 0 else 1)):
            torch.matmul(a, a)
        if number % 60 == 30:
            torch.cuda.synchronize()
            with tempfile.TemporaryFile() as file:
                torch.save(weights, file)

    return step


def tensor_parallel() -> Callable[[], object]:
    """Two ranks: a matrix product halved between them and an all_reduce, eight times (torchrun)."""
    rank = _join()
    w1 = torch.randn(4096, 2048, device=rank, dtype=torch.bfloat16)
    w2 = torch.randn(2048, 4096, device=rank, dtype=torch.bfloat16)
    x = torch.randn(1024, 4096, device=rank, dtype=torch.bfloat16)

    def step() -> None:
        h = x
        for _ in range(8):
            h = torch.relu(h @ w1) @ w2
            torch.distributed.all_reduce(h)

    return step


def communication_bound() -> Callable[[], object]:
    """Two ranks: narrow matrix products, an all_reduce of 64 MB after each pair, four times (torchrun)."""
    rank = _join()
    w1 = torch.randn(4096, 256, device=rank, dtype=torch.bfloat16)
    w2 = torch.randn(256, 4096, device=rank, dtype=torch.bfloat16)
    x = torch.randn(8192, 4096, device=rank, dtype=torch.bfloat16)

    def step() -> None:
        h = x
        for _ in range(4):
            h = (h @ w1) @ w2
            torch.distributed.all_reduce(h)

    return step


def straggler() -> Callable[[], object]:
    """Two ranks: matrix products, then an all_reduce; rank 1 has twice as many (torchrun)."""
    rank = _join()
    a = torch.randn(4096, 4096, device=rank, dtype=torch.bfloat16)

    def step() -> None:
        h = a
        for _ in range(10 * (rank + 1)):
            h = h @ a
        torch.distributed.all_reduce(h)

    return step


def _join() -> int:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    return rank


WORKLOADS: dict[str, Callable[[], Callable[[], object]]] = {
    f.__name__: f
    for f in (
        launch_bound, cuda_graph, sync_bound, sync_fixed, sync_every_layer, input_bound, host_bound, compute_bound,
        memory_bound, transfer_bound, compiled, wasteful_kernels, changing_shapes, irregular, tensor_parallel,
        communication_bound, straggler,
    )
}  # fmt: skip


def one_step(step: Callable[[], object]) -> None:
    """What the collectors take for a step (`--step-on one_step`)."""
    step()


def main() -> None:
    """Run a workload for some steps."""
    torch.manual_seed(0)
    step = WORKLOADS[sys.argv[1]]()
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else STEPS):
        one_step(step)
    torch.cuda.synchronize()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
