"""Programs with one thing wrong, timed with it and without it: `python -m benchmarks.remedy_pairs OUT [SECONDS]`.

For a host with one GPU, timm and transformers. First every program and its remedy is timed with a stopwatch, before any
profiler has run in the process; then the programs are recorded as `collect torch` does. Writes `pairs.json` and the
captures, packed; with `--record` at the end the captures alone. `python -m benchmarks.remedies` holds the reports of
the captures against the times.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (the field's usual name)

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

DEVICE = os.environ.get("PAIRS_DEVICE", "cuda")
WARM_UP, ROUNDS, ROUND_S, LEAST_STEPS = 6, 3, 0.25, 3
PACKS = 4


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int, heads: int, *, written_out: bool = False) -> None:
        super().__init__()
        self.heads, self.written_out = heads, written_out
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if self.written_out:
            y = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


def _train(model: nn.Module, loss_of: Callable[[], Any], optimizer: Any = None) -> Step:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def remove_syncs(fixed: bool) -> Step:
    """A norm is read after every layer."""
    layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(24)).to(DEVICE)
    x = torch.randn(256, 1024, device=DEVICE)

    def step() -> None:
        y, norms = x, []
        with torch.no_grad():
            for layer in layers:
                y = torch.relu(layer(y))
                if not fixed:
                    norms.append(y.norm().item())

    return step


def batch_calls(fixed: bool) -> Step:
    """Texts are encoded one by one."""
    model = nn.Sequential(*(Block(384, 6) for _ in range(6))).to(DEVICE).eval()
    texts = torch.randn(24, 64, 384, device=DEVICE)

    def step() -> None:
        with torch.inference_mode():
            if fixed:
                model(texts)
            else:
                for text in texts:
                    model(text[None])

    return step


def fused_optimizer(fixed: bool) -> Step:
    """AdamW loops over parameters."""
    model = nn.Sequential(*(Block(512, 8) for _ in range(12))).to(DEVICE)
    x = torch.randn(8, 128, 512, device=DEVICE)
    how = {"fused": True} if fixed else {"foreach": False}
    return _train(model, lambda: model(x).square().mean(), torch.optim.AdamW(model.parameters(), **how))


def fuse_elementwise(fixed: bool) -> Step:
    """RMS norm and SiLU gate are written out."""
    x, w = torch.randn(8192, 4096, device=DEVICE), torch.randn(4096, device=DEVICE)

    def written(t):
        return t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    norm = (lambda t: F.rms_norm(t, (4096,), w, 1e-6)) if fixed else written

    def step() -> None:
        with torch.no_grad():
            y = x
            for _ in range(6):
                y = norm(y)

    return step


def fused_attention(fixed: bool) -> Step:
    """Attention is written out."""
    model = nn.Sequential(*(Block(1024, 16, written_out=not fixed) for _ in range(4))).to(DEVICE, torch.bfloat16)
    x = torch.randn(4, 2048, 1024, device=DEVICE, dtype=torch.bfloat16)
    return _train(model, lambda: model(x).float().square().mean())


def tf32(fixed: bool) -> Step:
    """A ViT in fp32 without TF32."""
    import timm

    model = timm.create_model("vit_small_patch16_224").to(DEVICE)
    x = torch.randn(64, 3, 224, 224, device=DEVICE)
    inner = _train(model, lambda: model(x).square().mean())

    def step() -> None:
        torch.set_float32_matmul_precision("high" if fixed else "highest")
        inner()
        torch.set_float32_matmul_precision("highest")

    return step


def low_precision(fixed: bool) -> Step:
    """A ViT in fp32 with TF32; the remedy is bf16 autocast."""
    import timm

    model = timm.create_model("vit_base_patch16_224").to(DEVICE)
    x = torch.randn(48, 3, 224, 224, device=DEVICE)

    def loss() -> Any:
        torch.set_float32_matmul_precision("high")
        with torch.autocast("cuda", torch.bfloat16, enabled=fixed):
            return model(x).float().square().mean()

    return _train(model, loss)


def channels_last(fixed: bool) -> Step:
    """ResNet-50 in bf16 with NCHW tensors."""
    import timm

    form = torch.channels_last if fixed else torch.contiguous_format
    model = timm.create_model("resnet50").to(DEVICE, memory_format=form)
    x = torch.randn(96, 3, 224, 224, device=DEVICE).to(memory_format=form)

    def loss() -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float().square().mean()

    return _train(model, loss)


def pad_shapes(fixed: bool) -> Step:
    """A vocabulary of 50257."""
    vocabulary = 50304 if fixed else 50257
    trunk = nn.Sequential(*(Block(768, 12) for _ in range(4)))
    model = nn.Sequential(trunk, nn.Linear(768, vocabulary, bias=False)).to(DEVICE, torch.bfloat16)
    x = torch.randn(8, 1024, 768, device=DEVICE, dtype=torch.bfloat16)
    y = torch.randint(0, 50257, (8 * 1024,), device=DEVICE)
    return _train(model, lambda: F.cross_entropy(model(x).view(-1, vocabulary), y))


class Slow(torch.utils.data.Dataset):
    """Samples that take CPU time to decode."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        rng = np.random.default_rng(index)
        return torch.from_numpy(np.sort(rng.random((3, 128, 128), np.float32), axis=-1))


def data_loader_workers(fixed: bool) -> Step:
    """A loader without workers."""
    import timm

    model = timm.create_model("resnet18").to(DEVICE)
    more = {"num_workers": 8, "persistent_workers": True, "prefetch_factor": 4} if fixed else {}
    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=32, pin_memory=True, **more))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        model(next(batches).to(DEVICE, non_blocking=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def no_recompute(fixed: bool) -> Step:
    """Every block is checkpointed although memory is free."""
    from torch.utils.checkpoint import checkpoint

    blocks = nn.ModuleList(Block(1024, 16) for _ in range(8)).to(DEVICE, torch.bfloat16)
    x = torch.randn(8, 1024, 1024, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)

    def loss() -> Any:
        y = x
        for block in blocks:
            y = block(y) if fixed else checkpoint(block, y, use_reentrant=False)
        return y.float().square().mean()

    return _train(blocks, loss)


def cuda_graph(fixed: bool) -> Step:
    """Inference of many tiny layers."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(48))).to(DEVICE).eval()
    x = torch.randn(8, 256, device=DEVICE)
    with torch.inference_mode():
        model(x)
    if not fixed:
        return lambda: torch.inference_mode()(model)(x)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        model(x)
    return graph.replay


def pinned_memory(fixed: bool) -> Step:
    """Large batches come from pageable memory."""
    batch = torch.randn(256, 3, 224, 224)
    batch = batch.pin_memory() if fixed else batch
    net = nn.Sequential(nn.Conv2d(3, 64, 7, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1)).to(DEVICE)

    def step() -> None:
        with torch.no_grad():
            net(batch.to(DEVICE, non_blocking=fixed))

    return step


def keep_on_device(fixed: bool) -> Step:
    """A constant table is copied to the GPU in every step."""
    table = torch.randn(16384, 1024)
    table = table.to(DEVICE) if fixed else table
    index = torch.randint(0, 16384, (8192,), device=DEVICE)
    layer = nn.Linear(1024, 1024).to(DEVICE)

    def step() -> None:
        with torch.no_grad():
            layer(table.to(DEVICE)[index])

    return step


def fused_rnn(fixed: bool) -> Step:
    """A loop over LSTM cells."""
    x = torch.randn(96, 32, 256, device=DEVICE)
    cell = nn.LSTMCell(256, 256).to(DEVICE)
    whole = nn.LSTM(256, 256).to(DEVICE)

    def loss() -> Any:
        if fixed:
            return whole(x)[0].square().mean()
        state = (torch.zeros(32, 256, device=DEVICE), torch.zeros(32, 256, device=DEVICE))
        out = []
        for row in x:
            state = cell(row, state)
            out.append(state[0])
        return torch.stack(out).square().mean()

    return _train(whole if fixed else cell, loss)


def batched_matmul(fixed: bool) -> Step:
    """Experts are multiplied one by one."""
    experts, tokens = torch.randn(64, 256, 256, device=DEVICE), torch.randn(64, 32, 256, device=DEVICE)

    def step() -> None:
        if fixed:
            torch.bmm(tokens, experts)
        else:
            torch.stack([t @ e for t, e in zip(tokens, experts, strict=True)])

    return step


def compiled(fixed: bool) -> Step:
    """Convolutions with group norm and SiLU, eager."""
    layers = [nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.SiLU()) for _ in range(8)]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(16, 64, 128, 128, device=DEVICE)
    forward = torch.compile(model) if fixed else model
    return _train(model, lambda: forward(x).square().mean())


def avoid_allocations(fixed: bool) -> Step:
    """The cache is emptied in every step."""
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).to(DEVICE)
    x = torch.randn(4096, 2048, device=DEVICE)
    inner = _train(model, lambda: model(x).square().mean())

    def step() -> None:
        inner()
        if not fixed:
            torch.cuda.empty_cache()

    return step


def move_host_work(fixed: bool) -> Step:
    """Python computes statistics between steps."""
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).to(DEVICE)
    x, log = torch.randn(4096, 2048, device=DEVICE), np.random.default_rng(0).random(300_000)
    inner = _train(model, lambda: model(x).square().mean())

    def step() -> None:
        inner()
        if not fixed:
            np.sort(log)

    return step


def fixed_shapes(fixed: bool) -> Step:
    """cuDNN's benchmark mode meets a new width in every step."""
    net = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(4))).to(DEVICE)
    widths = iter(range(64, 4000))

    def step() -> None:
        torch.backends.cudnn.benchmark = True
        with torch.no_grad():
            net(torch.zeros(8, 32, 64, 512 if fixed else next(widths), device=DEVICE))

    return step


PAIRS = {f.__name__: f for f in (
    remove_syncs, batch_calls, fused_optimizer, fuse_elementwise, fused_attention, tf32, low_precision, channels_last,
    pad_shapes, data_loader_workers, no_recompute, cuda_graph, pinned_memory, keep_on_device, fused_rnn, batched_matmul,
    avoid_allocations, move_host_work, fixed_shapes, compiled,
)}  # fmt: skip
"""By the remedy's name; the slow one last."""
REMEDY = {"compiled": "compile"}


def rounds_ms(step: Step) -> list[float]:
    """Mean step time of each round, the device waited for at both ends."""
    for _ in range(WARM_UP):
        step()
    times, steps = [], LEAST_STEPS
    for number in range(ROUNDS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / steps * 1e3)
        if number == 0:
            steps = max(LEAST_STEPS, min(int(ROUND_S * 1e3 / times[0]), 400))
    return times[1:]


def record(step: Step, folder: Path) -> None:
    """A capture as `collect torch` makes it; the steps are known here."""
    from traceanalyzer.collect.attach import Attached
    from traceanalyzer.collect.plan import Plan

    folder.mkdir(parents=True)
    attached = Attached(Plan(folder=str(folder), wait=4, unprofiled_steps=10, light_steps=3))
    for _ in range(120):
        step()
        attached._step()
        if attached._recorder.finished:
            break


def main() -> None:
    """Time all, then record all, within the seconds given."""
    from benchmarks.collect_light import pack

    out, until = Path(sys.argv[1]), time.monotonic() + float((sys.argv[2:] or ["600"])[0])
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        timed = {} if "--record" in sys.argv else PAIRS
        found = {name: {} for name in PAIRS} if not timed else found
        for name, make in timed.items():
            if time.monotonic() > until - 45:
                break
            torch.manual_seed(0)
            row: dict[str, Any] = {"remedy": REMEDY.get(name, name), "what": make.__doc__}
            begin = time.monotonic()
            for kind, fixed in (("base_ms", False), ("fix_ms", True)):
                try:
                    row[kind] = rounds_ms(make(fixed))
                except Exception as error:
                    row["failed"] = f"{kind}: {error!r}"[:300]
            found[name] = row
            (out / "pairs.json").write_text(json.dumps(found, indent=1))
            print(f"{time.monotonic() - begin:5.1f} s {name} {row.get('base_ms')} {row.get('fix_ms')}", flush=True)
        torch.set_float32_matmul_precision("highest")
        for name in found:
            if time.monotonic() > until - 6:
                break
            with contextlib.suppress(Exception):
                begin, step = time.monotonic(), PAIRS[name](False)
                for _ in range(WARM_UP):
                    step()
                record(step, Path(folder) / name)
                print(f"{time.monotonic() - begin:5.1f} s {name} recorded", flush=True)
        pack(Path(folder), out)


if __name__ == "__main__":
    main()
