"""Records the sample traces on a GPU host: `python record.py OUTPUT_FOLDER [NAME...]`.

Each workload has one deliberate bottleneck. It is timed first without a profiler (median of five rounds of 20
steps), then recorded with torch.profiler (4 active steps). `manifest.json` keeps the times.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS, STEPS = 5, 20
DEVICE = "cuda"


def launch_bound() -> Callable[[], object]:
    """30 small linear layers in eager mode, batch 8: the host cannot launch as fast as the GPU runs."""
    model = nn.Sequential(*(m for _ in range(30) for m in (nn.Linear(256, 256), nn.GELU()))).to(DEVICE)
    x = torch.randn(8, 256, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with record_function("forward"):
            loss = model(x).square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
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


WORKLOADS: dict[str, Callable[[], Callable[[], object]]] = {
    f.__name__: f
    for f in (
        launch_bound,
        cuda_graph,
        sync_bound,
        input_bound,
        host_bound,
        compute_bound,
        memory_bound,
        transfer_bound,
        compiled,
    )
}
STACKS = {"sync_bound", "host_bound"}
MEMORY = {"compiled"}


def unprofiled_ms(step: Callable[[], object]) -> list[float]:
    """Mean step time of each round, ms."""
    for _ in range(10):
        step()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / STEPS * 1e3)
    return rounds


def without_paths(trace: bytes) -> bytes:
    """The trace without its own path and the folders of source files, which say where it was recorded."""
    trace = re.sub(rb',\s*"traceName": "[^"]*"', b"", trace)
    return re.sub(rb'"(?:/[^"/]+)+/([^"/]+\.py)', rb'"\1', trace)


def record(name: str, step: Callable[[], object], folder: Path) -> None:
    """Write NAME.json.gz and what the profiler itself says of it, NAME.key_averages.json."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=2, active=4),
        record_shapes=True,
        with_stack=name in STACKS,
        profile_memory=name in MEMORY,
    ) as recording:
        for _ in range(7):
            step()
            recording.step()
        torch.cuda.synchronize()
    plain = folder / f"{name}.json"
    recording.export_chrome_trace(str(plain))
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(without_paths(plain.read_bytes()), mtime=0))
    plain.unlink()
    rows = [
        {
            "name": e.key,
            "count": e.count,
            "cpu_us": e.cpu_time_total,
            "self_cpu_us": e.self_cpu_time_total,
            "device_us": e.device_time_total,
            "self_device_us": e.self_device_time_total,
        }
        for e in recording.key_averages()
    ]
    (folder / f"{name}.key_averages.json").write_text(json.dumps(rows))


def main() -> None:
    """Time and record the named workloads, or all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name in sys.argv[2:] or WORKLOADS:
        torch.manual_seed(0)
        step = WORKLOADS[name]()
        rounds = unprofiled_ms(step)
        record(name, step, folder)
        manifest[name] = {
            "workload": WORKLOADS[name].__doc__,
            "step_ms_unprofiled": round(statistics.median(rounds), 4),
            "rounds_ms": [round(r, 4) for r in rounds],
        }
        print(name, manifest[name]["step_ms_unprofiled"], flush=True)
    manifest["recorded_on"] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
